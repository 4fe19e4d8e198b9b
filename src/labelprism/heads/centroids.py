"""Label centroids: the mean of a label's examples, made unit. A cheap expert that knows rare labels well."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, csr_of, csr_parts, picked_rows

Float64 = npt.NDArray[np.float64]


def label_sums(X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None = None, n_threads: int = 1) -> sp.csr_array:
    """Return the sum of the rows of each label, Y'X of shape (c, d), sorted.

    Parameters
    ----------
    X : csr_array of shape (n, d)
    Y : csr_array of shape (n, c)
        Whatever its entries are, they count as ones.
    weight : float32 array of shape (n,), optional
        How much each row counts.
    n_threads : int
        The result does not depend on it.
    """
    arguments: Any = (*_rows(X, Y, weight), n_threads)
    return csr_of(*_core.label_sums(*arguments), (Y.shape[1], X.shape[1]))


def label_centroids(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_features: int, n_threads: int = 1,
    start: sp.csr_array | None = None,
) -> tuple[sp.csr_array, Float64]:  # fmt: skip
    """Return the `centroids` of the labels of rows and the norms of their sums, which are never held all at once.

    Parameters
    ----------
    X, Y, weight : see `label_sums`
    n_features : int
        How many features a centroid keeps.
    n_threads : int
        The result does not depend on it.
    start : csr_array of shape (c, d), optional
        The sums of rows that come before these: the result has the bits of one over all of them.
    """
    before = csr_parts(sp.csr_array((0, X.shape[1]), dtype=np.float32) if start is None else start)
    arguments: Any = (*_rows(X, Y, weight), *before, n_features, n_threads)
    found, norms = _core.label_centroids(*arguments)
    return csr_of(*found, (Y.shape[1], X.shape[1])), norms


def moved_centroids(
    before: tuple[sp.csr_array, Float64], X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_before: int,
    n_features: int, n_threads: int = 1,
) -> tuple[sp.csr_array, Float64]:  # fmt: skip
    """Return `label_centroids` of all rows, where those of the first ones are known: of labels of later rows anew.

    Parameters
    ----------
    before : tuple of csr_array and float64 array
        Centroids and norms of the first `n_before` rows.
    X, Y, weight : see `label_sums`
    n_before : int
    n_features, n_threads : see `label_centroids`
    """
    moves = np.zeros(Y.shape[1], bool)
    moves[Y.indices[Y.indptr[n_before] :]] = True
    of_moved = np.concatenate([[0], np.cumsum(moves[Y.indices])])
    rows = np.flatnonzero(of_moved[Y.indptr[1:]] > of_moved[Y.indptr[:-1]])
    if 4 * rows.size > X.shape[0]:
        return label_centroids(X, Y, weight, n_features, n_threads)
    of_rows, own = (picked_rows(matrix, rows, n_threads) for matrix in (X, Y))
    of_weight = None if weight is None else weight[rows]
    centre, norms = label_centroids(of_rows, own, of_weight, n_features, n_threads)
    moved = np.flatnonzero(moves).tolist()
    # Runs of labels that stay, a label that moved after each of them: they are copied once.
    pieces: list[tuple[sp.csr_array, int, int]] = []
    for begin, label in zip([0, *(label + 1 for label in moved)], [*moved, Y.shape[1]], strict=True):
        pieces += [(before[0], begin, label), (centre, label, min(label + 1, Y.shape[1]))]
    entries = [(matrix, slice(matrix.indptr[begin], matrix.indptr[end])) for matrix, begin, end in pieces]
    lengths = np.where(moves, np.diff(centre.indptr), np.diff(before[0].indptr))
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    indices, data = (
        np.concatenate([getattr(matrix, part)[entry] for matrix, entry in entries]) for part in ("indices", "data")
    )
    return csr_of(indptr, indices, data, (Y.shape[1], X.shape[1])), np.where(moves, norms, before[1])


def _rows(X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None) -> tuple[Any, ...]:
    """Return rows and their labels as the native core wants them."""
    labels = csr_parts(Y)
    weights = np.zeros(0, np.float32) if weight is None else np.ascontiguousarray(weight, np.float32)
    return (*csr_parts(X), X.shape[1], labels.indptr, labels.indices, Y.shape[1], weights)


def row_norms(matrix: sp.csr_array) -> Float64:
    """Return the Euclidean norm of every row, by sums that no other row is part of: small rows keep theirs."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.asarray(np.sqrt(np.bincount(row, np.square(matrix.data, dtype=np.float64), matrix.shape[0])))


def centroids(sums: sp.csr_array, norms: Float64, n_features: int, n_threads: int = 1) -> sp.csr_array:
    """Return the unit centroids of the labels, each cut to its largest features, in float16 as models keep them.

    Cosines with a cut centroid are a little too small, never too large (for features without negative values).

    Parameters
    ----------
    sums : csr_array of shape (c, d), sorted
        As `label_sums` gives them.
    norms : float64 array of shape (c,)
        Their norms.
    n_features : int
        How many features a centroid keeps.
    n_threads : int
    """
    return csr_of(*_core.cut_centroids(*csr_parts(sums), norms, n_features, n_threads), sums.shape)
