"""Weights for counts: the Hellinger map of the paper, and tf-idf."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils.validation import check_is_fitted, validate_data


class HellingerMap(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale each row to sum to 1, then take square roots: sqrt(x_j / sum_i |x_i|), the sign of x_j kept.

    Inner products of the result are the Hellinger kernel of the rows as distributions, and every row has unit
    Euclidean norm. The paper maps token frequencies so. Rows of zeros stay as they are.
    """

    def fit(self, X: Any, y: object = None) -> HellingerMap:
        """Check the input; nothing is learned.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : ignored
        """
        validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64])
        return self

    def transform(self, X: Any) -> Any:
        """Map each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray or CSR of shape (n, d)
            In the dtype of X if that is float32 or float64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        if sp.issparse(X):
            X = _summed(X)
            row_of_entry = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            sums = np.bincount(row_of_entry, weights=np.abs(X.data), minlength=X.shape[0])  # in float64
            values = X.data / np.where(sums > 0, sums, 1)[row_of_entry]
            roots = (np.sign(values) * np.sqrt(np.abs(values))).astype(X.dtype)
            return type(X)((roots, X.indices.copy(), X.indptr.copy()), shape=X.shape)
        sums = np.abs(X).sum(axis=1, dtype=np.float64, keepdims=True)
        values = X / np.where(sums > 0, sums, 1)
        return (np.sign(values) * np.sqrt(np.abs(values))).astype(X.dtype)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Tfidf(TfidfTransformer):  # type: ignore[misc]
    """Tf-idf weights for counts: scikit-learn's `TfidfTransformer` with the defaults that suit extreme classification.

    (1 + log tf) * (1 + log((1 + n) / (1 + df))), then unit rows.

    Parameters
    ----------
    norm : {"l1", "l2"} or None, default="l2"
        The norm that rows are scaled to.
    use_idf : bool, default=True
        Whether to weight by inverse document frequency.
    smooth_idf : bool, default=True
        Whether to count every feature once more than it occurs.
    sublinear_tf : bool, default=True
        Whether to take 1 + log(tf) for tf; False in scikit-learn.
    """

    def __init__(
        self,
        *,
        norm: Literal["l1", "l2"] | None = "l2",
        use_idf: bool = True,
        smooth_idf: bool = True,
        sublinear_tf: bool = True,
    ) -> None:
        super().__init__(norm=norm, use_idf=use_idf, smooth_idf=smooth_idf, sublinear_tf=sublinear_tf)

    def fit(self, X: Any, y: object = None) -> Tfidf:
        """Learn the document frequencies.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Counts; see `transform`.
        y : ignored
        """
        if sp.issparse(X):
            X = _without_zeros(X.tocsr())
        self._refuse_negative(X)
        super().fit(X, y)
        return self

    def transform(self, X: Any, copy: bool = True) -> Any:
        """Weight counts.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Counts. With `sublinear_tf=True` they must not be negative, as signed hashes are.
        copy : bool, default=True
            Whether to leave X unchanged.

        Returns
        -------
        CSR of shape (n, d)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], copy=copy, reset=False)
        if sp.issparse(X):
            X = _without_zeros(X)
        self._refuse_negative(X)
        return super().transform(X, copy=False)

    def _refuse_negative(self, X: Any) -> None:
        stored = X.data if sp.issparse(X) else np.asarray(X)
        if self.sublinear_tf and stored.size and np.issubdtype(stored.dtype, np.number) and np.min(stored) < 0:
            raise ValueError("Negative values in data passed to Tfidf: log(tf) needs counts; use sublinear_tf=False")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.sublinear_tf
        return tags


def _summed(X: Any) -> Any:
    """Return a CSR matrix whose repeated entries are summed: `X` itself, or a copy where there may be some."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _without_zeros(X: Any) -> Any:
    """Return a CSR matrix without repeated entries and stored zeros, which would count as occurrences."""
    X = _summed(X)
    if not X.data.all():
        X = X.copy()
        X.eliminate_zeros()
    return X
