"""What a fitted `PrismClassifier` answers: rankings, containers of y, probabilities, sets of one's own, threads."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.naive_bayes import MultinomialNB

from labelprism import PrismClassifier, metrics
from labelprism.data import Dataset
from labelprism.filters import AllLabels, MostFrequent, SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead, WrappedHead
from labelprism.recipe_settings import PRESETS

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

TREE = SpectralTree(8, max_depth=2, verbose=False)
MODELS = {
    "default": PrismClassifier(random_state=0),
    "fast": PrismClassifier(preset="fast", random_state=0),
    "tree": PrismClassifier(TREE, LogisticHead(passes=10), random_state=0),
    "low_rank": PrismClassifier(TREE, LowRankHead(12, passes=10), random_state=0),
    "constant": PrismClassifier(TREE, ConstantHead(), random_state=0),
    "frequent": PrismClassifier(MostFrequent(12), WrappedHead(LogisticRegression(C=100)), random_state=0),
    "bayes": PrismClassifier(AllLabels(), WrappedHead(MultinomialNB()), random_state=0),
    "forest": PrismClassifier(SpectralForest(20), LogisticHead(passes=10), random_state=0),
}
N_TRAIN = 500


@pytest.fixture(scope="module")
def one_label() -> tuple[Any, ...]:
    X, Y = planted(n=650)
    return X[:N_TRAIN], Y[:N_TRAIN], X[N_TRAIN:], Y[N_TRAIN:]


@pytest.fixture(scope="module")
def many_labels() -> tuple[Any, ...]:
    X, Y = planted(n=650, labels_per_row=2.0)
    return X[:N_TRAIN], Y[:N_TRAIN], X[N_TRAIN:], Y[N_TRAIN:]


@pytest.fixture(scope="module")
def by_class(one_label: tuple[Any, ...]) -> dict[str, PrismClassifier]:
    X, Y = one_label[:2]
    names = np.array([f"label {number:02}" for number in range(Y.shape[1])])
    return {name: _fresh(model).fit(X, names[Y.indices]) for name, model in MODELS.items()}


def _fresh(model: PrismClassifier) -> PrismClassifier:
    return PrismClassifier(**model.get_params(deep=False))


# ------------------------------------------------------------------------------------------------------------ one class


@pytest.mark.parametrize("name", MODELS)
def test_classes_scores_and_probabilities_agree(one_label: Any, by_class: Any, name: str) -> None:
    X, Y = one_label[2:]
    model = by_class[name]
    predicted = model.predict(X)
    labels, scores = model.predict_topk(X, 3)
    np.testing.assert_array_equal(predicted, model.classes_[labels[:, 0]])
    assert [row[0] for row in model.predict_labels(X, 3)] == predicted.tolist()

    likely, decision = model.predict_proba(X), model.decision_function(X)
    assert likely.shape == decision.shape == (X.shape[0], model.n_labels_)
    np.testing.assert_allclose(likely.sum(axis=1), 1)
    assert np.isfinite(decision).all()
    np.testing.assert_array_equal(model.classes_[likely.argmax(axis=1)], predicted)
    np.testing.assert_array_equal(model.classes_[decision.argmax(axis=1)], predicted)
    np.testing.assert_array_equal(np.take_along_axis(decision, labels[:, :1].astype(int), 1)[:, 0], scores[:, 0])
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(likely, where=likely > 0, out=likely * 0 - np.inf))

    table = model.predict_scores(X, 3)
    assert table.nnz == (labels >= 0).sum()
    for row in range(0, X.shape[0], 31):
        found = labels[row] >= 0
        np.testing.assert_array_equal(table[[row]].toarray()[0, labels[row][found]], scores[row][found])
    true_names = model.classes_[[list(model.classes_).index(f"label {label:02}") for label in Y.indices]]
    assert model.score(X, true_names) == accuracy_score(true_names, predicted)


@pytest.mark.parametrize("name", ["default", "tree", "constant"])
def test_labels_that_are_no_candidates(name: str) -> None:
    """They have no probability, and score below those that are."""
    X, Y = planted(n=600, c=120)
    model = _fresh(MODELS[name]).fit(X, Y.indices)
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), model.predict_topk(X, 1)[0][:, 0])
    most = model.recipe_.most_candidates if name == "default" else 40  # no fewer than the filters of the others have
    found = model.predict_scores(X, most)
    is_candidate = np.zeros(found.shape, bool)
    is_candidate[np.repeat(np.arange(X.shape[0]), np.diff(found.indptr)), found.indices] = True
    assert not is_candidate.all()
    assert (model.predict_proba(X)[~is_candidate] == 0).all()
    decision = model.decision_function(X)
    lowest = np.where(is_candidate, decision, np.inf).min(axis=1)
    np.testing.assert_allclose((decision - lowest[:, None])[~is_candidate], -1, atol=1e-5)


def test_probabilities_are_of_the_candidates_that_a_space_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    sieve = {"space_from_labels": 0, "kept_candidates": 10, "sieve_loss": 1.0}
    monkeypatch.setitem(PRESETS, "default", replace(PRESETS["default"], **sieve))
    X, Y = planted(n=600, c=120)
    model = PrismClassifier(random_state=0).fit(X, Y.indices)
    assert "space_lists" in model.recipe_.arrays
    has_place = np.diff(sp.csr_array(X).indptr) > 0
    likely = model.predict_proba(X)[has_place]
    assert (np.count_nonzero(likely, axis=1) == 10).all()
    labels, of_best = (part[has_place] for part in model.predict_topk_proba(X, 30))  # more than are kept
    np.testing.assert_allclose(of_best[:, :10], np.take_along_axis(likely, labels[:, :10], axis=1), rtol=1e-5)
    assert (labels[:, 10:] >= 0).any()
    assert (of_best[:, 10:] == 0).all()


@pytest.mark.parametrize("name", ["default", "tree", "low_rank", "constant", "frequent", "bayes", "forest"])
def test_sets_of_ones_own(one_label: Any, by_class: Any, name: str) -> None:
    X = one_label[2]
    model = by_class[name]
    labels, scores = model.predict_topk(X, 4)
    found = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    own = sp.csr_array((np.zeros(indptr[-1]), labels[found], indptr), shape=(X.shape[0], model.n_labels_))
    scored = model.score_candidates(X, own)
    dense = np.full(own.shape, np.nan, np.float32)
    dense[np.repeat(np.arange(X.shape[0]), np.diff(scored.indptr)), scored.indices] = scored.data
    rows = np.repeat(np.arange(X.shape[0]), found.sum(axis=1))
    np.testing.assert_allclose(dense[rows, labels[found]], scores[found], rtol=1e-5, atol=1e-5)

    everything = model.score_candidates(X[:7], [model.classes_] * 7)
    assert everything.nnz == 7 * model.n_labels_
    assert np.isfinite(everything.data).all()
    by_name = model.score_candidates(X[:2], [("label 03", "label 01"), set()])
    np.testing.assert_array_equal(by_name.indices, [1, 3])
    np.testing.assert_allclose(by_name.data, everything.data[[1, 3]], rtol=1e-5, atol=1e-5)
    for sets, message in (
        ([("nobody",)] * 2, "does not know: 'nobody'"),
        ([()] * 3, r"shape \(3, 24\), expected \(2, 24\)"),
        (sp.csr_array((2, 5)), "expected"),
        (["label 01"] * 2, "single string"),
    ):
        with pytest.raises(ValueError, match=message):
            model.score_candidates(X[:2], sets)


@pytest.mark.parametrize("task", ["none", "bias", "weights", "hash", "low_rank", "group_sparse"])
@pytest.mark.parametrize("dense", [False, True])
def test_own_sets_of_every_task(one_label: Any, task: Any, dense: bool) -> None:
    X, Y = one_label[0][:200], one_label[1][:200]
    X = X.toarray() if dense else X
    for head in (LogisticHead(passes=3, task=task, n_hashed_features=256), LowRankHead(8, passes=3, task=task)):
        model = PrismClassifier(TREE, head, random_state=0).fit(X, Y)
        labels, scores = model.predict_topk(X, 3)
        asked = [model.classes_[row[row >= 0]] for row in labels]
        scored = model.score_candidates(X, asked)
        best = np.array([scored[[row]].data.max() for row in range(200)])
        np.testing.assert_allclose(best, scores[:, 0], rtol=1e-4, atol=1e-4)
        assert np.isfinite(model.score_candidates(X[:5], [model.classes_] * 5).data).all()


@pytest.mark.parametrize("name", ["default", "tree", "constant"])
def test_allow_lists(one_label: Any, by_class: Any, name: str) -> None:
    X = one_label[2]
    model = by_class[name]
    allowed = ["label 03", "label 10", "label 17"]
    labels, scores = model.predict_topk(X, 5, allowed=allowed)
    assert set(labels.ravel().tolist()) <= {-1, 3, 10, 17}
    assert (labels >= 0).any()
    mask = np.isin(model.classes_, allowed)
    for one, two in zip((labels, scores), model.predict_topk(X, 5, allowed=mask), strict=True):
        np.testing.assert_array_equal(one, two)
    free, free_scores = model.predict_topk(X, model.n_labels_)
    if name != "default":  # of the default, forest, centroids and votes look further
        kept = mask[free] & (free >= 0)
        np.testing.assert_array_equal(np.sort(labels[labels >= 0]), np.sort(free[kept]))
        np.testing.assert_allclose(np.sort(scores[labels >= 0]), np.sort(free_scores[kept]), rtol=1e-6)
    assert all(set(row) <= set(allowed) for row in model.predict_labels(X, 2, allowed=set(allowed)))
    assert set(model.predict_scores(X, 2, allowed=allowed).indices) <= {3, 10, 17}
    for bad, message in ((["nobody"], "nobody"), (mask[:5], "one for each label"), ("label 03", "single string")):
        with pytest.raises(ValueError, match=message):
            model.predict_topk(X, 5, allowed=bad)


def test_the_default_finds_allowed_labels_wherever_they_are(one_label: Any, by_class: Any) -> None:
    labels, _ = by_class["default"].predict_topk(one_label[2], 1, allowed=["label 05"])
    assert (labels == 5).all()


def test_rows_without_candidates_get_the_most_frequent_class() -> None:
    X = sp.csr_array(np.eye(4, dtype=np.float32))
    model = PrismClassifier(AllLabels(), ConstantHead()).fit(X, ["a", "b", "b", "c"])
    nothing = sp.csr_array((1, 3), dtype=np.float32)
    model.filter_.leaf_candidates_ = model.head_.candidates_ = nothing
    assert model.predict(X).tolist() == ["b"] * 4
    np.testing.assert_allclose(model.predict_proba(X), [[0.25, 0.5, 0.25]] * 4)
    np.testing.assert_allclose(model.decision_function(X), np.log([[0.25, 0.5, 0.25]] * 4), rtol=1e-6)
    assert model.predict_labels(X, 2) == [[]] * 4
    assert model.predict_scores(X, 2).nnz == 0


def test_two_classes() -> None:
    X, Y = planted(n=300)
    y = np.where(Y.indices < 12, "low", "high")
    for name in ("default", "tree"):
        model = _fresh(MODELS[name]).fit(X, y)
        decision = model.decision_function(X)
        assert decision.shape == (300,)
        np.testing.assert_array_equal(np.where(decision > 0, "low", "high"), model.predict(X))
        assert model.score(X, y) > 0.9


# ---------------------------------------------------------------------------------------------------------- many labels


@pytest.mark.parametrize("name", ["default", "tree", "low_rank", "constant"])
def test_every_container_gives_the_same(many_labels: Any, name: str) -> None:
    X, Y, X_test, Y_test = many_labels
    labels = [tuple(row) for row in np.split(Y.indices, Y.indptr[1:-1])]
    sparse = _fresh(MODELS[name]).fit(X, Y)
    dense = _fresh(MODELS[name]).fit(X, Y.toarray().astype(np.int64))
    tuples = _fresh(MODELS[name]).fit(X, labels)
    sets = _fresh(MODELS[name]).fit(X, [set(row) for row in labels])
    expected = sparse.predict(X_test)
    assert isinstance(expected, sp.csr_array)
    assert name == "constant" or 0 < expected.nnz < 3 * X_test.shape[0]
    found = dense.predict(X_test)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected.toarray())
    rows = [tuple(row) for row in np.split(expected.indices, expected.indptr[1:-1])]
    assert tuples.predict(X_test) == rows
    assert sets.predict(X_test) == [set(row) for row in rows]
    for model in (sparse, dense, tuples, sets):
        assert model.score(X_test, Y_test) == sparse.score(X_test, Y_test)
    in_words = [tuple(row) for row in np.split(Y_test.indices, Y_test.indptr[1:-1])]
    assert tuples.score(X_test, in_words) == metrics.precision_at_k(Y_test, sparse.predict_topk(X_test, 1)[0], 1)
    assert sparse.score(X_test, Y_test, sample_weight=np.ones(X_test.shape[0])) == sparse.score(X_test, Y_test)


@pytest.mark.parametrize("name", ["default", "tree", "constant", "forest"])
def test_thresholds_and_probabilities(many_labels: Any, name: str) -> None:
    X, Y, X_test, Y_test = many_labels
    model = _fresh(MODELS[name]).fit(X, Y)
    likely = model.predict_proba(X_test)
    assert likely.min() >= 0
    assert likely.max() <= 1
    for threshold in (0.2, 0.5, 0.9):
        model.set_params(threshold=threshold)
        np.testing.assert_array_equal(model.predict(X_test).toarray(), likely >= threshold)
    truth = Y_test.toarray() > 0
    assert likely[truth].mean() > (2 if name == "constant" else 3) * likely[~truth].mean()
    expected_labels = likely.sum() / X_test.shape[0]
    assert 0.5 * Y.nnz < expected_labels * Y.shape[0] < 2 * Y.nnz  # probabilities are of the right size


def test_rows_without_labels(many_labels: Any) -> None:
    X, Y = many_labels[:2]
    rows = [tuple(row) for row in np.split(Y.indices, Y.indptr[1:-1])]
    rows[::5] = [()] * len(rows[::5])
    for name in ("default", "tree"):
        model = _fresh(MODELS[name]).fit(X, rows)
        assert model.score(X, rows) > 0.5


# -------------------------------------------------------------------------------------------------------------- limits


def test_dense_results_are_limited(one_label: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = one_label[:2]
    model = PrismClassifier(AllLabels(), ConstantHead()).fit(X, Y)
    monkeypatch.setattr("labelprism._prediction._LARGEST_DENSE", 1000)
    for ask in (model.predict_proba, model.decision_function):
        assert ask(X[:41]).shape == (41, 24)
        with pytest.raises(ValueError, match=r"500 x 24, over 1,000 entries; use predict_topk"):
            ask(X)


def test_blocks_of_rows(one_label: Any, by_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = one_label[2]
    for name in ("default", "tree"):
        whole = by_class[name].predict_proba(X), by_class[name].decision_function(X)
        monkeypatch.setattr("labelprism.composition._ENTRIES_PER_BLOCK", 40)
        parts = by_class[name].predict_proba(X), by_class[name].decision_function(X)
        for one, two in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(one, two)
        monkeypatch.undo()


def test_no_rows(by_class: Any) -> None:
    nothing = sp.csr_array((0, 60), dtype=np.float32)
    for name in ("default", "tree", "bayes"):
        model = by_class[name]
        assert model.predict(nothing).shape == (0,)
        assert model.predict_topk(nothing, 3)[0].shape == (0, 3)
        assert model.predict_proba(nothing).shape == model.decision_function(nothing).shape == (0, 24)
        assert model.candidates(nothing).shape == model.predict_scores(nothing).shape == (0, 24)
        assert model.predict_labels(nothing) == []


def test_all_kinds_of_matrices(one_label: Any, tmp_path: Path) -> None:
    X, Y, X_test, _ = one_label
    y = Y.indices
    mapped = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, X.shape)
    mapped[:] = X.toarray()
    wide = sp.csr_array(X, dtype=np.float64)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for name in ("default", "tree"):
        sparse = _fresh(MODELS[name]).fit(X, y).predict_topk(X_test)
        for other in (sp.csc_array(X), sp.coo_matrix(X), wide):
            found = _fresh(MODELS[name]).fit(other, y).predict_topk(sp.csc_matrix(X_test))
            np.testing.assert_array_equal(found[1], sparse[1])
        dense = _fresh(MODELS[name]).fit(X.toarray(), y).predict_topk(X_test.toarray())
        for other in (mapped, np.load(tmp_path / "X.npy", mmap_mode="r"), X.toarray().astype(np.float64)):
            found = _fresh(MODELS[name]).fit(other, y).predict_topk(X_test.toarray().tolist())
            np.testing.assert_array_equal(found[1], dense[1])


def test_single_rows_take_the_short_way(one_label: Any, by_class: Any) -> None:
    X, model = one_label[2], by_class["default"]
    labels, scores = model.predict_topk(X, 4)
    for row in range(0, X.shape[0], 13):
        one, score = model.predict_topk(X[[row]], 4)
        np.testing.assert_array_equal(one, labels[[row]])
        np.testing.assert_array_equal(score, scores[[row]])


@pytest.mark.parametrize("name", MODELS)
def test_several_threads_ask_at_once(one_label: Any, by_class: Any, name: str) -> None:
    X, Y, X_test, _ = one_label
    model = by_class[name]
    expected = model.predict_topk(X_test, 3)[1], model.predict_proba(X_test)
    fresh = _fresh(MODELS[name]).set_params(n_jobs=2).fit(X, model.classes_[Y.indices])  # makes its tables when asked
    with ThreadPoolExecutor(6) as threads:
        jobs = [
            threads.submit(lambda: (fresh.predict_topk(X_test, 3)[1], fresh.predict_proba(X_test))) for _ in range(12)
        ]
        rows = [threads.submit(fresh.predict_topk, X_test[[row]], 3) for row in range(30)]
    for job in jobs:
        for one, two in zip(job.result(), expected, strict=True):
            np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(np.concatenate([job.result()[1] for job in rows]), expected[0][:30])


# ------------------------------------------------------------------------------------------------------------ data sets


def test_data_sets(many_labels: Any) -> None:
    X, Y, X_test, Y_test = many_labels
    names = [f"subject {number}" for number in range(Y.shape[1])]
    train, test = Dataset(X=X, Y=Y, label_names=names), Dataset(X=X_test, Y=Y_test, label_names=names)
    model = PrismClassifier(random_state=0).fit(train)
    expected = PrismClassifier(random_state=0).fit(X, Y)
    assert model.classes_.tolist() == names
    np.testing.assert_array_equal(model.predict_topk(test)[1], expected.predict_topk(X_test)[1])
    assert (model.predict(test) != expected.predict(X_test)).nnz == 0
    assert model.score(test) == expected.score(X_test, Y_test) > 0.5
    turned = Dataset(X=X_test, Y=Y_test[:, ::-1], label_names=names[::-1])
    assert model.score(turned) == model.score(test)  # columns go by their names
    assert PrismClassifier(random_state=0).fit(Dataset(X=X, Y=Y)).classes_.tolist() == list(range(24))
    for arguments, message in (((train, Y), "leave y out"), ((Dataset(texts=["a"], Y=Y[:1]),), "give features")):
        with pytest.raises(ValueError, match=message):
            PrismClassifier().fit(*arguments)


@pytest.mark.parametrize("kind", ["recipe", "tree"])
@pytest.mark.parametrize("exclusive", [True, False])
def test_probabilities_of_the_best_are_those_of_predict_proba(kind: str, exclusive: bool) -> None:
    X, Y = planted(n=300, labels_per_row=1.0 if exclusive else 2.0)
    y = Y.indices[Y.indptr[:-1]] if exclusive else Y
    parts = {} if kind == "recipe" else {"filter": SpectralTree(6, verbose=False), "head": LogisticHead(passes=3)}
    model = PrismClassifier(**parts, random_state=0).fit(X, y)
    labels, likely = model.predict_topk_proba(X[:50], 4)
    np.testing.assert_array_equal(labels, model.predict_topk(X[:50], 4)[0])
    wanted = np.take_along_axis(model.predict_proba(X[:50]), np.maximum(labels, 0), axis=1)
    np.testing.assert_allclose(likely, np.where(labels >= 0, wanted, 0), rtol=1e-5)
    assert (np.diff(likely, axis=1) <= 1e-9).all()
    allowed = model.classes_[:3]
    few, of_few = model.predict_topk_proba(X[:50], 4, allowed=allowed)
    assert set(few.ravel()) <= {-1, 0, 1, 2}
    assert (of_few[few < 0] == 0).all()
    assert ((of_few >= 0) & (of_few <= 1)).all()
    same = (few[:, 0] == labels[:, 0]) & (few[:, 0] >= 0)
    np.testing.assert_allclose(of_few[same, 0], likely[same, 0], rtol=0.05)
