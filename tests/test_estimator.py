"""`PrismClassifier`: every filter with every head, on dense and CSR input."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import normalize

import labelprism
from labelprism import PrismClassifier
from labelprism.errors import ModelFormatError
from labelprism.filters import AllLabels, MostFrequent, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead, WrappedHead
from labelprism.persistence import load_arrays, save_arrays
from labelprism.recipe import DefaultRecipe

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

FILTERS = {
    "tree": SpectralTree(6, max_depth=3, verbose=False),
    "all": AllLabels(),
    "frequent": MostFrequent(12),
}
HEADS = {
    "logistic": LogisticHead(passes=15),
    "low_rank": LowRankHead(12, passes=15),
    "wrapped": WrappedHead(LogisticRegression(C=100)),
    "constant": ConstantHead(),
}


@pytest.fixture(scope="module")
def data() -> tuple[Any, ...]:
    X, Y = planted(n=900)
    return X[:600], Y[:600], X[600:], Y[600:]


def accuracy(model: PrismClassifier, X: Any, Y: sp.csr_array) -> float:
    return float((model.predict_topk(X, 1)[0][:, 0] == Y.indices).mean())


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("filter", FILTERS)
def test_every_filter_with_every_head(data: tuple[Any, ...], filter: str, head: str, dense: bool) -> None:
    X, Y, X_test, Y_test = data
    if dense:
        X, X_test = X.toarray(), X_test.toarray()
    model = PrismClassifier(FILTERS[filter], HEADS[head], random_state=0).fit(X, Y)
    labels, scores = model.predict_topk(X_test, 20)
    assert labels.shape == scores.shape == (300, 20)
    assert labels.dtype == np.int32
    assert scores.dtype == np.float32
    candidates = model.filter_.candidates(normalize(X_test))
    for row in range(0, 300, 37):
        offered = candidates.indices[candidates.indptr[row] : candidates.indptr[row + 1]]
        n_offered = min(offered.size, 20)
        assert set(labels[row, :n_offered]) <= set(offered)
        assert (labels[row, n_offered:] == -1).all()
        assert np.isneginf(scores[row, n_offered:]).all()
        assert (np.diff(scores[row, :n_offered]) <= 0).all()
    least = {"tree": 0.6, "all": 0.9, "frequent": 0.45}[filter] if head != "constant" else 0.0
    assert accuracy(model, X_test, Y_test) >= least


def test_a_tree_beats_its_constants(data: tuple[Any, ...]) -> None:
    """Filtering alone is not enough: H is needed (the paper's discussion)."""
    X, Y, X_test, Y_test = data
    found = {
        name: accuracy(PrismClassifier(FILTERS["tree"], HEADS[name], random_state=0).fit(X, Y), X_test, Y_test)
        for name in ("logistic", "low_rank", "constant")
    }
    assert min(found["logistic"], found["low_rank"]) > found["constant"] + 0.1


def test_any_classifier_is_masked_to_the_candidates(data: tuple[Any, ...]) -> None:
    X, Y, X_test, _ = data
    alone = MultinomialNB().fit(X, Y.indices)
    model = PrismClassifier(AllLabels(), WrappedHead(MultinomialNB()), normalize=False).fit(X, Y.indices)
    np.testing.assert_array_equal(model.predict(X_test), alone.predict(X_test))


def test_seed_and_threads(data: tuple[Any, ...]) -> None:
    X, Y, X_test, _ = data

    def scores(**parameters: Any) -> np.ndarray:
        return PrismClassifier(FILTERS["tree"], LogisticHead(passes=2), **parameters).fit(X, Y).predict_topk(X_test)[1]

    first = scores(random_state=3, n_jobs=1)
    np.testing.assert_array_equal(scores(random_state=3, n_jobs=2), first)
    assert (scores(random_state=4) != first).any()
    assert np.isfinite(scores()).any()


def test_own_seeds_and_threads_are_kept(data: tuple[Any, ...]) -> None:
    tree = SpectralTree(6, random_state=7, n_jobs=1, verbose=False)
    model = PrismClassifier(tree, LogisticHead(passes=1), n_jobs=2, random_state=0).fit(*data[:2])
    assert (model.filter_.random_state, model.filter_.n_jobs) == (7, 1)
    assert model.head_.n_jobs == 2
    assert not hasattr(tree, "leaf_candidates_")  # what was given is not touched


def test_rows_are_made_unit(data: tuple[Any, ...]) -> None:
    X, Y, X_test, _ = data
    model = PrismClassifier(FILTERS["tree"], LogisticHead(passes=2), random_state=0).fit(X, Y)
    scaled = PrismClassifier(FILTERS["tree"], LogisticHead(passes=2), random_state=0).fit(X * np.float32(8), Y)
    np.testing.assert_allclose(scaled.predict_topk(X_test)[1], model.predict_topk(X_test * np.float32(3))[1], rtol=1e-3)


def test_multilabel_and_label_numbers() -> None:
    X, Y = planted(n=600, labels_per_row=2.0)
    model = PrismClassifier(SpectralTree(8, verbose=False), LogisticHead(passes=10), random_state=0).fit(X, Y)
    assert model.head_.loss_ == "logistic"
    assert labelprism.metrics.precision_at_k(Y, model.predict_topk(X, 1)[0], 1) > 0.6
    X, Y = planted(n=300)
    by_number = PrismClassifier(FILTERS["tree"], LogisticHead(passes=2), random_state=0).fit(X, Y.indices)
    by_matrix = PrismClassifier(FILTERS["tree"], LogisticHead(passes=2), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(by_number.predict(X), by_matrix.predict_topk(X, 1)[0][:, 0])


def test_defaults(data: tuple[Any, ...]) -> None:
    model = PrismClassifier(preset="paper", random_state=0).fit(*data[:2])
    assert isinstance(model.filter_, SpectralTree)
    assert isinstance(model.head_, LogisticHead)
    model = PrismClassifier(random_state=0).fit(*data[:2])
    assert isinstance(model.recipe_, DefaultRecipe)
    assert (model.n_features_in_, model.n_labels_) == (60, 24)


def test_clone_pickle_and_refit(data: tuple[Any, ...]) -> None:
    X, Y, X_test, _ = data
    model = PrismClassifier(FILTERS["tree"], LogisticHead(passes=2), random_state=0).fit(X, Y)
    expected = model.predict_topk(X_test)[1]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_topk(X_test)[1], expected)
    np.testing.assert_array_equal(clone(model).fit(X, Y).predict_topk(X_test)[1], expected)
    np.testing.assert_array_equal(model.fit(X, Y).predict_topk(X_test)[1], expected)
    assert model.set_params(filter__max_depth=1).filter.max_depth == 1
    FILTERS["tree"].set_params(max_depth=3)


@pytest.mark.parametrize("n", [1, 2])
def test_few_rows(n: int) -> None:
    X, Y = sp.csr_array(np.eye(n, 3, dtype=np.float32)), sp.csr_array(np.eye(n, dtype=np.float32))
    model = PrismClassifier(random_state=0).fit(X, Y)
    assert model.predict_topk(X, 1)[0][:, 0].tolist() == list(range(n))
    assert model.predict_topk(X[:0])[0].shape == (0, 5)


def test_bad_input(data: tuple[Any, ...]) -> None:
    X, Y = data[:2]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PrismClassifier().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="a minimum of 1 is required"):
        PrismClassifier().fit(X[:0], Y[:0])
    with pytest.raises(ValueError, match="no example has a label"):
        PrismClassifier().fit(X, sp.csr_array(Y.shape, dtype=np.float32))
    with pytest.raises(ValueError, match="y is None"):
        PrismClassifier().fit(X)
    bad = X.copy()
    bad.data[5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        PrismClassifier().fit(bad, Y)
    model = PrismClassifier(FILTERS["tree"], ConstantHead()).fit(X, Y)
    with pytest.raises(ValueError, match="60"):
        model.predict(X[:, :10])
    with pytest.raises(ValueError, match="k must be"):
        model.predict_topk(X, 0)
    for ask in (PrismClassifier().predict, PrismClassifier().predict_topk, PrismClassifier().explain):
        with pytest.raises(NotFittedError):
            ask(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"filter": SpectralTree(max_depth=-1)}, "filter__max_depth must be a whole number"),
        ({"filter": MostFrequent(0)}, "filter__n_candidates must be"),
        ({"head": LogisticHead(momentum=2)}, "head__momentum must be"),
        ({"head": LowRankHead(rank=0)}, "head__rank must be"),
        ({"head": WrappedHead()}, "head__estimator must be a scikit-learn classifier"),
        ({"filter": LogisticHead()}, "filter must be a Filter"),
        ({"head": "logistic"}, "head must be a Head"),
        ({"preset": "best"}, "preset must be one of"),
        ({"objective": "speed"}, "objective must be one of"),
        ({"threshold": 0}, "threshold must be above 0"),
        ({"threshold": "half"}, "threshold must be a number"),
        ({"verbose": -1}, "verbose must be"),
        ({"features": 3}, "features must be a transformer"),
        ({"filter_features": slice(3)}, "filter_features needs a filter and a head"),
        ({"filter": AllLabels(), "head_features": "words"}, "head_features must be None, a slice"),
        ({"filter": AllLabels(), "head_features": [70]}, "head_features must hold numbers of features, from 0 to 59"),
        ({"filter": AllLabels(), "filter_features": slice(60, 70)}, "which is none of the 60 features"),
        ({"filter": AllLabels(), "filter_features": [True, False]}, "2 booleans, but X has 60"),
    ],
)
def test_bad_parameters(data: tuple[Any, ...], parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrismClassifier(**parameters).fit(*data[:2])


def test_stages_are_told(data: tuple[Any, ...], capsys: pytest.CaptureFixture[str], caplog: Any) -> None:
    with caplog.at_level("INFO", logger="labelprism"):
        PrismClassifier(FILTERS["tree"], ConstantHead()).fit(*data[:2])
    assert capsys.readouterr().err == ""
    assert {"filter", "head"} <= {record.getMessage().split(":")[0] for record in caplog.records}
    PrismClassifier(FILTERS["tree"], ConstantHead(), verbose=1).fit(*data[:2])
    assert "filter" in capsys.readouterr().err
    PrismClassifier(verbose=1, random_state=0).fit(*data[:2])
    assert "forest" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["bias", "hash"])
