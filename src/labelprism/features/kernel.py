"""Random Fourier features: a map whose inner products approximate the Gaussian kernel."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from labelprism import _core
from labelprism._arrays import Float32, as_csr, csr_parts
from labelprism._threads import thread_count


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Approximate exp(-gamma |x - z|^2) by the inner products of cosines and sines of random projections.

    z(x) = sqrt(2 / D) [cos(W'x), sin(W'x)] with the columns of W drawn from N(0, 2 gamma I) (Rahimi and Recht 2007).
    Pairs of cosine and sine have a lower variance than cosines with random phases, and need half the projections.
    Every mapped row has unit norm when D is even.

    Parameters
    ----------
    n_components : int, default=1000
        D, the number of features made. An odd one leaves the last sine out.
    gamma : float or "scale", default="scale"
        Width of the kernel; "scale" is 1 / (d * variance of X), as in scikit-learn's SVMs.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the projections.

    Attributes
    ----------
    projection_ : ndarray of shape (d, ceil(n_components / 2)), float32
        W.
    gamma_ : float
        The width in use.
    """

    def __init__(
        self,
        n_components: int = 1000,
        *,
        gamma: float | Literal["scale"] = "scale",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> RandomFourierFeatures:
        """Draw the projections.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : ignored
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32)
        if self.n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {self.n_components}")
        self.gamma_ = _scale(X) if self.gamma == "scale" else float(self.gamma)
        if not 0 < self.gamma_ < np.inf:
            raise ValueError(f"gamma must be positive and finite, got {self.gamma!r}")
        random = check_random_state(self.random_state)
        normal = random.standard_normal((X.shape[1], (self.n_components + 1) // 2))
        self.projection_: Float32 = (np.sqrt(2 * self.gamma_) * normal).astype(np.float32)
        self._n_features_out = self.n_components
        return self

    def transform(self, X: Any) -> Float32:
        """Map each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_components), float32
            Cosines first, then sines.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        if sp.issparse(X):
            angles = _core.csr_times_block(*csr_parts(as_csr(X)), self.projection_, thread_count(self.n_jobs))
        else:
            # In float32 BLAS rounds a row differently by its place in the batch; float64 hides that.
            angles = np.matmul(X, self.projection_, dtype=np.float64).astype(np.float32)
        mapped = np.concatenate([np.cos(angles), np.sin(angles)[:, : self.n_components // 2]], axis=1)
        mapped *= np.float32(np.sqrt(2 / self.n_components))
        return mapped

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _scale(X: Any) -> float:
    """1 / (d * variance of all entries), 1 where X is constant."""
    if sp.issparse(X):
        mean = X.mean(dtype=np.float64)
        variance = float(X.multiply(X).mean(dtype=np.float64) - mean**2)
    else:
        variance = float(X.var(dtype=np.float64))
    return 1 / (X.shape[1] * variance) if variance > 0 else 1.0
