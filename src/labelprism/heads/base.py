"""What every head H has in common: it scores the candidates of examples, and nothing else.

A head never sees the filter. It is given `Routes`, which tell the leaf of every training example, decided or drawn, and
the candidate labels of every leaf; at prediction it is given the leaves.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, check_whole, csr_parts
from labelprism._threads import thread_count
from labelprism.data.dataset import as_features_of

Probabilities = npt.NDArray[np.floating[Any]]

_ENTRIES_PER_BLOCK = 1 << 24  # scores held at once while the best are looked for


class Routes(Protocol):
    """The leaves that training examples reach, and the candidates there."""

    @property
    def table(self) -> sp.csr_array:
        """The candidates of each leaf, (n_leaves, c), with log p(label | leaf); sorted."""

    def decided(self) -> Int32:
        """Return the leaf of every training example, as at prediction."""

    def sampled(self, rng: np.random.Generator) -> Int32:
        """Return a random leaf for every training example, by the probabilities of its routes."""


class Head(BaseEstimator):  # type: ignore[misc]
    """Base of the heads.

    A subclass implements `fit`, which calls `_set_table`, and `_leaf_scores`; `_candidate_scores` if it can score
    labels that a leaf does not have. Messages of `_check_parameters` begin with the name of the parameter.

    Attributes
    ----------
    candidates_ : csr_array of shape (n_leaves, n_labels)
        The candidates of each leaf, with the filter's log-probabilities.
    n_features_in_ : int
        The number of features.
    """

    candidates_: sp.csr_array
    n_features_in_: int
    n_jobs: int | None = None

    def fit(self, X: Any, Y: sp.csr_array, routes: Routes, sample_weight: Any = None) -> Head:
        """Learn to score the candidates.

        Parameters
        ----------
        X : csr_array or float32 array of shape (n, d)
        Y : csr_array of shape (n, c)
            The labels; those that are not among the candidates of an example's leaf give no positive.
        routes : Routes
        sample_weight : array of shape (n,), optional
        """
        raise NotImplementedError

    def scores(self, X: Any, leaves: Int32) -> sp.csr_array:
        """Return the scores of the candidates of every example.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        leaves : int32 array of shape (n,)
            The leaf of each example.

        Returns
        -------
        csr_array of shape (n, n_labels), float32
            Stored entries are the candidates, in the order of their labels; an entry may be 0.
        """
        X = self._checked(X)
        leaves = self._checked_leaves(leaves, X.shape[0])
        table = self.candidates_
        lengths = np.diff(table.indptr)[leaves]
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        columns = np.arange(indptr[-1]) + np.repeat(table.indptr[:-1][leaves] - indptr[:-1], lengths)
        values = self._leaf_scores(X, leaves, indptr)
        return sp.csr_array((values, table.indices[columns], indptr), shape=(X.shape[0], table.shape[1]))

    def topk(self, X: Any, leaves: Int32, k: int) -> tuple[Int32, Float32]:
        """Return the k candidates of the largest scores of every example, best first.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        leaves : int32 array of shape (n,)
        k : int
            Rows with fewer candidates end in labels of -1 with scores of -inf.

        Returns
        -------
        int32 and float32 arrays of shape (n, k)
        """
        check_whole("k", k, 1, np.iinfo(np.int32).max)
        X = self._checked(X)
        leaves = self._checked_leaves(leaves, X.shape[0])
        lengths = np.diff(self.candidates_.indptr)[leaves]
        block = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) // _ENTRIES_PER_BLOCK
        starts = np.flatnonzero(np.diff(block[:-1], prepend=-1))
        labels = np.full((X.shape[0], k), -1, np.int32)
        best = np.full((X.shape[0], k), -np.inf, np.float32)
        for begin, end in zip(starts, np.append(starts, X.shape[0])[1:], strict=True):
            found = self.scores(X[begin:end], leaves[begin:end])
            labels[begin:end], best[begin:end] = _core.top_k_csr(*csr_parts(found), k, thread_count(self.n_jobs))
        return labels, best

    def score_candidates(self, X: Any, leaves: Int32, candidates: sp.csr_array) -> sp.csr_array:
        """Return the scores of any sets of labels: H(x, C) of Algorithm 1.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        leaves : int32 array of shape (n,)
            The leaf of each example, which has parameters of its own in some heads.
        candidates : csr_array of shape (n, n_labels), sorted
            Stored entries are the labels to score; those that the leaf has score as in `scores`.

        Returns
        -------
        csr_array of shape (n, n_labels), float32
            With the entries of `candidates`.
        """
        X = self._checked(X)
        leaves = self._checked_leaves(leaves, X.shape[0])
        if candidates.shape != (X.shape[0], self.n_labels_):
            raise ValueError(f"candidates has shape {candidates.shape}, expected {(X.shape[0], self.n_labels_)}")
        values = self._candidate_scores(X, leaves, candidates)
        return sp.csr_array((values, candidates.indices, candidates.indptr), shape=candidates.shape)

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return how probable labels are, by their scores.

        Parameters
        ----------
        scores : csr_array of shape (n, n_labels)
            As from `scores`.
        exclusive : bool
            Whether a row has exactly one label, so that the probabilities of its candidates sum to 1.

        Returns
        -------
        float array of shape (nnz,)
            For every stored entry.
        """
        return softmax_by_row(scores) if exclusive else sigmoid(scores.data)

    def contributions(self, x: Any, leaf: int, label: int) -> tuple[Int32, Float32] | None:
        """Return what each feature of one example adds to the score of a label; None where that cannot be told.

        Parameters
        ----------
        x : sparse matrix or array of shape (1, d)
        leaf, label : int

        Returns
        -------
        features : int32 array
            Those that are not 0.
        values : float32 array
            With a bias they sum to the score.
        """
        return None

    @property
    def n_labels_(self) -> int:
        """The number of labels."""
        return int(self.candidates_.shape[1])

    def _check_parameters(self) -> None:
        """Make sure that all parameters can be used."""

    def _candidate_scores(self, X: Any, leaves: Int32, candidates: sp.csr_array) -> Float32:
        """Return the scores of the entries of `candidates`."""
        raise ValueError(f"{type(self).__name__} scores the candidates of its leaves only, not other sets of labels")

    def _leaf_scores(self, X: Any, leaves: Int32, indptr: npt.NDArray[np.int64]) -> Float32:
        """Return the scores of the candidates of the rows, one row after the other; row i has its at indptr[i]."""
        raise NotImplementedError

    def _set_table(self, X: Any, routes: Routes) -> None:
        self.n_features_in_ = int(X.shape[1])
        self.candidates_ = routes.table

    def _checked(self, X: Any) -> sp.csr_array | Float32:
        check_is_fitted(self, "candidates_")
        return as_features_of(self, X)

    def _checked_leaves(self, leaves: Any, n: int) -> Int32:
        leaves = np.ascontiguousarray(leaves)
        if leaves.shape != (n,) or leaves.dtype.kind not in "iu":
            raise ValueError(f"leaves must be {n} whole numbers, one for each example; got shape {leaves.shape}")
        n_leaves = self.candidates_.shape[0]
        if n and not (leaves.min() >= 0 and leaves.max() < n_leaves):
            raise ValueError(f"leaves must lie between 0 and {n_leaves - 1}")
        return np.asarray(leaves, np.int32)


