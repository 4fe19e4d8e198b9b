"""Weights of examples, and validation examples, with every filter and head."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier

from labelprism import PrismClassifier
from labelprism._weights import check_sample_weight
from labelprism.data import Dataset
from labelprism.filters import AllLabels, MostFrequent, SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead, WrappedHead

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

TREE = SpectralTree(6, max_depth=3, verbose=False)
MODELS = {
    "default": PrismClassifier(random_state=0),
    "tree": PrismClassifier(TREE, LogisticHead(passes=10), random_state=0),
    "dense": PrismClassifier(AllLabels(), LowRankHead(8, passes=20), random_state=0),
    "forest": PrismClassifier(SpectralForest(20), LogisticHead(passes=10), random_state=0),
    "constant": PrismClassifier(TREE, ConstantHead(), random_state=0),
    "wrapped": PrismClassifier(MostFrequent(24), WrappedHead(LogisticRegression(C=100)), random_state=0),
}


def _fresh(name: str) -> PrismClassifier:
    return PrismClassifier(**MODELS[name].get_params(deep=False))


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_no_weight_are_not_there(name: str) -> None:
    X, Y = planted(n=300)
    weight = np.tile([1.0, 0.0, 2.5], 100)
    kept = weight > 0
    weighted = _fresh(name).fit(X, Y, sample_weight=weight)
    without = _fresh(name).fit(X[kept], Y[kept], sample_weight=weight[kept])
    np.testing.assert_array_equal(weighted.predict_topk(X)[1], without.predict_topk(X)[1])
    np.testing.assert_array_equal(weighted.class_prior_, without.class_prior_)
    assert (weighted.predict_topk(X)[1] != _fresh(name).fit(X[kept], Y[kept]).predict_topk(X)[1]).any()


@pytest.mark.parametrize("name", MODELS)
def test_weights_decide_between_labels(name: str) -> None:
    """Every row is there twice, with either label: the weights say which of the two it has."""
    X, Y = planted(n=300, c=8)
    y = np.concatenate([Y.indices, (Y.indices + 4) % 8])
    both = sp.csr_array(sp.vstack([X, X]))
    for heavy in (0, 1):
        weight = np.repeat([1.0, 20.0] if heavy else [20.0, 1.0], 300)
        model = _fresh(name).fit(both, y, sample_weight=weight.tolist())
        wanted = y[300:] if heavy else y[:300]
        found = model.predict(X)
        other = y[:300] if heavy else y[300:]
        assert (found == wanted).mean() > (found == other).mean() + (0.05 if name == "constant" else 0.5)


@pytest.mark.parametrize("filter", [AllLabels(), MostFrequent(3)])
def test_weights_are_counted(filter: Any) -> None:
    X, Y = planted(n=100, c=8)
    weight = np.random.default_rng(0).random(100)
    counts = weight @ Y.toarray()
    found = filter.fit(X, Y, sample_weight=weight).leaf_candidates_
    heaviest = np.sort(np.argsort(-counts)[:3]) if isinstance(filter, MostFrequent) else np.arange(8)
    np.testing.assert_array_equal(found.indices, heaviest)
    np.testing.assert_allclose(np.exp(found.data), (counts / counts.sum())[heaviest], rtol=1e-5)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(100), "negative"),
        (np.zeros(100), "non-zero"),
        (np.full(100, np.nan), "finite"),
        (np.ones(99), r"shape \(99,\), expected \(100,\)"),
        (np.ones((100, 1)), "shape"),
        (["heavy"] * 100, "numbers"),
    ],
)
def test_bad_weights(weight: Any, message: str) -> None:
    X, Y = planted(n=100)
    for name in ("default", "tree"):
        with pytest.raises(ValueError, match=message):
            _fresh(name).fit(X, Y, sample_weight=weight)
    with pytest.raises(ValueError, match=message):
        TREE.fit(X, Y, sample_weight=weight)


def test_one_number_is_a_weight_for_all() -> None:
    np.testing.assert_array_equal(check_sample_weight(2, 3), [2, 2, 2])
    assert check_sample_weight(None, 3) is None


def test_classifiers_that_take_no_weights() -> None:
    X, Y = planted(n=100)
    model = PrismClassifier(AllLabels(), WrappedHead(KNeighborsClassifier()))
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        model.fit(X, Y, sample_weight=np.ones(100))
    several = planted(n=100, labels_per_row=2)
    wrapped = PrismClassifier(AllLabels(), WrappedHead(OneVsRestClassifier(LogisticRegression())))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        wrapped.fit(*several, sample_weight=np.ones(100))


# ---------------------------------------------------------------------------------------------------------- validation


def test_validation_chooses_the_depth() -> None:
    X, Y = planted(n=700)
    rows = [(f"label {label}",) for label in Y.indices]
    model = PrismClassifier(TREE, ConstantHead(), random_state=0)
    model.fit(X[:500], rows[:500], validation=(X[500:], rows[500:]))
    assert len(model.filter_.recall_path_) > 1
    assert model.filter_.validation is None
    tree = SpectralTree(6, max_depth=3, verbose=False, random_state=model.filter_.random_state)
    tree.set_params(validation=(X[500:], Y[500:])).fit(X[:500], Y[:500])
    np.testing.assert_allclose(model.filter_.recall_path_, tree.recall_path_)
    with pytest.raises(ValueError, match="AllLabels has nothing to choose by validation"):
        PrismClassifier(AllLabels(), ConstantHead()).fit(X, Y, validation=(X, Y))


def test_validation_teaches_the_blend() -> None:
    X, Y = planted(n=700)
    train, held = (X[:500], Y[:500]), (X[500:], Y[500:])
    model = PrismClassifier(random_state=0).fit(*train, validation=held)
    plain = PrismClassifier(random_state=0).fit(*train)
    assert model.recipe_.blend_ != plain.recipe_.blend_
    data = Dataset(X=held[0], Y=held[1])
    again = PrismClassifier(random_state=0).fit(*train, validation=data)
    assert again.recipe_.blend_ == model.recipe_.blend_
    assert model.score(*held) > 0.8


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (3, r"must be \(X, y\), or a Dataset"),
        ((np.zeros((2, 3)), np.eye(2, 24)), "3 features"),
        ((np.zeros((2, 60)), np.eye(2, 5)), "5 columns"),
        ((np.zeros((3, 60)), np.eye(2, 24)), "3 rows, labels of 2 rows"),
        ((np.zeros((2, 60)), np.zeros((2, 24))), "0 labels that y has too"),
    ],
)
def test_bad_validation(validation: Any, message: str) -> None:
    X, Y = planted(n=100)
    for name in ("default", "tree"):
        with pytest.raises(ValueError, match=message):
            _fresh(name).fit(X, Y, validation=validation)
