"""Nodes that grow on one worker, by the native code: the first levels of a tree, or all of some subtrees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, csr_parts
from labelprism.filters import SpectralForest


class OpenNodes(NamedTuple):
    """Nodes of a level that have not grown yet, as `ForestGrower` takes and gives them.

    Attributes
    ----------
    keys : uint64 array of shape (n_nodes,)
    indptr : int64 array of shape (n_nodes + 1,)
        Where the examples of each node begin and end.
    rows : int32 array
        The examples by row, node after node,
    weight : float32 array
        and their weights.
    """

    keys: npt.NDArray[np.uint64]
    indptr: Int64
    rows: Int32
    weight: Float32

    @property
    def sizes(self) -> Int64:
        """How many examples each node has."""
        return np.diff(self.indptr)


def grow_on(
    X: sp.csr_array, Y: sp.csr_array, row_ids: Int64, nodes: OpenNodes, depth: int, forest: SpectralForest, seed: int,
    most_rows: int = 0,
) -> Any:  # fmt: skip
    """Grow nodes of a level: what they would become in a forest over all rows, to the bit.

    Parameters
    ----------
    X, Y : csr_arrays of shapes (n, d) and (n, c)
        The rows of these nodes.
    row_ids : int64 array of shape (n,)
        Their numbers among all rows; empty where these are all.
    nodes : OpenNodes
    depth : int
        Of all these nodes.
    forest : SpectralForest
        Its parameters.
    seed : int
    most_rows : int
        Growth ends at a level where no node has more rows; with 0 when nothing is left to grow.

    Returns
    -------
    ForestGrower
    """
    grower = _core.ForestGrower(forest._settings(Y, seed), X.shape[1], Y.shape[1], *nodes, depth)
    rows, labels = csr_parts(X), csr_parts(Y)
    while not grower.is_done and (most_rows == 0 or OpenNodes(*grower.nodes()).sizes.max() > most_rows):
        grower.step_csr(*rows, labels.indptr, labels.indices, row_ids)
    return grower
