"""What every filter F has in common: examples are routed to leaves, and a leaf has candidate labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labelprism import _core
from labelprism._arrays import Float32, Int32, as_label_matrix, check_whole, csr_parts, is_sparse
from labelprism.data.dataset import as_features, as_features_of

SMALLEST_PROBABILITY = 1e-12
"""Candidates that no example of a leaf has (orphans, head labels) count as this probable there."""


class Step(NamedTuple):
    """One node on the way of an example through a tree."""

    node: int
    margin: float
    """w.x - b: right where it is above 0; 0 at the leaf, where the way ends."""
    probability: float
    """How probable it is that the example comes here."""


class Filter(BaseEstimator):  # type: ignore[misc]
    """Base of the filters: maps examples to leaves, and leaves to candidate labels.

    A subclass sets, in `fit`, `n_features_in_` and `leaf_candidates_`, and overrides `route` and its kin if it has
    more than one leaf. Messages of `_check_parameters` begin with the name of the parameter.

    Attributes
    ----------
    leaf_candidates_ : csr_array of shape (n_leaves, n_labels)
        The candidates of each leaf, with the logarithm of their share in the leaf's label mass (that of all labels,
        candidates or not). Stored entries are the candidates; an entry may be 0, which is the logarithm of 1.
    n_features_in_ : int
        The number of features.
    """

    leaf_candidates_: sp.csr_array
    n_features_in_: int

    def route(self, X: Any) -> Int32:
        """Return the leaf of every example, decided by its router margins.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)

        Returns
        -------
        int32 array of shape (n,)
        """
        return np.zeros(self._checked(X).shape[0], np.int32)

    def sample_route(self, X: Any, rng: np.random.Generator) -> Int32:
        """Return a random leaf for every example, by the probabilities of its routes.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        rng : numpy Generator
            Source of the random numbers.

        Returns
        -------
        int32 array of shape (n,)
        """
        return self.route(X)

    def leaf_probabilities(self, X: Any, smallest: float = 0.0) -> sp.csr_array:
        """Return the probability of every leaf for every example.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        smallest : float, default=0
            Routes whose probability falls to this or below are not followed; with 0 each row sums to 1.

        Returns
        -------
        csr_array of shape (n, n_leaves), float32
        """
        return sp.csr_array(np.ones((self._checked(X).shape[0], 1), np.float32))

    def candidates(self, X: Any, k: int | None = None) -> sp.csr_array:
        """Return the candidate labels of every example, with their log-probabilities.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        k : int, optional
            Keep the k most probable (of equals the smaller label) of each row, at most `n_candidates`; all, orphans
            included, when left out.

        Returns
        -------
        csr_array of shape (n, n_labels), float32
            Stored entries are the candidates; an entry may be 0, which is the logarithm of 1.
        """
        leaves = self.route(X)
        if k is None:
            return take_rows(self.leaf_candidates_, leaves)
        check_whole("k", k, 1, getattr(self, "n_candidates", self.n_labels_))
        return take_rows(largest_entries(self.leaf_candidates_, k), leaves)

    def paths(self, x: Any) -> list[list[Step]]:
        """Return the way of one example through each tree, from the root to the leaf; none where there is no tree.

        Parameters
        ----------
        x : sparse matrix or array of shape (1, d)
        """
        self._checked_row(x)
        return []

    @property
    def n_labels_(self) -> int:
        """The number of labels."""
        return int(self.leaf_candidates_.shape[1])

    def _check_parameters(self) -> None:
        """Make sure that all parameters can be used."""

    def _checked_row(self, x: Any) -> sp.csr_array | Float32:
        x = self._checked(x)
        if x.shape[0] != 1:
            raise ValueError(f"expected one row, got {x.shape[0]}")
        return x

    def _checked(self, X: Any) -> sp.csr_array | Float32:
        """Return X as the native core takes it, made sure to have the features of `fit`."""
        check_is_fitted(self, "leaf_candidates_")
        return as_features_of(self, X)


def check_fit_input(X: Any, Y: Any, n_labels: int | None = None) -> tuple[sp.csr_array | Float32, sp.csr_array]:
    """Return X and Y as the native core takes them.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, d)
    Y : sparse matrix or array of shape (n, c), or n label numbers
        Numbers are the case of one label a row.
    n_labels : int, optional
        How many labels there are, where Y is numbers; one more than the largest when left out.
    """
    X = as_features(X)
    if not is_sparse(Y) and np.ndim(Y) == 1:
        Y = _from_numbers(np.asarray(Y), n_labels)
    Y = as_label_matrix(Y)
    if X.shape[0] != Y.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and Y has {Y.shape[0]}; they must be the rows of the same examples")
    if X.shape[0] == 0 or Y.shape[1] == 0:
        raise ValueError(f"there is nothing to learn from: X has {X.shape[0]} rows and Y has {Y.shape[1]} labels")
    return X, Y


def _from_numbers(labels: Any, n_labels: int | None) -> sp.csr_array:
    if labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise ValueError("Y of one dimension must hold label numbers from 0; encode other labels before")
    n = labels.size
    shape = (n, max(n_labels or 0, int(labels.max()) + 1 if n else 0))
    return sp.csr_array((np.ones(n, np.float32), labels, np.arange(n + 1)), shape=shape)


def candidate_table(counts: sp.csr_array, label_mass: npt.NDArray[np.float64]) -> sp.csr_array:
    """Turn the counts of candidates by leaf into log-probabilities; entries of 0 stay stored.

    Parameters
    ----------
    counts : csr_array of shape (n_leaves, n_labels)
    label_mass : float64 array of shape (n_leaves,)
        The counts of all labels of each leaf together.
    """
    share = counts.data / np.repeat(np.maximum(label_mass, SMALLEST_PROBABILITY), np.diff(counts.indptr))
    logarithms = np.log(np.maximum(share, SMALLEST_PROBABILITY)).astype(np.float32)
    return sp.csr_array((logarithms, counts.indices, counts.indptr), shape=counts.shape)


def share_found(table: sp.csr_array, rows: npt.NDArray[np.integer[Any]], Y: sp.csr_array) -> npt.NDArray[np.float64]:
    """Return the share of each example's labels among the candidates in its row of a table; 0 without labels.

    The candidates of all examples together may be far larger than the table, and are never made.

    Parameters
    ----------
    table : csr_array of shape (m, c), sorted
        Candidates, as stored entries.
    rows : int array of shape (n,)
        The row of the table for each example.
    Y : csr_array of shape (n, c)
        The labels.
    """
    if table.shape[1] != Y.shape[1]:
        raise ValueError(f"Y has {Y.shape[1]} labels, but the filter was fitted with {table.shape[1]}")
    c, n_labels = np.int64(table.shape[1]), np.diff(Y.indptr)
    row_of_label = np.repeat(np.arange(Y.shape[0]), n_labels)
    wanted = rows[row_of_label].astype(np.int64) * c + Y.indices
    offered = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * c + table.indices
    found = np.append(offered, -1)[np.searchsorted(offered, wanted)] == wanted
    hits = np.bincount(row_of_label, weights=found, minlength=Y.shape[0])
    return np.asarray(hits / np.maximum(n_labels, 1))


def mean_recall(table: sp.csr_array, rows: npt.NDArray[np.integer[Any]], Y: sp.csr_array) -> float:
    """Return the mean of `share_found` over the examples that have labels; nan if none has."""
    found, labelled = share_found(table, rows, Y), np.diff(Y.indptr) > 0
    return float(found[labelled].mean()) if labelled.any() else float("nan")


def take_rows(table: sp.csr_array, rows: npt.NDArray[np.integer[Any]]) -> sp.csr_array:
    """Return rows of a CSR matrix, entries of 0 kept."""
    lengths = np.diff(table.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    entries = np.arange(indptr[-1]) + np.repeat(table.indptr[:-1][rows] - indptr[:-1], lengths)
    return sp.csr_array((table.data[entries], table.indices[entries], indptr), shape=(len(rows), table.shape[1]))


def largest_entries(table: sp.csr_array, k: int, n_threads: int = 1) -> sp.csr_array:
    """Return the k largest stored entries of every row (of equals the first), in the order of their columns.

    Parameters
    ----------
    table : csr_array of shape (n, m), sorted
    k : int
    n_threads : int
    """
    lengths = np.diff(table.indptr)
    long = np.flatnonzero(lengths > k)  # the others are kept as they are
    if not long.size:
        return table
    columns, scores = _core.top_k_csr(*csr_parts(take_rows(table, long)), k, n_threads)
    last_score = np.full(table.shape[0], -np.inf, np.float32)
    last_column = np.full(table.shape[0], -1, np.int32)
    last_score[long], last_column[long] = scores[:, -1], columns[:, -1]
    score, column = np.repeat(last_score, lengths), np.repeat(last_column, lengths)
    return keep_entries(table, (table.data > score) | ((table.data == score) & (table.indices <= column)))


def keep_entries(matrix: sp.csr_array, kept: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return a CSR matrix with some of its stored entries, zeros included.

    Parameters
    ----------
    matrix : csr_array
    kept : bool array of shape (nnz,)
    """
    indptr = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)
