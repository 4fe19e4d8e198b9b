"""Numbers of the whole model: by depth, by leaf, by label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labelprism._arrays import Int64
from labelprism.explore.views import TreeView

Float64 = npt.NDArray[np.float64]


class Levels(NamedTuple):
    """A tree by depth, arrays of shape (max_depth + 1,); nan where there is nothing."""

    n_nodes: Int64
    leaf_mass: Float64
    """The share of the mass whose leaves lie at this depth."""
    purity: Float64
    balance: Float64
    """Of the splits at this depth, averaged by their mass."""
    recall: Float64
    """If the tree ended here; see `TreeView.budget`."""


class Histogram(NamedTuple):
    """How many things fall between bounds that are included."""

    bounds: list[tuple[int, int]]
    counts: Int64

    def titles(self) -> list[str]:
        """Return the bounds as text."""
        return [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in self.bounds]


class Coverage(NamedTuple):
    """How many leaves hold a label, for the labels of one group."""

    group: str
    """"head", "torso" or "tail"."""
    examples: str
    """How many training examples these labels have."""
    n_labels: int
    n_covered: int
    """How many of them are candidates somewhere."""
    leaves: Histogram


def levels_of(view: TreeView) -> list[Levels]:
    """Return each tree by depth.

    Parameters
    ----------
    view : TreeView
    """
    nodes = view.nodes
    found = []
    for tree in range(nodes.n_trees):
        own = nodes.tree == tree
        depth, mass = nodes.depth[own], view.mass[own]
        n_levels = int(depth.max()) + 1
        is_leaf = nodes.children[own] < 0
        total = max(float(mass[is_leaf].sum()), 1e-300)
        purity, balance = (_mean_by(depth, v[own], mass, n_levels) for v in (view.labels.purity, view.balance))
        found.append(
            Levels(
                np.bincount(depth, minlength=n_levels),
                np.bincount(depth[is_leaf], mass[is_leaf], n_levels) / total,
                purity,
                balance,
                view.labels.recall_by_depth[tree, :n_levels],
            )
        )
    return found


def _mean_by(group: Int64, values: Float64, weight: Float64, n_groups: int) -> Float64:
    known = ~np.isnan(values) & (weight > 0)
    weights = np.bincount(group[known], weight[known], n_groups)
    sums = np.bincount(group[known], (weight * values)[known], n_groups)
    means: Float64 = np.divide(sums, weights, out=np.full(n_groups, np.nan), where=weights > 0)
    return means


def candidates_of_leaves(view: TreeView) -> list[Histogram]:
    """Return how many candidates the leaves of each tree have.

    Parameters
    ----------
    view : TreeView
    """
    tree = view.nodes.tree[view.nodes.leaf_nodes]
    bounds = _steps(int(view.n_candidates.max(initial=0)))
    return [_histogram(view.n_candidates[tree == number], bounds) for number in range(view.nodes.n_trees)]


def coverage_of_labels(view: TreeView) -> list[Coverage]:
    """Return how many leaves, of all trees together, hold each label, by how frequent the labels are.

    Parameters
    ----------
    view : TreeView
    """
    n_leaves = np.bincount(view.held.indices, minlength=view.held.shape[1])
    bounds = _doubling(int(n_leaves.max(initial=0)))
    low, high = view.groups
    counts = view.label_counts
    found = []
    for group, examples, chosen in (
        ("head", f"over {high:,}", counts > high),
        ("torso", f"{low + 1:,} to {high:,}", (counts > low) & (counts <= high)),
        ("tail", f"up to {low:,}", counts <= low),
    ):
        own = n_leaves[chosen]
        found.append(Coverage(group, examples, own.size, int((own > 0).sum()), _histogram(own, bounds)))
    return found


def _histogram(values: Int64, bounds: list[tuple[int, int]]) -> Histogram:
    firsts = np.array([low for low, _ in bounds])
    place = np.searchsorted(firsts, values, side="right") - 1
    return Histogram(bounds, np.bincount(place, minlength=len(bounds)))


def _steps(largest: int) -> list[tuple[int, int]]:
    """Return about 20 bounds of equal width from 0 on."""
    width = next(w for e in range(10) for w in (10**e, 2 * 10**e, 5 * 10**e) if largest < 20 * w)
    return [(low, low + width - 1) for low in range(0, largest + 1, width)]


def _doubling(largest: int) -> list[tuple[int, int]]:
    """Return the bounds 0, 1, 2, 3 to 4, 5 to 8 and so on."""
    bounds, low = [(0, 0), (1, 1)], 2
    while low <= largest:
        high = 2 if low == 2 else 2 * (low - 1)
        bounds.append((low, high))
        low = high + 1
    return bounds