def test_numbers_of_numpy_as_parameters_are_saved(data: tuple[Any, ...], tmp_path: Path, task: Any) -> None:
    X, Y, X_test, _ = data
    head = LogisticHead(passes=np.int64(2), n_hashed_features=np.int64(64), momentum=np.float32(0.5), task=task)
    model = PrismClassifier(FILTERS["tree"], head, random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_topk(X_test)[1], model.predict_topk(X_test)[1])
    assert (again.head_.n_hashed_features, again.head_.momentum) == (64, 0.5)


def test_a_fit_that_failed_leaves_no_model(data: tuple[Any, ...], tmp_path: Path) -> None:
    X, Y = data[:2]
    model = PrismClassifier(FILTERS["tree"], ConstantHead()).fit(X, Y)
    with pytest.raises(ValueError, match="passes"):
        model.set_params(head=LogisticHead(passes=0)).fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")


def test_parts_of_a_model_in_the_wrong_places(data: tuple[Any, ...], tmp_path: Path) -> None:
    PrismClassifier(AllLabels(), ConstantHead()).fit(*data[:2]).save(tmp_path / "model")
    meta, arrays = load_arrays(tmp_path / "model", None)
    save_arrays(tmp_path / "model", {**meta, "filter": meta["head"]}, arrays)
    with pytest.raises(ModelFormatError, match="damaged"):
        PrismClassifier.load(tmp_path / "model")
