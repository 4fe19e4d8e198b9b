"""Label centroids: the mean of a label's examples, made unit. A cheap expert that knows rare labels well."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, csr_parts

Float64 = npt.NDArray[np.float64]


def label_sums(X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None = None) -> sp.csr_array:
    """Return the sum of the rows of each label, Y'X of shape (c, d), sorted.

    Parameters
    ----------
    X : csr_array of shape (n, d)
    Y : csr_array of shape (n, c)
    weight : float32 array of shape (n,), optional
        How much each row counts.
    """
    if weight is not None:
        Y = sp.csr_array((np.repeat(weight, np.diff(Y.indptr)), Y.indices, Y.indptr), shape=Y.shape)
    sums = sp.csr_array(Y.T.tocsr() @ X)
    sums.sort_indices()
    return sums


def row_norms(matrix: sp.csr_array) -> Float64:
    """Return the Euclidean norm of every row, by sums that no other row is part of: small rows keep theirs."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.asarray(np.sqrt(np.bincount(row, np.square(matrix.data, dtype=np.float64), matrix.shape[0])))


def centroids(sums: sp.csr_array, norms: Float64, n_features: int, n_threads: int = 1) -> sp.csr_array:
    """Return the unit centroids of the labels, each cut to its largest features.

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
    longest = int(np.diff(sums.indptr).max(initial=1))
    columns, values = _core.top_k_csr(*csr_parts(sums), max(min(n_features, longest), 1), n_threads)
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1), dtype=np.int64)])
    scaled = (values / np.maximum(norms, 1e-12)[:, None]).astype(np.float32)
    cut = sp.csr_array((scaled[kept], columns[kept], indptr), shape=sums.shape)
    cut.sort_indices()
    cut.data = cut.data.astype(np.float16).astype(np.float32)  # as models keep them
    return cut
