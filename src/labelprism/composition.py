"""Models behind `PrismClassifier`: a filter and a head, or the default recipe, that answer the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism import _core
from labelprism._arrays import Float32, Int32, check_whole, csr_parts
from labelprism._threads import thread_count
from labelprism._views import seen
from labelprism.filters import Filter
from labelprism.filters.base import keep_entries
from labelprism.heads import Head
from labelprism.recipe import DefaultRecipe

_ENTRIES_PER_BLOCK = 1 << 24  # scores held at once
Mask = npt.NDArray[np.bool_]
Probabilities = npt.NDArray[np.floating[Any]]


class Model(Protocol):
    """What `PrismClassifier` asks of a fitted model; X is a csr_array or float32 array of shape (n, d)."""

    def predict_topk(self, X: Any, k: int, allowed: Mask | None = None) -> tuple[Int32, Float32]:
        """Return the k best labels of every row and their scores; -1 and -inf where there are fewer."""

    def candidates(self, X: Any) -> sp.csr_array:
        """Return the candidates of every row with F's log-probabilities."""

    def score_candidates(self, X: Any, candidates: sp.csr_array) -> sp.csr_array:
        """Return the scores of any sets of labels."""

    def score_blocks(self, X: Any) -> Iterator[tuple[slice, sp.csr_array]]:
        """Yield blocks of rows, with the scores of their candidates."""

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return the probability of every stored entry; those of a row sum to 1 where labels are exclusive."""


@dataclass(frozen=True)
class Composition:
    """F, then H.

    Parameters
    ----------
    filter, head : Filter, Head
        Fitted.
    filter_view, head_view : None, slice, int64 array or fitted transformer
        The features that each of them sees.
    unit_rows : bool
        Whether rows are made unit, after the features were chosen.
    n_jobs : int, optional
    """

    filter: Filter
    head: Head
    filter_view: Any
    head_view: Any
    unit_rows: bool
    n_jobs: int | None

    def rows(self, X: Any) -> tuple[Any, Any]:
        """Return X as filter and head see it."""
        for_filter = unit_rows(seen(self.filter_view, X), self.unit_rows)
        if self.filter_view is self.head_view:
            return for_filter, for_filter
        return for_filter, unit_rows(seen(self.head_view, X), self.unit_rows)

    def predict_topk(self, X: Any, k: int, allowed: Mask | None = None) -> tuple[Int32, Float32]:
        """Return the k candidates of the largest scores."""
        for_filter, for_head = self.rows(X)
        leaves = self.filter.route(for_filter)
        if allowed is None:
            return self.head.topk(for_head, leaves, k)
        check_whole("k", k, 1, np.iinfo(np.int32).max)
        labels = np.full((X.shape[0], k), -1, np.int32)
        best = np.full((X.shape[0], k), -np.inf, np.float32)
        for block, scores in self._blocks(for_head, leaves):
            kept = keep_entries(scores, allowed[scores.indices])
            labels[block], best[block] = _core.top_k_csr(*csr_parts(kept), k, thread_count(self.n_jobs))
        return labels, best

    def candidates(self, X: Any) -> sp.csr_array:
        """Return the candidates of every row."""
        return self.filter.candidates(self.rows(X)[0])

    def score_candidates(self, X: Any, candidates: sp.csr_array) -> sp.csr_array:
        """Return the head's scores of any sets of labels."""
        for_filter, for_head = self.rows(X)
        return self.head.score_candidates(for_head, self.filter.route(for_filter), candidates)

    def score_blocks(self, X: Any) -> Iterator[tuple[slice, sp.csr_array]]:
        """Yield the head's scores of the candidates, in blocks of rows."""
        for_filter, for_head = self.rows(X)
        yield from self._blocks(for_head, self.filter.route(for_filter))

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return the head's probabilities."""
        return self.head.probabilities(scores, exclusive)

    def _blocks(self, X: Any, leaves: Int32) -> Iterator[tuple[slice, sp.csr_array]]:
        longest = int(np.diff(self.head.candidates_.indptr).max(initial=1))
        for block in row_blocks(X.shape[0], longest):
            yield block, self.head.scores(X[block], leaves[block])


@dataclass(frozen=True)
class RecipeModel:
    """The default recipe.

    Parameters
    ----------
    recipe : DefaultRecipe
    n_jobs : int, optional
    """

    recipe: DefaultRecipe
    n_jobs: int | None

    def predict_topk(self, X: Any, k: int, allowed: Mask | None = None) -> tuple[Int32, Float32]:
        """Return the k best labels; with `allowed`, of these alone."""
        return self.recipe.predict_topk(X, k, self.n_jobs, allowed=allowed)

    def candidates(self, X: Any) -> sp.csr_array:
        """Return the candidates of every row."""
        return self.recipe.candidates(X, self.n_jobs)

    def score_candidates(self, X: Any, candidates: sp.csr_array) -> sp.csr_array:
        """Return the blended scores of any sets of labels."""
        return self.recipe.score_candidates(X, candidates, self.n_jobs)

    def score_blocks(self, X: Any) -> Iterator[tuple[slice, sp.csr_array]]:
        """Yield the blended scores of all candidates, in blocks of rows."""
        k = self.recipe.most_candidates
        for block in row_blocks(X.shape[0], k):
            yield block, ranked_to_csr(*self.recipe.predict_topk(X[block], k, self.n_jobs), self.recipe.n_labels_)

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return calibrated probabilities, made to sum to 1 in each row where labels are exclusive."""
        likely: Float32 = np.asarray(self.recipe.probabilities(scores), np.float32)
        if not exclusive or not likely.size:
            return likely
        n, row = scores.shape[0], np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
        best = np.full(n, -np.inf)
        np.maximum.at(best, row, scores.data)
        # The calibrated map may be flat, where a little of the score keeps the best label the best.
        wide = (likely.astype(np.float64) + 1e-12) * np.exp(1e-4 * (scores.data - best[row]))
        return np.asarray(wide / np.bincount(row, weights=wide, minlength=n)[row])


def row_blocks(n: int, entries_per_row: int) -> Iterator[slice]:
    """Yield slices of n rows that hold a bounded number of entries."""
    n_rows = max(1, _ENTRIES_PER_BLOCK // entries_per_row)
    for begin in range(0, n, n_rows):
        yield slice(begin, min(begin + n_rows, n))


def unit_rows(X: Any, wanted: bool) -> Any:
    """Return X with rows of unit norm, if that is wanted."""
    return normalize(X) if wanted and X.shape[0] and X.shape[1] else X


def ranked_to_csr(labels: Int32, scores: Float32, n_labels: int) -> sp.csr_array:
    """Return the best labels of rows as a CSR matrix of their scores; entries may be 0.

    Parameters
    ----------
    labels : int32 array of shape (n, k)
        -1 where a row has fewer.
    scores : float32 array of shape (n, k)
    n_labels : int
    """
    found = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(found.sum(axis=1), dtype=np.int64)])
    matrix = sp.csr_array((scores[found], labels[found], indptr), shape=(labels.shape[0], n_labels))
    matrix.sort_indices()
    return matrix
