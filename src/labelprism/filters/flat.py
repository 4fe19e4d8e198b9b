"""Filters without a tree, with which the paper compares: all labels, and the most frequent ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import MAX_COLUMNS, check_whole
from labelprism._weights import check_sample_weight, label_mass
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
        counts = label_mass(Y, check_sample_weight(sample_weight, Y.shape[0]))
        labels = np.arange(Y.shape[1])
        table = sp.csr_array((counts, labels, np.array([0, labels.size])), shape=(1, Y.shape[1]))
        self.leaf_mass_ = counts.sum(keepdims=True)
        self.leaf_candidates_ = candidate_table(table, self.leaf_mass_)
        self.n_features_in_ = X.shape[1]
        return self

    def update(self, X: Any, Y: sp.csr_array, sample_weight: Any = None) -> None:
        """Count the labels of further examples; see `Filter.update`."""
        self._checked(X)
        before = np.exp(self.leaf_candidates_.data.astype(np.float64)) * self.leaf_mass_[0]
        counts = label_mass(Y, check_sample_weight(sample_weight, Y.shape[0]))
        counts[: before.size] += before
        table = sp.csr_array((counts, np.arange(counts.size), np.array([0, counts.size])), shape=(1, counts.size))
        self.leaf_mass_ = counts.sum(keepdims=True)
        self.leaf_candidates_ = candidate_table(table, self.leaf_mass_)


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
        counts = label_mass(Y, check_sample_weight(sample_weight, Y.shape[0]))
        labels = np.sort(most_frequent(counts, self.n_candidates))
        table = sp.csr_array((counts[labels], labels, np.array([0, labels.size])), shape=(1, Y.shape[1]))
        self.leaf_mass_ = counts.sum(keepdims=True)
        self.leaf_candidates_ = candidate_table(table, self.leaf_mass_)
        self.n_features_in_ = X.shape[1]
        return self

    def _check_parameters(self) -> None:
        check_whole("n_candidates", self.n_candidates, 1, MAX_COLUMNS)


def most_frequent(counts: Any, k: int) -> Any:
    """Return the k labels of the largest counts above 0, largest first, of equals the smaller label."""
    order = np.argsort(-counts, kind="stable")[:k]
    return order[counts[order] > 0]
