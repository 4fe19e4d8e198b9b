"""What a fitted `PrismClassifier` says of examples, in every form that is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Float32, Int32, as_csr, check_whole, is_sparse
from labelprism._targets import Classes, LabelNumbers, TargetFormat, encode_known, names_by_row
from labelprism._weights import check_sample_weight
from labelprism.composition import Composition, Mask, Model, RecipeModel, ranked_to_csr
from labelprism.explanation import Explanation, explain_composition, explain_recipe
from labelprism.filters.base import keep_entries

Dense = npt.NDArray[np.floating[Any]]

_LARGEST_DENSE = 10**8  # entries of a dense result
_SMALLEST_ODDS = 1e-30


class Predictions:
    """The methods of `PrismClassifier` that need a fitted model."""

    classes_: Classes
    class_prior_: npt.NDArray[np.float64]
    n_labels_: int
    n_jobs: int | None
    threshold: float
    _target_format: TargetFormat

    def _model(self) -> Model:
        raise NotImplementedError

    def _rows(self, X: Any) -> Any:
        """Return X as the model takes it, a csr_array or float32 array; refuse what does not fit the model."""
        raise NotImplementedError

    def _opened(self, X: Any, y: Any) -> tuple[Any, Any, Any]:
        """Return X, y and the names of the labels, of a `Dataset` too."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------- rankings

    def predict_topk(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> tuple[Int32, Float32]:
        """Return the k labels of the largest scores of every example, best first.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes
        k : int, default=5
            Rows with fewer candidates end in labels of -1 with scores of -inf.
        allowed : labels, or bool array of shape (c,), optional
            No other labels are returned. The default recipe looks for candidates among them; a filter's candidates
            are narrowed down to them, which may leave none.

        Returns
        -------
        indices : int32 array of shape (n, k)
            Places in `classes_`.
        scores : float32 array of shape (n, k)
        """
        # Single rows are a matter of microseconds, and get there without further ado.
        recipe: Any = self.__dict__.get("recipe_")
        if recipe is not None and allowed is None and "features_" not in self.__dict__:
            found: tuple[Int32, Float32] | None = recipe.predict_row(X, k)
            if found is not None:
                return found
        X = self._rows(X)
        check_whole("k", k, 1, np.iinfo(np.int32).max)
        return self._model().predict_topk(X, k, self._mask(allowed))

    def predict_labels(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> list[list[Any]]:
        """Return the names of the k best labels of every example, best first; fewer where there are fewer candidates.

        Parameters
        ----------
        X, k, allowed : see `predict_topk`
        """
        labels, _ = self.predict_topk(X, k, allowed=allowed)
        found = labels >= 0
        return names_by_row(np.concatenate([[0], np.cumsum(found.sum(axis=1))]), labels[found], self.classes_)

    def predict_scores(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> sp.csr_array:
        """Return the scores of the k best labels of every example as a matrix.

        Parameters
        ----------
        X, k, allowed : see `predict_topk`

        Returns
        -------
        csr_array of shape (n, c), float32
            Stored entries are the labels; an entry may be 0.
        """
        return ranked_to_csr(*self.predict_topk(X, k, allowed=allowed), self.n_labels_)

    def predict_topk_proba(
        self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None
    ) -> tuple[Int32, npt.NDArray[np.float64]]:
        """Return the k best labels of every example, as `predict_topk` does, with their probabilities.

        Parameters
        ----------
        X, k, allowed : see `predict_topk`

        Returns
        -------
        indices : int32 array of shape (n, k)
        probabilities : float64 array of shape (n, k)
            As in `predict_proba`; 0 for labels of -1, and for those that fill up where there are fewer candidates.
        """
        X, model = self._rows(X), self._model()
        labels, _ = model.predict_topk(X, k, self._mask(allowed))
        likely = np.zeros(labels.shape)
        for block, scores in model.score_blocks(X):
            asked = labels[block]
            if allowed is not None:  # some may be no candidates, were all labels allowed
                scores = model.score_candidates(X[block], _united(scores, asked))
            found = model.probabilities(scores, self._target_format.is_exclusive)
            table = sp.csr_array((found, scores.indices, scores.indptr), shape=scores.shape)
            rows, places = np.nonzero(asked >= 0)
            likely[block][rows, places] = np.asarray(table[rows, asked[rows, places]])
        return labels, likely

    # ------------------------------------------------------------------------------------------------------------ F, H

    def candidates(self, X: Any) -> sp.csr_array:
        """Return F(x): the candidates of every example with the filter's log-probabilities.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes

        Returns
        -------
        csr_array of shape (n, c), float32
            Stored entries are the candidates; an entry may be 0.
        """
        return self._model().candidates(self._rows(X))

    def score_candidates(self, X: Any, candidates: Any) -> sp.csr_array:
        """Return H(x, C): the scores of sets of labels of your own choice (Algorithm 1).

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes
        candidates : sparse matrix of shape (n, c), or n iterables of labels
            Stored entries, be they 0, are the labels to score.

        Returns
        -------
        csr_array of shape (n, c), float32
            Scores at the places of `candidates`.
        """
        X = self._rows(X)
        return self._model().score_candidates(X, self._label_sets(candidates, X.shape[0]))

    def _label_sets(self, candidates: Any, n: int) -> sp.csr_array:
        if is_sparse(candidates):
            sets = as_csr(candidates, "candidates")
        else:
            numbers = LabelNumbers(self.classes_)
            rows = [
                np.unique(numbers.numbers(row, f"row {place} of candidates")) for place, row in enumerate(candidates)
            ]
            indptr = np.concatenate([[0], np.cumsum([row.size for row in rows], dtype=np.int64)])
            labels = np.concatenate([np.zeros(0, np.int64), *rows])
            sets = sp.csr_array((np.ones(labels.size, np.float32), labels, indptr), shape=(len(rows), self.n_labels_))
        if sets.shape != (n, self.n_labels_):
            raise ValueError(f"candidates are of shape {sets.shape}, expected {(n, self.n_labels_)}")
        return sets

    def _mask(self, allowed: Iterable[Any] | None) -> Mask | None:
        if allowed is None:
            return None
        given = np.asarray(allowed) if isinstance(allowed, (np.ndarray, list)) else None
        if given is not None and given.dtype == bool and self.classes_.dtype != bool:
            if given.shape != (self.n_labels_,):
                raise ValueError(f"allowed has shape {given.shape}, expected ({self.n_labels_},): one for each label")
            return given
        mask = np.zeros(self.n_labels_, bool)
        mask[LabelNumbers(self.classes_).numbers(allowed, "allowed")] = True
        return mask

    # ----------------------------------------------------------------------------------------------------- predictions

    def predict(self, X: Any) -> Any:
        """Return the labels of every example, in the container that y had in `fit`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes

        Returns
        -------
        array of shape (n,), matrix of shape (n, c), or list of n tuples or sets
            Classes: the best of each row; the most frequent of all where there is no candidate. Otherwise the labels
            whose probability is at least `threshold`, which may be none; `predict_topk` always has some.
        """
        model, X = self._model(), self._rows(X)
        if self._target_format.is_exclusive:
            return self.classes_[self._best(model, X)]
        likely = [sp.csr_array((0, self.n_labels_), dtype=np.float32)]
        for _, scores in model.score_blocks(X):
            likely.append(keep_entries(scores, model.probabilities(scores, False) >= self.threshold))
        return self._target_format.decode(sp.csr_array(sp.vstack(likely, format="csr")), self.classes_)

    def _best(self, model: Model, X: Any) -> Int32:
        """Return the best label of each row; without candidates the most frequent class, or -1 where y has others."""
        best = model.predict_topk(X, 1)[0][:, 0]
        usual = int(np.argmax(self.class_prior_)) if self._target_format.is_exclusive else -1
        return np.where(best < 0, np.int32(usual), best)

    def predict_proba(self, X: Any) -> Dense:
        """Return the probability of every label; below 10^8 of them altogether.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes

        Returns
        -------
        array of shape (n, c)
            Where y was classes, rows sum to 1. Otherwise each label has a probability of its own. Labels that are no
            candidates have 0.
        """
        return self._dense_probabilities(self._model(), self._rows(X))

    def _dense_probabilities(self, model: Model, X: Any) -> Dense:
        self._check_dense(X.shape[0], "predict_proba")
        exclusive = self._target_format.is_exclusive
        result = np.zeros((X.shape[0], self.n_labels_))
        for block, scores in model.score_blocks(X):
            rows = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
            result[block][rows, scores.indices] = model.probabilities(scores, exclusive)
        if exclusive:
            result[~result.any(axis=1)] = self.class_prior_
        return result

    def predict_log_proba(self, X: Any) -> Dense:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def decision_function(self, X: Any) -> Dense:
        """Return the score of every label; below 10^8 of them altogether.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or what `features` takes

        Returns
        -------
        array of shape (n, c), or (n,) where y was one of two classes
            Labels that are no candidates score 1 less than the row's last candidate; where a row has no candidates,
            labels score the logarithms of their frequencies. Of two classes: log(p / (1 - p)), p that of the second.
        """
        model, X = self._model(), self._rows(X)
        if self._target_format.is_exclusive and self.n_labels_ == 2:
            likely = np.maximum(self._dense_probabilities(model, X), _SMALLEST_ODDS)
            return np.asarray(np.log(likely[:, 1]) - np.log(likely[:, 0]))
        self._check_dense(X.shape[0], "decision_function")
        usual = np.log(np.maximum(self.class_prior_, _SMALLEST_ODDS)).astype(np.float32)
        result = np.tile(usual, (X.shape[0], 1))
        for block, scores in model.score_blocks(X):
            lengths = np.diff(scores.indptr)
            filled = np.flatnonzero(lengths)
            if filled.size:
                lowest = np.minimum.reduceat(scores.data, scores.indptr[filled])
                part = result[block]
                part[filled] = lowest[:, None] - 1
                part[np.repeat(np.arange(lengths.size), lengths), scores.indices] = scores.data
        return result

    def _check_dense(self, n: int, name: str) -> None:
        if n * self.n_labels_ > _LARGEST_DENSE:
            raise ValueError(
                f"{name} would be a dense array of {n} x {self.n_labels_}, over {_LARGEST_DENSE:,} entries; "
                "use predict_topk or predict_scores, or fewer rows at once"
            )

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy where y is classes, and else the precision of the first label (P@1).

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), what `features` takes, or a `Dataset` with y left out
        y : in any container that `fit` takes
            Labels unknown to the model count as not found.
        sample_weight : array of shape (n,), optional
        """
        X, y, names = self._opened(X, y)
        best = self._best(self._model(), self._rows(X))
        Y = encode_known(y, self.classes_, names)
        if Y.shape[0] != best.size:
            raise ValueError(f"X has {best.size} rows and y has {Y.shape[0]}; they must be of the same examples")
        hits = (np.asarray(Y[np.arange(best.size), np.maximum(best, 0)]) > 0) & (best >= 0)
        return float(np.average(hits, weights=check_sample_weight(sample_weight, best.size)))

    # ---------------------------------------------------------------------------------------------------- explanations

    def explain(self, x: Any, k: int = 5, *, n_features: int = 10) -> Explanation:
        """Tell why one example gets its labels: its way through each tree, the candidates, what made the scores.

        Parameters
        ----------
        x : sparse matrix or array of shape (1, d), or a list of one text where there are `features`
        k : int, default=5
            How many of the best labels to explain.
        n_features : int, default=10
            At most so many features of each, those of the largest contributions.
        """
        check_whole("k", k, 1, np.iinfo(np.int32).max)
        check_whole("n_features", n_features, 0, np.iinfo(np.int32).max)
        model, x = self._model(), self._rows(x)
        if x.shape[0] != 1:
            raise ValueError(f"explain takes one example, got {x.shape[0]}")
        if isinstance(model, RecipeModel):
            return explain_recipe(model, as_csr(x), k, n_features, self.classes_, self._feature_names)
        assert isinstance(model, Composition)
        return explain_composition(model, x, k, n_features, self.classes_, self._feature_names)

    def _feature_names(self, features: Int32) -> list[str | None]:
        """Return the names of features, None for those that have none."""
        state = self.__dict__
        if "feature_names_in_" in state:
            return [str(name) for name in state["feature_names_in_"][features]]
        try:
            if hasattr(state.get("features_"), "token_of"):
                return list(state["features_"].token_of(features))
            if hasattr(state.get("features_"), "get_feature_names_out"):
                return [str(name) for name in np.asarray(state["features_"].get_feature_names_out())[features]]
        except ValueError:  # one that can name features, but was not asked to keep the names
            pass
        return [None] * len(features)


def _united(scores: sp.csr_array, labels: Int32) -> sp.csr_array:
    """Return a matrix with the entries of another one and those of further labels, (n, k), -1 for none."""
    rows, places = np.nonzero(labels >= 0)
    own = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    entries = np.concatenate([own, rows]), np.concatenate([scores.indices, labels[rows, places]])
    return sp.csr_array((np.ones(entries[0].size, np.float32), entries), shape=scores.shape)
