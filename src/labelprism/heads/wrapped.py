"""`WrappedHead`: any classifier of scikit-learn as H, its scores masked to the candidates.

The filter works with "any base classifier". One that was not written for candidates scores all labels, so that neither
training nor prediction gets faster; what the mask can do for it is to leave out labels that do not belong to the region
of the example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from labelprism._arrays import Float32, Int32, Int64
from labelprism.heads.base import Head, Probabilities, Routes

_SCORES_PER_BLOCK = 1 << 22  # scores of all labels that are held at once
_LARGEST_SCORE = float(np.finfo(np.float32).max) / 4  # infinite scores become this; a quarter leaves room below it


class WrappedHead(Head):
    """A scikit-learn classifier as H.

    The estimator is cloned and learns from all examples, whatever their candidates. Its scores are those of
    `decision_function` or, where it has none, of `predict_proba`. Labels without a training example are unknown to it;
    where they are candidates, they score below every known label of the same example: with m the example's lowest score
    of a known label, m - max(1, |m|).

    Parameters
    ----------
    estimator : classifier
        Any with `fit`, `classes_` and either `decision_function` or `predict_proba`. Where every row has one label
        (those without any are left out) it is given label numbers, and every classifier of scikit-learn will do. Where
        rows have several, it is given an indicator matrix of the labels that occur, and must be one that takes it:
        `OneVsRestClassifier` takes a sparse one.
    dense_labels : bool, default=False
        Whether the indicator matrix is made dense, which takes n bytes for each label. `KNeighborsClassifier`,
        `RandomForestClassifier`, `MLPClassifier` and `MultiOutputClassifier` need it where rows have several labels.
    n_jobs : int, optional
        Threads of `topk`, as in scikit-learn; those of the estimator are its own parameter.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.
    known_labels_ : int64 array of shape (n_known,)
        The labels that have training examples, ascending.
    """

    def __init__(self, estimator: Any = None, *, dense_labels: bool = False, n_jobs: int | None = None) -> None:
        self.estimator = estimator
        self.dense_labels = dense_labels
        self.n_jobs = n_jobs

    def fit(self, X: Any, Y: sp.csr_array, routes: Routes, sample_weight: Any = None) -> WrappedHead:
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : csr_array or float32 array of shape (n, d)
        Y : csr_array of shape (n, c)
        routes : Routes
            Only its candidates are used.
        sample_weight : array of shape (n,), optional
            Given to the estimator, which must take it.
        """
        self._check_parameters()
        if sample_weight is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(f"{type(self.estimator).__name__} takes no sample_weight; leave it out, or wrap another")
        if not Y.nnz:
            raise ValueError("no example has a label, so that there is nothing to learn")
        self._set_table(X, routes)
        self.known_labels_: Int64 = np.unique(Y.indices).astype(np.int64)
        self.estimator_ = clone(self.estimator)
        labels_per_row = np.diff(Y.indptr)
        self._one_label = bool(labels_per_row.max() == 1)
        if self._one_label:
            labelled = np.flatnonzero(labels_per_row)
            weight = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[labelled]}
            self.estimator_.fit(X if labelled.size == X.shape[0] else X[labelled], Y.indices, **weight)
        else:
            self._fit_indicator(X, Y, {} if sample_weight is None else {"sample_weight": sample_weight})
        self._check_fitted_estimator()
        return self

    def _check_parameters(self) -> None:
        if not hasattr(self.estimator, "fit"):
            raise ValueError(f"estimator must be a scikit-learn classifier, got {self.estimator!r}")

    def _fit_indicator(self, X: Any, Y: sp.csr_array, weight: dict[str, Any]) -> None:
        column_of = self._column_of_label(self.known_labels_)
        ones = np.ones(Y.nnz, np.int8)
        indicator = sp.csr_array((ones, column_of[Y.indices], Y.indptr), shape=(Y.shape[0], self.known_labels_.size))
        try:
            self.estimator_.fit(X, indicator.toarray() if self.dense_labels else indicator, **weight)
        except (TypeError, ValueError) as error:
            other_way = "" if self.dense_labels else ", or set dense_labels=True if it takes dense matrices"
            raise ValueError(
                f"rows have several labels, and {type(self.estimator).__name__} could not be fitted with an indicator "
                f"matrix of labels ({error}); wrap it in sklearn.multiclass.OneVsRestClassifier{other_way}"
            ) from error

    def _check_fitted_estimator(self) -> None:
        name = type(self.estimator).__name__
        if not any(hasattr(self.estimator_, method) for method in ("decision_function", "predict_proba")):
            raise ValueError(
                f"{name} has neither decision_function nor predict_proba, so that it cannot rank candidates; "
                "use a classifier that has one, or wrap it in sklearn.calibration.CalibratedClassifierCV"
            )
        if not hasattr(self.estimator_, "classes_"):
            raise ValueError(f"{name} does not tell its labels in classes_; use a classifier")

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return the estimator's probabilities, or those by the logistic function of its decisions.

        Decisions of classifiers other than logistic regression make rough probabilities; see `Head.probabilities`.
        """
        if hasattr(self.estimator_, "decision_function"):
            return super().probabilities(scores, exclusive)
        likely = np.clip(scores.data.astype(np.float64), 0, 1)
        if exclusive:
            likely += 1e-30  # candidates that are all impossible are equally so
            row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
            likely /= np.bincount(row, weights=likely, minlength=scores.shape[0])[row]
        return np.asarray(likely)

    def _leaf_scores(self, X: Any, leaves: Int32, indptr: npt.NDArray[np.int64]) -> Float32:
        table = self.candidates_
        return self._masked_scores(X, indptr, lambda block: table[leaves[block]].indices)

    def _candidate_scores(self, X: Any, leaves: Int32, candidates: sp.csr_array) -> Float32:
        ends, labels = candidates.indptr, candidates.indices
        return self._masked_scores(X, ends, lambda block: labels[ends[block.start] : ends[block.stop]])

    def _masked_scores(self, X: Any, indptr: npt.NDArray[Any], labels_of: Callable[[slice], Any]) -> Float32:
        """Return the scores of labels, given for blocks of rows: those of all rows may be too many to hold at once."""
        known = np.asarray(self.estimator_.classes_, np.int64) if self._one_label else self.known_labels_
        column_of = self._column_of_label(known)
        values = np.empty(indptr[-1], np.float32)
        n_rows = max(1, _SCORES_PER_BLOCK // known.size)
        for begin in range(0, X.shape[0], n_rows):
            block = slice(begin, min(begin + n_rows, X.shape[0]))
            scores = self._known_scores(X[block], known.size)
            lowest = scores.min(axis=1)
            columns = column_of[labels_of(block)]
            rows = np.repeat(np.arange(scores.shape[0]), np.diff(indptr[block.start : block.stop + 1]))
            unknown = (lowest - np.maximum(1, np.abs(lowest)))[rows]
            values[indptr[block.start] : indptr[block.stop]] = np.where(columns < 0, unknown, scores[rows, columns])
        return values

    def _column_of_label(self, known: Int64) -> Int64:
        """Return the place of each label among the known ones, -1 for others; shape (c,)."""
        column_of = np.full(self.candidates_.shape[1], -1, np.int64)
        column_of[known] = np.arange(known.size)
        return column_of

    def _known_scores(self, X: Any, n_known: int) -> Float32:
        """Return the estimator's scores of all the labels it knows; (n, n_known), finite."""
        if hasattr(self.estimator_, "decision_function"):
            scores = np.asarray(self.estimator_.decision_function(X))
            if scores.ndim == 1:  # two classes: the margin of the second
                scores = np.stack([-scores, scores], axis=1)
        else:
            scores = self._probabilities(X)
        if scores.shape != (X.shape[0], n_known):
            raise ValueError(
                f"{type(self.estimator).__name__} gave scores of shape {scores.shape} for {X.shape[0]} examples and "
                f"{n_known} labels; it must give one score for each label (an SVC needs decision_function_shape='ovr')"
            )
        if np.isnan(scores).any():
            raise ValueError(f"{type(self.estimator).__name__} gave scores that are not numbers (NaN)")
        finite: Float32 = np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE).astype(np.float32)
        return finite

    def _probabilities(self, X: Any) -> npt.NDArray[Any]:
        probabilities = self.estimator_.predict_proba(X)
        if not isinstance(probabilities, list):
            return np.asarray(probabilities)
        # One array for each label, with a column for "no" and one for "yes"; for "yes" only, if no row lacks the label.
        yes = [list(classes).index(1) for classes in self.estimator_.classes_]
        return np.stack([part[:, column] for part, column in zip(probabilities, yes, strict=True)], axis=1)
