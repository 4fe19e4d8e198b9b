"""The nodes of a filter's trees as flat arrays, whatever the filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelprism._arrays import Int32, Int64
from labelprism.filters import Filter


@dataclass(frozen=True)
class Nodes:
    """How nodes hang together.

    Parameters
    ----------
    children : int32 array of shape (n_nodes,)
        The left child of each node, -1 for leaves; the right child is the next node.
    parent : int64 array of shape (n_nodes,)
        -1 for roots.
    depth, tree : int64 arrays of shape (n_nodes,)
        Roots have depth 0; the trees are numbered as their roots are, from 0.
    leaf_nodes : int64 array of shape (n_leaves,)
        The node of each leaf.
    levels : tuple of int64 arrays
        The nodes of each depth; siblings are neighbours, in the order of their parents on the level above.
    """

    children: Int32
    parent: Int64
    depth: Int64
    tree: Int64
    leaf_nodes: Int64
    levels: tuple[Int64, ...]

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return int(self.levels[0].size)

    def summed(self, of_leaf: Any) -> Any:
        """Return sums over the leaves below every node.

        Parameters
        ----------
        of_leaf : array of shape (n_leaves,)

        Returns
        -------
        float64 array of shape (n_nodes,)
        """
        total = np.zeros(self.children.size)
        total[self.leaf_nodes] = of_leaf
        for level in reversed(self.levels[:-1]):
            inner = level[self.children[level] >= 0]
            left = self.children[inner]
            total[inner] = total[left] + total[left + 1]
        return total

    def path(self, node: int) -> str:
        """Return the turns from the root to a node, as "LRL"; "" for a root."""
        turns = []
        while self.parent[node] >= 0:
            above = int(self.parent[node])
            turns.append("L" if node == self.children[above] else "R")
            node = above
        return "".join(reversed(turns))


def nodes_of(filter: Filter) -> Nodes:
    """Return the nodes of a fitted filter; one that has no tree is a single leaf.

    Parameters
    ----------
    filter : Filter
    """
    if hasattr(filter, "children_"):
        return linked(filter.children_, filter.leaf_nodes_, int(getattr(filter, "n_trees", 1)))
    if filter.leaf_candidates_.shape[0] != 1:
        raise ValueError(f"{type(filter).__name__} has several leaves, but no tree (children_) that could be shown")
    return linked(np.array([-1], np.int32), np.zeros(1, np.int64), 1)


def linked(children: Int32, leaf_nodes: Int64, n_trees: int) -> Nodes:
    """Return nodes with all that follows from their children.

    Parameters
    ----------
    children : int32 array of shape (n_nodes,)
    leaf_nodes : int64 array of shape (n_leaves,)
    n_trees : int
        The first so many nodes are the roots.
    """
    parent, depth, tree = (np.full(children.size, -1, np.int64) for _ in range(3))
    level: Int64 = np.arange(n_trees)
    depth[level], tree[level] = 0, level
    levels = [level]
    while (inner := level[children[level] >= 0]).size:
        left = children[inner].astype(np.int64)
        below = np.stack([left, left + 1], axis=1).ravel()
        parent[below] = np.repeat(inner, 2)
        depth[below] = len(levels)
        tree[below] = np.repeat(tree[inner], 2)
        levels.append(below)
        level = below
    return Nodes(children, parent, depth, tree, leaf_nodes, tuple(levels))
