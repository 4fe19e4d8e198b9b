"""What the page holds: as much of a view as fits, fit for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Int64
from labelprism.explore.summaries import candidates_of_leaves, coverage_of_labels, levels_of
from labelprism.explore.views import TreeView

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


class Detail(NamedTuple):
    """How much of a model goes into its page."""

    n_nodes: int
    """Beyond so many, what is below the lightest nodes is folded into them."""
    n_labels: int
    """Beyond so many, labels cannot be searched for, the rarest first."""
    n_places: int
    """Beyond so many, labels light up fewer of the nodes that hold them."""
    name_length: int
    """Longer names are cut."""


DETAILS = (
    Detail(16_000, 2_000_000, 1_200_000, 200),
    Detail(8_000, 1_000_000, 400_000, 100),
    Detail(4_000, 300_000, 300_000, 60),
    Detail(2_000, 100_000, 100_000, 40),
    Detail(500, 10_000, 10_000, 40),
)
"""From much to little."""


def payload(view: TreeView, examples: Sequence[dict[str, Any]], detail: Detail) -> dict[str, Any]:
    """Return what the page holds; `docs/explorer.md` has the layout.

    Parameters
    ----------
    view : TreeView
    examples : list of dict
        As `explained` returns them; the nodes on their ways are always there.
    detail : Detail
    """
    on_ways = [step[0] for example in examples for path in example["paths"] for step in path]
    kept = kept_nodes(view, detail.n_nodes, on_ways)
    labels = _kept_labels(view, kept, detail.n_labels)
    place = np.full(view.label_counts.size, -1, np.int64)
    place[labels] = np.arange(labels.size)
    return {
        "labels": {
            "names": [_cut(view.label_names[label], detail.name_length) for label in labels.tolist()],
            "counts": _numbers(view.label_counts[labels]),
            "total": int(view.label_counts.size),
            "groups": list(view.groups),
        },
        "nodes": _nodes(view, kept, place),
        "routers": _routers(view, kept),
        "places": _places(view, kept, labels, detail.n_places),
        "totals": {
            "nodes": int(view.nodes.children.size),
            "leaves": int(view.nodes.leaf_nodes.size),
            "trees": view.nodes.n_trees,
            "rows": view.n_rows,
            "filter_recall": None if view.filter_recall is None else _number(view.filter_recall),
            "budget": view.budget,
        },
        "model": _whole(view),
        "examples": list(examples),
    }


# --------------------------------------------------------------------------------------------------------- what is kept


def kept_nodes(view: TreeView, most: int, wanted: Iterable[int] = ()) -> Int64:
    """Return nodes to show, in ascending order: the heaviest with their siblings and ancestors, and those wanted.

    Parameters
    ----------
    view : TreeView
    most : int
        How many, those that are wanted and their siblings apart.
    wanted : iterable of int
        Nodes that must be there.
    """
    nodes = view.nodes
    inner = np.flatnonzero(nodes.children >= 0)
    # A parent weighs as much as its children together, so that the heaviest nodes have all their ancestors among them.
    heaviest = inner[np.lexsort((inner, nodes.depth[inner], -view.mass[inner]))][: max(0, (most - nodes.n_trees) // 2)]
    opened = np.zeros(nodes.children.size, bool)
    opened[heaviest] = True
    for node in set(wanted):
        while (node := int(nodes.parent[node])) >= 0 and not opened[node]:
            opened[node] = True
    left = nodes.children[opened].astype(np.int64)
    return np.sort(np.concatenate([nodes.levels[0], left, left + 1]))


def _kept_labels(view: TreeView, kept: Int64, most: int) -> Int64:
    """Return labels by how frequent they are, and if they are too many, all that kept nodes name, and the others."""
    by_count = np.lexsort((np.arange(view.label_counts.size), -view.label_counts))
    if by_count.size <= most:
        return by_count
    chosen = np.zeros(by_count.size, bool)
    for named in (view.labels.top[kept], view.labels.grown[kept]):
        chosen[named[named >= 0]] = True
    chosen[by_count[:most]] = True
    return by_count[chosen[by_count]]


def _ends(view: TreeView, kept: Int64) -> tuple[Bool, Int64]:
    """Return which kept nodes have no kept children, and for each leaf its place among all kept nodes."""
    is_kept = np.zeros(view.nodes.children.size, bool)
    is_kept[kept] = True
    place = np.full(is_kept.size, -1, np.int64)
    place[kept] = np.arange(kept.size)
    for level in view.nodes.levels[1:]:
        hidden = level[~is_kept[level]]
        place[hidden] = place[view.nodes.parent[hidden]]
    children = view.nodes.children[kept]
    is_end = (children < 0) | ~is_kept[np.maximum(children, 0)]
    return is_end, place[view.nodes.leaf_nodes]


# ------------------------------------------------------------------------------------------------------------ the parts


def _nodes(view: TreeView, kept: Int64, place_of_label: Int64) -> dict[str, Any]:
    """Return one list for each property of the kept nodes; labels are places in the list of labels."""
    is_end, _ = _ends(view, kept)
    parent = view.nodes.parent[kept]
    labels = view.labels
    return {
        "id": kept.tolist(),
        "parent": np.where(parent < 0, -1, np.searchsorted(kept, parent)).tolist(),
        "leaves": view.n_leaves[kept].tolist(),
        "end": is_end.astype(int).tolist(),
        "mass": _numbers(view.mass[kept]),
        "rows": None if view.rows is None else _numbers(view.rows[kept]),
        "labels": labels.n_labels[kept].tolist(),
        "purity": _thousandths(labels.purity[kept]),
        "balance": _thousandths(view.balance[kept]),
        "recall": _thousandths(view.recall[kept]),
        "tail share": _thousandths(labels.tail_share[kept]),
        "head share": _thousandths(labels.head_share[kept]),
        "top": _lists(place_of_label[labels.top[kept]], labels.top[kept] >= 0),
        "top_count": _lists(_numbers(labels.top_count[kept].ravel()), labels.top[kept] >= 0),
        "grown": _lists(place_of_label[labels.grown[kept]], labels.grown[kept] >= 0),
        "lift": _lists(_numbers(labels.lift[kept].ravel(), 3), labels.grown[kept] >= 0),
    }


def _routers(view: TreeView, kept: Int64) -> dict[str, Any]:
    """Return the strongest features of the kept nodes as places in a list of names, with their weights."""
    features, weights = view.routers.features[kept], view.routers.weights[kept]
    there = features >= 0
    used, place = np.unique(features[there], return_inverse=True)
    numbers = np.zeros(features.shape, np.int64)
    numbers[there] = place
    return {
        "names": [_cut(view.routers.names.get(feature, f"#{feature}"), 60) for feature in used.tolist()],
        "features": _lists(numbers, there),
        "weights": _lists(_numbers(weights.ravel(), 3), there),
    }


def _places(view: TreeView, kept: Int64, labels: Int64, most: int) -> dict[str, Any]:
    """Return, label by label, the kept nodes without kept children that hold it, with the percents in their tree."""
    _, end_of_leaf = _ends(view, kept)
    n_leaves = end_of_leaf.size
    gather = sp.csr_array((np.ones(n_leaves), end_of_leaf, np.arange(n_leaves + 1)), shape=(n_leaves, kept.size))
    held = sp.csr_array(view.held.T.tocsr()[labels] @ gather)
    held.sort_indices()
    label = np.repeat(np.arange(labels.size), np.diff(held.indptr))
    group = label * view.nodes.n_trees + view.nodes.tree[kept[held.indices]]
    percent = 100 * held.data / np.bincount(group, held.data)[group] if held.nnz else held.data
    # The heaviest place of a label in each tree is always there; then those that hold most of their label.
    order = np.lexsort((-percent, group))
    is_first = np.zeros(group.size, bool)
    is_first[order[np.flatnonzero(np.diff(group[order], prepend=-1))]] = True
    by_share = np.lexsort((-percent, ~is_first))
    shown = is_first.copy()
    shown[by_share[:most]] = True
    return {
        "count": np.bincount(label[shown], minlength=labels.size).tolist(),
        "node": held.indices[shown].tolist(),
        "percent": _numbers(percent[shown], 2),
        "all": bool(shown.all()),
    }


def _whole(view: TreeView) -> dict[str, Any]:
    """Return the numbers of the whole model."""
    histograms = candidates_of_leaves(view)
    coverage = coverage_of_labels(view)
    return {
        "levels": [
            {
                "nodes": level.n_nodes.tolist(),
                "leaf_mass": _thousandths(level.leaf_mass),
                "purity": _thousandths(level.purity),
                "balance": _thousandths(level.balance),
                "recall": _thousandths(level.recall),
            }
            for level in levels_of(view)
        ],
        "candidates": {"titles": histograms[0].titles(), "counts": [one.counts.tolist() for one in histograms]},
        "coverage": {
            "titles": coverage[0].leaves.titles(),
            "groups": [
                [one.group, one.examples, one.n_labels, one.n_covered, one.leaves.counts.tolist()] for one in coverage
            ],
        },
    }


# -------------------------------------------------------------------------------------------------------------- numbers


def _lists(values: Any, there: Bool) -> list[list[Any]]:
    """Return the values of each row that are there."""
    flat = np.asarray(values, object).ravel()[there.ravel()]
    ends = np.cumsum(there.sum(axis=1)).tolist()
    return [flat[begin:end].tolist() for begin, end in zip([0, *ends], ends, strict=False)]


def _thousandths(values: Float64) -> list[int | None]:
    return [None if math.isnan(value) else round(1000 * value) for value in values.tolist()]


def _numbers(values: Any, digits: int = 4) -> list[int | float]:
    return [_number(value, digits) for value in np.asarray(values, np.float64).tolist()]


def _number(value: float, digits: int = 4) -> int | float:
    """Return a number of a few digits, whole ones without a point."""
    short = float(f"{value:.{digits}g}") if abs(value) < 10**digits else round(value)
    return int(short) if short == int(short) else short


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
