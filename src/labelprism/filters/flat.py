"""Filters without a tree, with which the paper compares: all labels, and the most frequent ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import MAX_COLUMNS, check_whole
from labelprism._weights import check_sample_weight
from labelprism.filters.base import Filter, candidate_table, check_fit_input


class AllLabels(Filter):
    """The filter that filters nothing: every label is a candidate of every example.

    `candidates(X)` then is as large as n times the labels; code that trains on candidates should take
    `leaf_candidates_` and `route` instead.
    """

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> AllLabels:
        """Count the labels.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : sparse matrix or array of shape (n, c), or n label numbers
        sample_weight : array of shape (n,), optional
        """
        X, Y = check_fit_input(X, Y)
        counts = label_weight(Y, sample_weight)
        labels = np.arange(Y.shape[1])
        table = sp.csr_array((counts, labels, np.array([0, labels.size])), shape=(1, Y.shape[1]))
        self.leaf_candidates_ = candidate_table(table, counts.sum(keepdims=True))
        self.n_features_in_ = X.shape[1]
        return self


class MostFrequent(Filter):
    """The same candidates for every example: the k labels that are most frequent in training.

    Parameters
    ----------
    n_candidates : int, default=100
        k; of equally frequent labels the smaller number comes first.
    """

    def __init__(self, n_candidates: int = 100) -> None:
        self.n_candidates = n_candidates

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> MostFrequent:
        """Find the most frequent labels.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : sparse matrix or array of shape (n, c), or n label numbers
        sample_weight : array of shape (n,), optional
        """
        self._check_parameters()
        X, Y = check_fit_input(X, Y)
        counts = label_weight(Y, sample_weight)
        labels = np.sort(most_frequent(counts, self.n_candidates))
        table = sp.csr_array((counts[labels], labels, np.array([0, labels.size])), shape=(1, Y.shape[1]))
        self.leaf_candidates_ = candidate_table(table, counts.sum(keepdims=True))
        self.n_features_in_ = X.shape[1]
        return self

    def _check_parameters(self) -> None:
        check_whole("n_candidates", self.n_candidates, 1, MAX_COLUMNS)


def label_weight(Y: sp.csr_array, sample_weight: Any) -> Any:
    """Return the weight of the examples of each label, (c,) float64; their number where examples have no weights."""
    weight = check_sample_weight(sample_weight, Y.shape[0])
    of_entry = None if weight is None else np.repeat(weight, np.diff(Y.indptr))
    return np.bincount(Y.indices, weights=of_entry, minlength=Y.shape[1]).astype(np.float64)


def most_frequent(counts: Any, k: int) -> Any:
    """Return the k labels of the largest counts above 0, largest first, of equals the smaller label."""
    order = np.argsort(-counts, kind="stable")[:k]
    return order[counts[order] > 0]