def slots_of(table: sp.csr_array, leaves: Int32, candidates: sp.csr_array) -> Int64:
    """Return which stored entry of a table each candidate is, -1 for those that the row's leaf does not have.

    Parameters
    ----------
    table : csr_array of shape (n_leaves, c), sorted
    leaves : int32 array of shape (n,)
    candidates : csr_array of shape (n, c)
    """
    c = np.int64(table.shape[1])
    stored = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * c + table.indices
    asked = np.repeat(leaves.astype(np.int64), np.diff(candidates.indptr)) * c + candidates.indices
    place = np.searchsorted(stored, asked)
    return np.asarray(np.where(np.append(stored, -1)[place] == asked, place, -1), np.int64)


def softmax_by_row(scores: sp.csr_array) -> Probabilities:
    """Return exp of the stored entries over its sum in the row, as an array of them; float64."""
    lengths = np.diff(scores.indptr)
    filled = np.flatnonzero(lengths)
    if not filled.size:
        return np.zeros(0)
    starts = scores.indptr[filled]
    values = scores.data.astype(np.float64)
    values = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), lengths[filled]))
    return np.asarray(values / np.repeat(np.add.reduceat(values, starts), lengths[filled]))


def sigmoid(values: Float32) -> Float32:
    """Return 1 / (1 + exp(-values))."""
    return np.asarray(expit(values), np.float32)
