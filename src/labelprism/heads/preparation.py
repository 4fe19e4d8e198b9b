"""What happens to features before a head by gradient descent sees them: hashing, preconditioning, crossing with leaves.

Preconditioned gradient descent is plain gradient descent on rescaled features: with P = S S' the step S S' g on w is
the step S' g on the weights of S'x. So features are rescaled once, and no trainer needs to know.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Float32, Int32, is_sparse
from labelprism._hashing import hashed_pairs

Preconditioner = Literal["none", "diagonal", "full"]
_SMALLEST_MOMENT = 1e-6  # relative to the mean: directions of less variance are not blown up further
LARGEST_FULL = 1024
"""Dense data with at most so many features gets the full preconditioner by default."""


class FeatureHash(NamedTuple):
    """One or two signed hashes of every feature into a table (Weinberger et al. 2009)."""

    buckets: npt.NDArray[np.int32]
    """(n_hashes, d)"""
    signs: Float32
    """(n_hashes, d), with 1 / sqrt(n_hashes) as their size, so that norms are kept in expectation"""
    width: int

    @classmethod
    def draw(cls, n_features: int, width: int, n_hashes: int, seed: int) -> FeatureHash:
        """Hash the features.

        Parameters
        ----------
        n_features : int
            d.
        width : int
            The size of the table.
        n_hashes : int
        seed : int
        """
        bits = hashed_pairs(np.arange(n_hashes)[:, None], np.arange(n_features)[None, :], seed)
        signs = np.where(bits >> np.uint64(63), 1, -1) / np.sqrt(n_hashes)
        return cls((bits % np.uint64(width)).astype(np.int32), signs.astype(np.float32), width)

    def apply(self, X: sp.csr_array) -> sp.csr_array:
        """Return X (n, d) as (n, width). Features that meet in a bucket stay apart as entries, which add up in use."""
        indices = np.stack([buckets[X.indices] for buckets in self.buckets], axis=1)
        data = np.stack([signs[X.indices] * X.data for signs in self.signs], axis=1)
        indptr = X.indptr.astype(np.int64) * len(self.buckets)
        return sp.csr_array((data.ravel(), indices.ravel(), indptr), shape=(X.shape[0], self.width))


def scale_of(X: Any, preconditioner: Preconditioner) -> Float32:
    """Return S for rows S'x that have a mean squared norm of 1.

    Parameters
    ----------
    X : csr_array or float32 array of shape (n, d)
    preconditioner : {"none", "diagonal", "full"}
        "diagonal": S = diag(E[x_j^2])^(-1/4), as far as features that are rare are concerned the square root of the
        whole way to equal moments; "full": S = E[x x']^(-1/2), which makes features uncorrelated; for dense X only.

    Returns
    -------
    float32 array of shape (d,), for a diagonal S, or (d, d)
    """
    if preconditioner == "full":
        return _full_scale(X)
    moments = _moments(X)
    scale = np.ones_like(moments)
    if preconditioner == "diagonal" and moments.any():
        scale = np.maximum(moments, _SMALLEST_MOMENT * moments[moments > 0].mean()) ** -0.25
    norm = float(np.sqrt((moments * scale**2).sum()))
    return np.asarray(scale / (norm or 1.0), np.float32)


def _moments(X: Any) -> npt.NDArray[np.float64]:
    """Return E[x_j^2] of every feature."""
    if is_sparse(X):
        squares = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
    else:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    return np.asarray(squares / max(X.shape[0], 1))


def _full_scale(X: Float32) -> Float32:
    wide = X.astype(np.float64)
    values, vectors = np.linalg.eigh(wide.T @ wide / max(X.shape[0], 1))
    values = np.maximum(values, 0)
    if not values.any():
        return np.eye(X.shape[1], dtype=np.float32)
    inverse = np.maximum(values, _SMALLEST_MOMENT * values.mean()) ** -0.5
    norm = np.sqrt((values * inverse**2).sum())
    return np.asarray((vectors * (inverse / norm)) @ vectors.T, np.float32)


def scaled(X: Any, scale: Float32) -> Any:
    """Return S'x for the rows of X."""
    if not is_sparse(X):
        return np.ascontiguousarray(X @ scale if scale.ndim == 2 else X * scale, np.float32)
    return sp.csr_array((X.data * scale[X.indices], X.indices, X.indptr), shape=X.shape)


def crossed(X: sp.csr_array, leaves: Int32, width: int, seed: int) -> sp.csr_array:
    """Return rows of which every feature is there twice: for itself, and, hashed with the row's leaf, for the leaf.

    Parameters
    ----------
    X : csr_array of shape (n, d)
    leaves : int32 array of shape (n,)
    width : int
        The size of the hash table, at least d; the features themselves keep their places.
    seed : int

    Returns
    -------
    csr_array of shape (n, width)
    """
    leaf_of_entry = np.repeat(leaves, np.diff(X.indptr))
    bits = hashed_pairs(leaf_of_entry, X.indices, seed)
    indices = np.stack([X.indices, (bits % np.uint64(width)).astype(np.int32)], axis=1)
    data = np.stack([X.data, np.where(bits >> np.uint64(63), X.data, -X.data)], axis=1)
    return sp.csr_array((data.ravel(), indices.ravel(), X.indptr.astype(np.int64) * 2), shape=(X.shape[0], width))
