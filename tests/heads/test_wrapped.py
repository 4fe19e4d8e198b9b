"""`WrappedHead` with the classifiers that people bring along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fixed_routes import FixedRoutes, all_labels
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

from labelprism.heads import WrappedHead, wrapped

N_LABELS = 7  # labels 2 and 6 never occur
USED = np.array([0, 1, 3, 4, 5])

ONE_LABEL = [
    LogisticRegression(),
    MultinomialNB(),
    LinearSVC(),
    SGDClassifier(random_state=0),
    KNeighborsClassifier(3),
    RandomForestClassifier(10, random_state=0),
    OneVsRestClassifier(LogisticRegression()),
    OneVsRestClassifier(MultinomialNB()),
    make_pipeline(MaxAbsScaler(), LinearSVC()),
]
SEVERAL_LABELS = [
    (OneVsRestClassifier(LogisticRegression()), False),
    (OneVsRestClassifier(MultinomialNB()), False),
    (OneVsRestClassifier(LinearSVC()), True),
    (KNeighborsClassifier(3), True),
    (RandomForestClassifier(10, random_state=0), True),
    (RidgeClassifier(), True),
]


def name_of(value: Any) -> str:
    return type(value).__name__


def label_matrix(rows: list[list[int]], n_labels: int = N_LABELS) -> sp.csr_array:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return sp.csr_array(
        (np.ones(indptr[-1], np.float32), [x for row in rows for x in row], indptr), shape=(len(rows), n_labels)
    )


def easy_data(labels_per_row: int, used: np.ndarray = USED, n: int = 80) -> tuple[np.ndarray, sp.csr_array]:
    """A feature for each label, and a little noise."""
    rng = np.random.default_rng(0)
    rows = [sorted(rng.choice(used, rng.integers(1, labels_per_row + 1), replace=False).tolist()) for _ in range(n)]
    Y = label_matrix(rows)
    X = Y.toarray() + 0.05 * rng.random((n, N_LABELS))
    return X.astype(np.float32), Y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("estimator", ONE_LABEL, ids=name_of)
def test_one_label_a_row(estimator: Any, sparse: bool) -> None:
    X, Y = easy_data(1)
    X = sp.csr_array(X) if sparse else X
    head = WrappedHead(estimator).fit(X, Y, all_labels(80, N_LABELS))
    labels, scores = head.topk(X, np.zeros(80, np.int32), N_LABELS)
    assert (labels[:, 0] == Y.indices).mean() > 0.95
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(np.sort(labels[:, -2:], axis=1), np.tile([2, 6], (80, 1)))  # never seen: last
    assert (scores[:, -2] < scores[:, -3]).all()


@pytest.mark.parametrize(("estimator", "dense"), SEVERAL_LABELS, ids=name_of)
def test_several_labels_a_row(estimator: Any, dense: bool) -> None:
    X, Y = easy_data(3)
    head = WrappedHead(estimator, dense_labels=dense).fit(X, Y, all_labels(80, N_LABELS))
    labels, scores = head.topk(X, np.zeros(80, np.int32), N_LABELS)
    assert (Y.toarray()[np.arange(80), labels[:, 0]]).mean() > 0.95
    np.testing.assert_array_equal(np.sort(labels[:, -2:], axis=1), np.tile([2, 6], (80, 1)))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(), MultinomialNB()], ids=name_of)
def test_two_labels(estimator: Any) -> None:
    """Then decision_function has one dimension: the margin of the second label."""
    X, Y = easy_data(1, np.array([1, 4]))
    head = WrappedHead(estimator).fit(X, Y, all_labels(80, N_LABELS))
    scores = head.scores(X, np.zeros(80, np.int32)).toarray()
    np.testing.assert_array_equal(np.where(scores[:, 4] > scores[:, 1], 4, 1), Y.indices)
    if hasattr(estimator, "decision_function"):
        np.testing.assert_array_equal(scores[:, 1], -scores[:, 4])
    assert (scores[:, [0, 2, 3, 5, 6]].max(axis=1) < scores[:, [1, 4]].min(axis=1)).all()


def test_a_label_of_all_rows() -> None:
    """The forest then knows no "no" for it."""
    X, Y = easy_data(2, np.array([1, 4, 5]))
    dense = Y.toarray()
    dense[:, 0] = 1
    estimator = RandomForestClassifier(10, random_state=0)
    head = WrappedHead(estimator, dense_labels=True).fit(X, sp.csr_array(dense), all_labels(80, N_LABELS))
    np.testing.assert_array_equal(head.scores(X, np.zeros(80, np.int32)).toarray()[:, 0], 1)


def test_only_candidates_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = easy_data(1)
    leaves = np.arange(80) % 3
    routes = FixedRoutes(leaves, [[5, 1], [2, 3, 0], []], N_LABELS)
    head = WrappedHead(LogisticRegression()).fit(X, Y, routes)
    scores = head.scores(X, leaves)
    expected = head.estimator_.decision_function(X).astype(np.float32)
    for row in range(80):
        entries = slice(scores.indptr[row], scores.indptr[row + 1])
        lowest = expected[row].min()
        wanted = [
            [expected[row, 1], expected[row, 4]],
            [expected[row, 0], lowest - max(1, abs(lowest)), expected[row, 2]],
            [],
        ]
        np.testing.assert_allclose(scores.data[entries], wanted[leaves[row]], rtol=1e-6)
    monkeypatch.setattr(wrapped, "_SCORES_PER_BLOCK", 17)  # three rows at a time
    np.testing.assert_allclose(head.scores(X, leaves).data, scores.data, rtol=1e-6)


def test_rows_without_labels_are_left_out() -> None:
    X, Y = easy_data(1)
    with_empty = sp.vstack([Y, sp.csr_array((3, N_LABELS), dtype=np.float32)], format="csr")
    head = WrappedHead(LogisticRegression()).fit(np.vstack([X, X[:3]]), with_empty, all_labels(83, N_LABELS))
    same = WrappedHead(LogisticRegression()).fit(X, Y, all_labels(80, N_LABELS))
    leaves = np.zeros(80, np.int32)
    np.testing.assert_array_equal(head.scores(X, leaves).data, same.scores(X, leaves).data)


def test_the_given_estimator_stays_unfitted() -> None:
    X, Y = easy_data(1)
    estimator = LogisticRegression()
    WrappedHead(estimator).fit(X, Y, all_labels(80, N_LABELS))
    assert not hasattr(estimator, "coef_")


class InfiniteScores(LogisticRegression):
    value = np.inf

    def decision_function(self, X: Any) -> Any:
        return np.full((X.shape[0], len(self.classes_)), self.value)


def test_scores_stay_finite() -> None:
    X, Y = easy_data(1)
    head = WrappedHead(InfiniteScores()).fit(X, Y, all_labels(80, N_LABELS))
    for value in (np.inf, -np.inf):
        head.estimator_.value = value
        scores = head.scores(X, np.zeros(80, np.int32)).toarray()
        assert np.isfinite(scores).all()
        assert (scores[:, [2, 6]] < scores[:, [0]]).all()
    head.estimator_.value = np.nan
    with pytest.raises(ValueError, match="NaN"):
        head.scores(X, np.zeros(80, np.int32))


def test_errors_say_what_to_do() -> None:
    X, Y = easy_data(1)
    routes = all_labels(80, N_LABELS)
    leaves = np.zeros(80, np.int32)
    with pytest.raises(ValueError, match="neither decision_function nor predict_proba"):
        WrappedHead(LinearRegression()).fit(X, Y, routes)
    with pytest.raises(ValueError, match="must be a scikit-learn classifier, got None"):
        WrappedHead().fit(X, Y, routes)
    with pytest.raises(ValueError, match="nothing to learn"):
        WrappedHead(LogisticRegression()).fit(X, sp.csr_array(Y.shape, dtype=np.float32), routes)
    with pytest.raises(ValueError, match="decision_function_shape='ovr'"):
        WrappedHead(SVC(decision_function_shape="ovo")).fit(X, Y, routes).scores(X, leaves)
    X, Y = easy_data(3)
    with pytest.raises(ValueError, match="OneVsRestClassifier, or set dense_labels=True"):
        WrappedHead(LogisticRegression()).fit(X, Y, routes)
    with pytest.raises(ValueError, match=r"OneVsRestClassifier$"):
        WrappedHead(LogisticRegression(), dense_labels=True).fit(X, Y, routes)
