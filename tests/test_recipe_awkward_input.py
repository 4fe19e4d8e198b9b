"""The default recipe on what is hard to learn from: few rows, empty ones, labels that come once; and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from recipe_data import ROUTED, planted

from labelprism.heads.blend import DEFAULT_BLEND
from labelprism.recipe import RecipeSettings, fit_default


def test_the_only_row_of_a_label_is_never_held_out() -> None:
    X, Y = planted(300, c=10)
    own = sp.eye_array(100, dtype=np.float32)
    X, Y = (sp.csr_array(sp.block_diag([shared, own])) for shared in (X, Y))
    model = fit_default(X, Y, preset=ROUTED)
    assert model.blend_ != DEFAULT_BLEND  # some rows were held out
    assert np.isin(np.arange(110), model.arrays["forest_leaf_label"]).all()
    assert (model.predict_topk(X[300:], 1)[0].ravel() == np.arange(10, 110)).all()


def test_labels_that_never_come_twice_are_learned_without_a_blend() -> None:
    X = sp.csr_array(sp.eye_array(60, dtype=np.float32))
    model = fit_default(X, X)
    assert model.blend_ == DEFAULT_BLEND
    assert (model.predict_topk(X, 1)[0].ravel() == np.arange(60)).all()


@pytest.mark.parametrize("preset", ["default", "accurate"])
@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_few_rows(n: int, preset: str) -> None:
    X, Y = planted(n, c=4)
    labels, scores = fit_default(X, Y, preset=preset).predict_topk(X, 6)
    assert labels.shape == (n, 6)
    assert (labels < 4).all()
    assert ((labels == -1) == (scores == -np.inf)).all()


@pytest.mark.parametrize("preset", ["default", "accurate"])
def test_empty_rows_and_rows_without_labels(preset: str) -> None:
    X, Y = planted(100)
    X, Y = X.toarray(), Y.toarray()
    X[::5] = 0
    Y[::7] = 0
    model = fit_default(X, Y, preset=preset)
    labels, scores = model.predict_topk(sp.csr_array((2, X.shape[1]), dtype=np.float32), 3)
    assert labels.shape == (2, 3)
    assert not np.isnan(scores).any()


@pytest.mark.parametrize("preset", ["default", "accurate"])
def test_no_labels_at_all(preset: str) -> None:
    model = fit_default(planted(40)[0], sp.csr_array((40, 3), dtype=np.float32), preset=preset)
    labels, _ = model.predict_topk(planted(5)[0], 2)
    assert (labels == -1).all()


@pytest.mark.parametrize("settings", [RecipeSettings(), ROUTED], ids=["default", "routed"])
def test_bad_input_is_named(settings: RecipeSettings) -> None:
    data = (*planted(600), planted(300, seed=1)[0])
    model = fit_default(*data[:2], preset=settings)
    with pytest.raises(ValueError, match="preset"):
        fit_default(*data[:2], preset="quick")
    with pytest.raises(ValueError, match="objective"):
        fit_default(*data[:2], objective="recall")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="same rows"):
        fit_default(data[0][:5], data[1])
    with pytest.raises(ValueError, match="features"):
        model.predict_topk(data[2][:, :7], 3)
    row = data[2][:1].copy()
    row.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.predict_topk(row, 3)
    with pytest.raises(ValueError, match="k must"):
        model.predict_topk(data[2][:1], 0)
