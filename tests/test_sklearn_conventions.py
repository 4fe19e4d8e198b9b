"""The conventions of scikit-learn: its own checks, its meta-estimators, copies of every kind."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelprism import PrismClassifier
from labelprism.filters import SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

TREE = SpectralTree(8, max_depth=3, verbose=False)
MODELS = {
    "default": PrismClassifier(random_state=0),
    "tree": PrismClassifier(TREE, LogisticHead(passes=5), random_state=0),
    "low_rank": PrismClassifier(TREE, LowRankHead(8, passes=5, task="weights"), random_state=0),
    "forest": PrismClassifier(SpectralForest(20), ConstantHead(), random_state=0),
    "views": PrismClassifier(
        TREE, LogisticHead(passes=5), filter_features=slice(0, 40), head_features=MaxAbsScaler(), random_state=0
    ),
}


def _exempt(estimator: Any) -> dict[str, str]:
    """Scikit-learn exempts its LinearSVC from these two for the same reason: the solver stops early."""
    reason = "sample_weight is not equivalent to removing and repeating samples: the order of the solver differs"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [PrismClassifier(), PrismClassifier(preset="fast"), PrismClassifier(preset="paper")],
    expected_failed_checks=_exempt,
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own checks warn of their own doing
        check(estimator)


@pytest.fixture(scope="module")
def data() -> tuple[Any, sp.csr_array]:
    return planted(n=300, labels_per_row=1.5)


def test_tags_and_names(data: tuple[Any, ...]) -> None:
    X, Y = data
    assert is_classifier(PrismClassifier())
    frame = pd.DataFrame(X.toarray(), columns=[f"word {number}" for number in range(60)])
    model = PrismClassifier(random_state=0).fit(frame, Y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"word 3": "other"}))
    assert model.explain(frame[:1]).labels[0].features[0].name.startswith("word ")  # type: ignore[index]


@pytest.mark.parametrize("name", ["default", "tree"])
def test_model_selection_with_sparse_labels(data: tuple[Any, ...], name: str) -> None:
    X, Y = data
    for y in (Y, sp.csr_matrix(Y), Y.toarray().astype(int)):
        found = cross_val_predict(MODELS[name], X, y, cv=3)
        assert found.shape == Y.shape
        assert sp.issparse(found) == sp.issparse(y)
    # For this scikit-learn makes an array of y, which a sparse one does not survive.
    likely = cross_val_predict(MODELS[name], X, Y.toarray().astype(int), cv=3, method="predict_proba")
    assert likely.shape == Y.shape
    assert cross_val_score(MODELS[name], X, Y.toarray().astype(int), cv=3).mean() > 0.5  # nor is one taken here


def test_grid_search(data: tuple[Any, ...]) -> None:
    X, Y = data
    search = GridSearchCV(MODELS["tree"], {"filter__max_depth": [0, 3], "head__passes": [1, 5]}, cv=2).fit(X, Y)
    assert search.best_params_["head__passes"] == 5
    assert search.best_estimator_.filter_.max_depth == search.best_params_["filter__max_depth"]
    assert sp.issparse(search.predict(X))
    presets = GridSearchCV(PrismClassifier(random_state=0), {"preset": ["default", "fast"]}, cv=2).fit(X, Y)
    assert presets.best_score_ > 0.5


def test_pipeline() -> None:
    texts = ["sea and ships", "waves and ships", "hills and trees", "trees on hills"] * 5
    y = ["water", "water", "land", "land"] * 5
    model = make_pipeline(TfidfVectorizer(), PrismClassifier(random_state=0)).fit(texts, y)
    assert model.predict(["ships on the sea", "a hill of trees"]).tolist() == ["water", "land"]
    assert model.score(texts, y) == 1


@pytest.mark.parametrize("name", ["default", "tree"])
def test_calibration_of_one_class(name: str) -> None:
    X, Y = planted(n=400, c=8)
    y = np.array(list("abcdefgh"))[Y.indices]
    model = CalibratedClassifierCV(MODELS[name], cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, y) > 0.8


def test_nested_parameters() -> None:
    model = clone(MODELS["tree"]).set_params(filter__max_depth=1, head__passes=2, n_jobs=2)
    assert (model.filter.max_depth, model.head.passes) == (1, 2)
    assert model.get_params()["filter__max_depth"] == 1
    with pytest.raises(ValueError, match="Invalid parameter 'deepest'"):
        model.set_params(filter__deepest=1)
    assert TREE.max_depth == 3


@pytest.mark.parametrize("name", MODELS)
def test_copies(data: tuple[Any, ...], tmp_path: Path, name: str) -> None:
    X, Y = data
    names = [tuple(f"label {label}" for label in row) for row in np.split(Y.indices, Y.indptr[1:-1])]
    model = clone(MODELS[name]).fit(X, names)
    expected = model.predict_topk(X)[1]
    joblib.dump(model, tmp_path / "model")
    copies = [pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model")]
    copies.append(joblib.load(tmp_path / "model", mmap_mode="r"))
    copies.append(clone(model).fit(X, names))
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_topk(X)[1], expected)
        assert copy.predict(X) == model.predict(X)
        assert copy.classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_skops(data: tuple[Any, ...], name: str) -> None:
    skops = pytest.importorskip("skops.io")
    X, Y = data
    model = clone(MODELS[name]).fit(X, Y)
    content = skops.dumps(model)
    untrusted = skops.get_untrusted_types(data=content)
    assert untrusted
    assert all(kind.startswith(("labelprism.", "scipy.sparse.")) for kind in untrusted)
    again = skops.loads(content, trusted=untrusted)
    np.testing.assert_array_equal(again.predict_topk(X)[1], model.predict_topk(X)[1])
    assert (again.predict(X) != model.predict(X)).nnz == 0
