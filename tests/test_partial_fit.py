"""`partial_fit`: further examples and new labels, for the default recipe and for every filter and head."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import PrismClassifier
from labelprism.data import Dataset
from labelprism.filters import AllLabels, Filter, MostFrequent, SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, Head, LogisticHead, LowRankHead, WrappedHead
from labelprism.heads.sgd import TASKS

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

ALL_X, ALL_Y = planted(n=900, c=24, seed=3)
X, Y, X_TEST, Y_TEST = ALL_X[:700], ALL_Y[:700], ALL_X[700:], ALL_Y[700:]
FIRST_LABELS = 12
IS_EARLY = np.array([Y.indices[Y.indptr[i] : Y.indptr[i + 1]].max(initial=0) < FIRST_LABELS for i in range(700)])
CLASSES = Y.indices[Y.indptr[:-1]]

FILTERS: dict[str, Filter | None] = {
    "recipe": None,
    "tree": SpectralTree(8, max_depth=4, verbose=False),
    "forest": SpectralForest(8, stop_labels=4, min_rows=20),
    "frequent": MostFrequent(12),
    "all": AllLabels(),
}
HEADS: dict[str, Head] = {
    **{f"logistic-{task}": LogisticHead(passes=10, task=task) for task in TASKS},
    "logistic-hashed": LogisticHead(passes=10, n_hashed_features=64),
    "low-rank": LowRankHead(16, passes=10),
    "low-rank-weights": LowRankHead(16, passes=10, task="weights"),
    "constant": ConstantHead(),
}
MODELS = {"recipe": (None, None)} | {
    **{f"tree, {name}": (FILTERS["tree"], head) for name, head in HEADS.items()},
    **{f"{name}, logistic": (FILTERS[name], HEADS["logistic-bias"]) for name in ("forest", "frequent", "all")},
}


def made(name: str, **more: Any) -> PrismClassifier:
    filter, head = MODELS[name]
    return PrismClassifier(filter, head, random_state=0, **more)


def accuracy(model: PrismClassifier, rows: Any = None) -> float:
    return model.score(X_TEST, Y_TEST)


@pytest.mark.parametrize("name", MODELS)
def test_new_labels_are_learned(name: str) -> None:
    model = made(name).fit(X[IS_EARLY], Y[IS_EARLY][:, :FIRST_LABELS])
    wide = sp.csr_array((Y_TEST.data, Y_TEST.indices, Y_TEST.indptr), shape=Y_TEST.shape)
    model.partial_fit(X[~IS_EARLY], Y[~IS_EARLY])
    assert model.n_labels_ == model.classes_.size == model.class_prior_.size == 24
    assert model.class_prior_.sum() == pytest.approx(1)
    is_late = np.array([wide.indices[wide.indptr[i]] >= FIRST_LABELS for i in range(200)])
    found = model.predict_topk(X_TEST[is_late], 5)[0]
    assert (found >= FIRST_LABELS).any(axis=1).mean() > 0.8
    if "constant" not in name and name != "frequent, logistic":
        assert accuracy(model) > 0.6


@pytest.mark.parametrize("name", MODELS)
def test_threads_change_nothing_and_models_are_saved(name: str, tmp_path: Path) -> None:
    one, two = (made(name, n_jobs=n_jobs).fit(X[:400], Y[:400]).partial_fit(X[400:], Y[400:]) for n_jobs in (1, 3))
    for a, b in zip(one.predict_topk(X_TEST, 5), two.predict_topk(X_TEST, 5), strict=True):
        np.testing.assert_array_equal(a, b)
    one.save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_topk(X_TEST, 5)[0], one.predict_topk(X_TEST, 5)[0])
    again.partial_fit(X[:50], Y[:50])  # and go on


@pytest.mark.parametrize("name", ["recipe", "tree, logistic-bias"])
def test_new_labels_for_a_model_that_was_loaded(name: str, tmp_path: Path) -> None:
    names = np.array([f"label {label}" for label in CLASSES])
    made(name).fit(X[IS_EARLY], names[IS_EARLY]).save(tmp_path / "model")
    model = PrismClassifier.load(tmp_path / "model").partial_fit(X[~IS_EARLY], names[~IS_EARLY])
    model.save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    assert set(again.classes_) == set(names)
    np.testing.assert_array_equal(again.class_prior_, model.class_prior_)
    np.testing.assert_array_equal(again.predict(X_TEST), model.predict(X_TEST))


@pytest.mark.parametrize("name", ["recipe", "tree, logistic-bias", "tree, low-rank"])
def test_further_examples_do_no_harm(name: str) -> None:
    model = made(name).fit(X[:350], Y[:350])
    before = accuracy(model)
    for begin in range(350, 700, 70):
        model.partial_fit(X[begin : begin + 70], Y[begin : begin + 70])
    assert accuracy(model) > before - 0.03


def test_names_classes_and_datasets() -> None:
    names = np.array([f"label {label}" for label in CLASSES])
    model = made("recipe").fit(X[IS_EARLY], names[IS_EARLY])
    first = model.classes_.copy()
    model.partial_fit(X[~IS_EARLY], names[~IS_EARLY])
    np.testing.assert_array_equal(model.classes_[: first.size], first)
    assert set(model.classes_) == set(names)
    assert (model.predict(X) == names).mean() > 0.9
    model.partial_fit(X[:3], np.array(["brand new"] * 3), classes=["announced"])
    assert list(model.classes_[-2:]) == ["brand new", "announced"]
    assert "brand new" in set(model.predict_labels(X[:1], 5)[0])
    tuples = [(str(label),) for label in CLASSES]
    many = made("recipe").fit(X, tuples).partial_fit(X[:5], [("a", "b")] * 5)
    assert {"a", "b"} <= set(many.classes_)
    data = Dataset(X=X[:9], Y=np.ones((9, 1)), label_names=["from a data set"])
    assert many.partial_fit(data).classes_[-1] == "from a data set"


def test_numbers_stay_numbers_and_mix_with_names() -> None:
    model = made("recipe").fit(X, CLASSES).partial_fit(X[:4], np.array([77] * 4))
    assert model.classes_.dtype.kind == "i"
    model.partial_fit(X[:4], ["seventy-eight"] * 4)
    assert model.classes_.tolist()[-2:] == [77, "seventy-eight"]


@pytest.mark.parametrize("name", ["recipe", "tree, logistic-bias"])
def test_the_first_call_fits(name: str) -> None:
    fitted = made(name).fit(X, CLASSES)
    partly = made(name).partial_fit(X, CLASSES, classes=np.append(np.unique(CLASSES), 99))
    assert partly.classes_[-1] == 99
    np.testing.assert_array_equal(partly.predict(X_TEST), fitted.predict(X_TEST))


def test_weights_count() -> None:
    heavy, light = (
        made("recipe").fit(X[:400], Y[:400]).partial_fit(X[400:], Y[400:], sample_weight=np.full(300, weight))
        for weight in (3.0, 1.0)
    )
    gained = heavy.recipe_.label_counts_.sum() - light.recipe_.label_counts_.sum()
    assert gained == pytest.approx(2 * Y[400:].nnz)


def test_an_error_leaves_the_model_as_it_was() -> None:
    from sklearn.linear_model import LogisticRegression

    model = PrismClassifier(SpectralTree(8, verbose=False), WrappedHead(LogisticRegression()), random_state=0)
    model.fit(X, CLASSES)
    before = model.predict(X_TEST), model.filter_.leaf_mass_.copy()
    with pytest.raises(ValueError, match="WrappedHead cannot go on"):
        model.partial_fit(X[:5], CLASSES[:5])
    np.testing.assert_array_equal(model.predict(X_TEST), before[0])
    np.testing.assert_array_equal(model.filter_.leaf_mass_, before[1])
    with pytest.raises(ValueError, match="macro=True"):
        made("recipe").set_params(filter=SpectralTree(8, macro=True, verbose=False)).fit(X, Y).partial_fit(X, Y)


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (X[:, :-1], Y, "features"),
        (X, Y[:-1], "inconsistent"),
        (X, Y[:, :-1], "fewer than the 24 labels"),
        (X[:0], Y[:0], "0 sample|minimum of 1|no rows"),
    ],
)
def test_what_does_not_fit_is_refused(rows: Any, labels: Any, words: str) -> None:
    model = made("recipe").fit(X, Y)
    if words.startswith("0 sample"):
        assert model.partial_fit(rows, labels) is model  # nothing to learn is no error
        return
    with pytest.raises(ValueError, match=words):
        model.partial_fit(rows, labels)
