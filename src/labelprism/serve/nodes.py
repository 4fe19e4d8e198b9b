"""What is below a node of a tree, and how it divides examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelprism._arrays import Int64
from labelprism.serve.errors import RequestError
from labelprism.serve.served_model import ServedModel

_MOST_LABELS = 20
_MOST_FEATURES = 20


def node_report(model: ServedModel, node: int) -> dict[str, Any]:
    """Return the labels below a node by their share of the mass there, and the strongest features of its router.

    Parameters
    ----------
    model : ServedModel
    node : int

    Returns
    -------
    dict
        As `schemas.NodeReport` has it.
    """
    recipe = model.classifier.__dict__.get("recipe_")
    trees: Any = recipe.forest_ if recipe is not None else model.classifier.filter_
    if not hasattr(trees, "children_"):
        raise RequestError(404, "no_trees", f"the filter of the model {model.name} has no trees")
    children = np.asarray(trees.children_, np.int64)
    if node >= children.size:
        last = children.size - 1
        raise RequestError(404, "unknown_node", f"there is no node {node}; nodes go from 0 to {last}")
    parents = _parents(children)
    way = [node]
    while parents[way[-1]] >= 0:
        way.append(int(parents[way[-1]]))
    leaves = np.flatnonzero(np.isin(trees.leaf_nodes_, _below(children, node)))
    mass = _label_mass(trees, leaves)
    order = np.lexsort((np.arange(mass.size), -mass))[:_MOST_LABELS]
    order = order[mass[order] > 0]
    total = float(mass.sum()) or 1.0
    return {
        "node": node,
        "tree": way[-1],
        "depth": len(way) - 1,
        "parent": int(parents[node]) if parents[node] >= 0 else None,
        "left": int(children[node]) if children[node] >= 0 else None,
        "right": int(children[node]) + 1 if children[node] >= 0 else None,
        "leaves": int(leaves.size),
        "n_labels": int(np.count_nonzero(mass)),
        "labels": [
            {"label": int(label), "name": model.names[label], "share": round(float(mass[label]) / total, 6)}
            for label in order
        ],
        "features": _router(model, trees, node),
    }


def _parents(children: Int64) -> Int64:
    """Return the parent of each node, -1 for roots."""
    parents = np.full(children.size, -1)
    inner = np.flatnonzero(children >= 0)
    parents[children[inner]] = parents[children[inner] + 1] = inner
    return parents


def _below(children: Int64, node: int) -> Int64:
    """Return a node and all nodes below it."""
    level = np.array([node])
    found = [level]
    while (level := level[children[level] >= 0]).size:
        level = np.concatenate([children[level], children[level] + 1])
        found.append(level)
    return np.concatenate(found)


def _label_mass(trees: Any, leaves: Int64) -> Any:
    """Return the expected number of training examples of each label in some leaves, an array of shape (c,)."""
    table = trees.leaf_candidates_
    lengths = np.diff(table.indptr)[leaves]
    begins = table.indptr[leaves]
    places = np.repeat(begins - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(lengths.sum())
    weights = np.exp(table.data[places].astype(np.float64)) * np.repeat(np.asarray(trees.leaf_mass_)[leaves], lengths)
    return np.bincount(table.indices[places], weights=weights, minlength=table.shape[1])


def _router(model: ServedModel, trees: Any, node: int) -> list[dict[str, Any]]:
    if trees.children_[node] < 0 or not hasattr(trees.routers_, "indptr"):
        return []
    place = slice(trees.routers_.indptr[node], trees.routers_.indptr[node + 1])
    features, weights = trees.routers_.indices[place], trees.routers_.data[place]
    order = np.lexsort((features, -np.abs(weights)))[:_MOST_FEATURES]
    # A filter that sees features of its own numbers them anew.
    is_narrowed = model.classifier.__dict__.get("filter_features_") is not None
    names = [None] * order.size if is_narrowed else model.classifier._feature_names(features[order])
    found = zip(features[order].tolist(), names, weights[order].tolist(), strict=True)
    return [{"feature": feature, "name": name, "weight": round(weight, 6)} for feature, name, weight in found]
