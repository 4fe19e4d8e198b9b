"""Table 2 of the paper, for any model: the most frequent labels of nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelprism._arrays import check_whole
from labelprism.explore.views import TreeView


class NodeRow(NamedTuple):
    """A node of the table."""

    tree: int
    """From 1."""
    way: str
    """The turns from the root, as "LRL"; "" for the root."""
    node: int
    depth: int
    mass: float
    labels: list[str]
    """The most frequent."""
    grown: list[tuple[str, float]]
    """Those that are most over-represented against the parent, with their lift."""


def frequent_labels(view: TreeView, depth: int = 3, n_labels: int = 10) -> list[NodeRow]:
    """Return the most frequent labels of all nodes down to a depth, tree by tree, parents before their children.

    Parameters
    ----------
    view : TreeView
    depth : int
    n_labels : int
        How many labels of each node, at most as many as the view holds.
    """
    check_whole("depth", depth, 0, 100)
    check_whole("n_labels", n_labels, 1, view.labels.top.shape[1])
    chosen = np.flatnonzero(view.nodes.depth <= depth).tolist()
    rows = []
    for node in chosen:
        grown = view.labels.grown[node][:n_labels]
        rows.append(
            NodeRow(
                int(view.nodes.tree[node]) + 1,
                view.nodes.path(node),
                node,
                int(view.nodes.depth[node]),
                float(view.mass[node]),
                view.names(view.labels.top[node][:n_labels]),
                list(zip(view.names(grown), view.labels.lift[node].tolist(), strict=False)),
            )
        )
    return sorted(rows, key=lambda row: (row.tree, row.way))
