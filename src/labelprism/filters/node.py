"""The problem of one node: a direction that keeps the examples of a label together and halves the examples.

Section 3.3 of the paper. With X (n, d), Y (n, c) and D = diag(example_weight), the probabilities with which the
examples reach the node,

    maximise   w' (Xh'D Xh) w     with |w| = 1 and 1'DX w = 0,        Xh = Y (Y'DY)^-1 Y'D X

Xh is X as the labels alone predict it, by weighted least squares; for one label a row it is the mean of the label's
examples. The hat matrix is idempotent, so Xh'D Xh = X'D Xh, and one application of it is enough. w.x > b sends an
example to the right, where b splits w.x at its weighted median (midway to the next value, so that rounding cannot carry
an example across).

How it is solved (`src/core/spectral_node.cpp`; `_reference.node_matrix` is the problem itself in a few lines of NumPy):

- Block Krylov iteration. From a random block G of 8 vectors, A G, A^2 G, ... with A = X'D Xh are made orthonormal, and
  the best w in their span is found by Rayleigh-Ritz: a symmetric eigenproblem of 8 times `n_blocks`. This needs as many
  products with X as subspace iteration, and converges faster, because no block is thrown away.
- The constraint. X'D 1 is projected out of every block.
- (Y'DY)^-1. With one label a row Y'DY is diagonal: O(n). Otherwise conjugate gradients, preconditioned by the diagonal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, csr_parts, is_sparse


class Examples(NamedTuple):
    """The examples of several nodes, one node after the other."""

    rows: Int32
    """The rows of X."""
    probability: Float32
    """The probability with which each reaches its node."""
    offsets: Int64
    """Where the examples of each node begin; one more at the end."""

    def node_of_example(self) -> Int64:
        """Return the number of each example's node, from 0."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    def take(self, nodes: Int64) -> Examples:
        """Return the examples of some of the nodes, which must ascend."""
        kept = np.zeros(self.offsets.size - 1, bool)
        kept[nodes] = True
        mask = np.repeat(kept, np.diff(self.offsets))
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[nodes])])
        return Examples(self.rows[mask], self.probability[mask], offsets)


class Splits(NamedTuple):
    """The solutions of several nodes."""

    eigenvalue: npt.NDArray[np.float64]
    """lambda."""
    mass: npt.NDArray[np.float64]
    """m, the sum of the example weights."""
    bias: Float32
    """b, which splits the margins at their weighted median."""
    routers: sp.csr_array
    """w, a row for each node; weights under the threshold are left out."""
    margins: Float32
    """w.x of every example, in the order of the examples."""


class Features:
    """X, sparse or dense, as the kernels of the tree take it.

    Parameters
    ----------
    X : csr_array or float32 array of shape (n, d)
        As `labelprism.data.dataset.as_features` returns it.
    n_threads : int
        Threads for everything that is done with it.
    """

    def __init__(self, X: sp.csr_array | Float32, n_threads: int) -> None:
        self.n_rows, self.n_features = map(int, X.shape)
        self.n_threads = n_threads
        self._parts = csr_parts(X) if is_sparse(X) else None
        self._dense = None if is_sparse(X) else X

    def solve_nodes(
        self,
        Y: sp.csr_array,
        examples: Examples,
        example_weight: Float32,
        node_ids: Int64,
        settings: _core.SpectralSettings,
    ) -> Splits:
        """Solve the problem of each node.

        Parameters
        ----------
        Y : csr_array of shape (n, c)
            The labels.
        examples : Examples
            The examples of the nodes.
        example_weight : float32 array
            D, for each of the examples.
        node_ids : int64 array
            A number for each node, which seeds its start.
        settings : SpectralSettings
            How exactly to solve.
        """
        labels = csr_parts(Y)
        arguments: Any = (
            *(labels.indptr, labels.indices, Y.shape[1]),
            *(examples.rows, example_weight, examples.offsets, node_ids, settings, self.n_threads),
        )
        if self._parts is not None:
            solution = _core.solve_nodes_csr(*self._parts, self.n_features, *arguments)
        else:
            assert self._dense is not None
            solution = _core.solve_nodes_dense(self._dense, *arguments)
        eigenvalue, mass, bias, indptr, indices, data, margins = solution
        routers = sp.csr_array((data, indices, indptr), shape=(node_ids.size, self.n_features))
        return Splits(eigenvalue, mass, bias, routers, margins)

    def router_margins(self, routers: sp.csr_array, rows: Int32, offsets: Int64, nodes: Int64) -> Float32:
        """Return w.x of every row at the router of its group.

        Parameters
        ----------
        routers : csr_array of shape (n_nodes, d)
            w of every node.
        rows : int32 array
            Rows of X, grouped.
        offsets : int64 array
            Where each group begins; one more at the end.
        nodes : int64 array
            The router of each group.
        """
        arguments: Any = (*csr_parts(routers), rows, offsets, nodes, self.n_threads)
        if self._parts is not None:
            return _core.router_margins_csr(*self._parts, self.n_features, *arguments)
        assert self._dense is not None
        return _core.router_margins_dense(self._dense, *arguments)


def has_one_label(Y: sp.csr_array) -> bool:
    """Tell whether no row has more than one label: the multiclass case."""
    return bool((np.diff(Y.indptr) <= 1).all())
