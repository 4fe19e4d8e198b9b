"""Watching the recall on held-out examples while the tree grows, to find the best depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Int64
from labelprism.filters.base import share_found
from labelprism.filters.node import Features

if TYPE_CHECKING:
    from labelprism.filters.growth import BestLeaves, GrownTree


class Monitor:
    """Routes held-out examples along with the growth of a tree.

    Parameters
    ----------
    features : Features
        X of the held-out examples.
    Y : csr_array of shape (n, c)
        Their labels; at least one example must have some.

    Attributes
    ----------
    recall_path : list of float
        Recall at each depth, were the tree cut there: the share of an example's labels among the candidates of its
        node, averaged over the examples that have labels.
    best_depth : int
        The first depth of the largest recall.
    """

    def __init__(self, features: Features, Y: sp.csr_array) -> None:
        self.features = features
        self.Y = Y
        self.recall_path: list[float] = []
        self.best_depth = 0
        self.kept: tuple[Int64, sp.csr_array, npt.NDArray[np.float64], BestLeaves] | None = None
        """What is needed to cut the tree at the best depth: its nodes, their candidates and label mass, best leaves."""
        self._node = np.zeros(Y.shape[0], np.int64)
        self._found = np.zeros(Y.shape[0])  # the share of each example's labels that its node has

    def measure(self, nodes: Int64, chosen: sp.csr_array, depth: int) -> bool:
        """Measure the recall at a depth; tell whether it is the best so far.

        Parameters
        ----------
        nodes : int64 array
            The nodes of this depth, ascending; examples in leaves above keep what they found there.
        chosen : csr_array of shape (len(nodes), c)
            Their candidates, as stored entries.
        depth : int
        """
        place, here = self._place(nodes)
        self._found[here] = share_found(chosen, place[here], self.Y[here])
        self.recall_path.append(float(self._found[np.diff(self.Y.indptr) > 0].mean()))
        improved = depth == 0 or self.recall_path[-1] > self.recall_path[self.best_depth]
        if improved:
            self.best_depth = depth
        return improved

    def descend(self, nodes: Int64, tree: GrownTree, routers: sp.csr_array) -> None:
        """Move the examples at nodes that were just split to their children.

        Parameters
        ----------
        nodes : int64 array
            The nodes that were split, ascending.
        tree : GrownTree
            Has their biases and children.
        routers : csr_array of shape (len(nodes), d)
            Their routers.
        """
        place, here = self._place(nodes)
        if not here.size:
            return
        rows = here[np.argsort(place[here], kind="stable")].astype(np.int32)
        counts = np.bincount(place[rows], minlength=nodes.size)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        margins = self.features.router_margins(routers, rows, offsets, np.arange(nodes.size))
        at = place[rows]
        bias = np.array([tree.bias[node] for node in nodes.tolist()], np.float32)[at]
        child = np.array([tree.child[node] for node in nodes.tolist()])[at]
        self._node[rows] = child + (margins > bias)

    def _place(self, nodes: Int64) -> tuple[Int64, Int64]:
        """Return the place of each example's node among `nodes`, which ascend, and the examples that are at one."""
        place = np.minimum(np.searchsorted(nodes, self._node), nodes.size - 1)
        return place, np.flatnonzero(nodes[place] == self._node)
