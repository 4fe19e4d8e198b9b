"""A tree of any size, made of arrays at once: random splits, labels of a long tail, names as long as real ones."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from labelprism.explore.views import N_FEATURES, Routers, TreeView, view_of
from labelprism.filters import SpectralForest

SYLLABLES = ("ba", "co", "du", "fer", "gin", "hal", "jo", "kra", "lem", "mun", "nor", "pit", "qua", "ras", "sol", "tur")


def words(n: int, n_syllables: int, rng: np.random.Generator) -> list[str]:
    drawn = np.array(SYLLABLES)[rng.integers(len(SYLLABLES), size=(n, n_syllables))]
    return [f"{''.join(row[:3])} {''.join(row[3:])} {number}" for number, row in enumerate(drawn.tolist())]


def random_tree(n_leaves: int, rng: np.random.Generator) -> np.ndarray:
    """Children of nodes, parents first: leaves are split at random until there are enough."""
    children, sizes, todo = [-1], [n_leaves], [0]
    for node in todo:
        if sizes[node] == 1:
            continue
        children[node] = len(children)
        left = int(np.clip(round(sizes[node] * rng.beta(6, 6)), 1, sizes[node] - 1))
        for size in (left, sizes[node] - left):
            todo.append(len(children))
            children.append(-1)
            sizes.append(size)
    return np.array(children, np.int32)


def large_view(n_leaves: int, n_labels: int, per_leaf: int, seed: int = 0) -> TreeView:
    rng = np.random.default_rng(seed)
    forest = SpectralForest(n_trees=1)
    forest.children_ = random_tree(n_leaves, rng)
    forest.leaf_nodes_ = np.flatnonzero(forest.children_ < 0)
    # Every label is somewhere; frequent ones are nearly everywhere.
    frequent = (rng.random((n_leaves, per_leaf)) ** 6 * n_labels).astype(np.int64)
    leaf = np.concatenate([np.repeat(np.arange(n_leaves), per_leaf), rng.integers(n_leaves, size=n_labels)])
    label = np.concatenate([frequent.ravel(), np.arange(n_labels)])
    counts = sp.csr_array((rng.gamma(0.5, 4, label.size) + 0.1, (leaf, label)), shape=(n_leaves, n_labels))
    forest.leaf_mass_ = np.asarray(counts.sum(axis=1)).ravel()
    counts.data = np.log(counts.data / np.repeat(forest.leaf_mass_, np.diff(counts.indptr)))
    forest.leaf_candidates_ = counts
    forest.n_features_in_ = 200_000
    features = rng.integers(forest.n_features_in_, size=(forest.children_.size, N_FEATURES)).astype(np.int32)
    features[forest.leaf_nodes_] = -1
    weights = rng.normal(size=features.shape).astype(np.float32)
    names = dict(enumerate(words(forest.n_features_in_, 4, rng)))
    of_label = np.bincount(label, minlength=n_labels).astype(np.float64)
    return view_of(forest, Routers(features, weights, names), words(n_labels, 6, rng), of_label)
