"""Probabilities of scores: the curve is that of scikit-learn, and data that say nothing give none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from labelprism.recipe_calibration import Calibration, learned_calibration, log_softmax_by_row


def scored(n: int, width: int, slope: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = 3 * rng.standard_normal(n * width) - 8
    is_true = rng.random(n * width) < 1 / (1 + np.exp(-(slope * scores + 5)))
    return np.arange(n + 1, dtype=np.int64) * width, scores, is_true


def test_the_curve_is_that_of_scikit_learn() -> None:
    indptr, scores, is_true = scored(300, 9, 0.7)
    rows = sp.csr_array((scores, np.zeros(scores.size, np.int32), indptr), shape=(300, 1))
    features = np.stack([scores, log_softmax_by_row(rows)], axis=1)
    centre, width = features.mean(0), features.std(0)
    curve = LogisticRegression(C=1e6, solver="newton-cholesky", max_iter=1000).fit((features - centre) / width, is_true)
    slopes = curve.coef_[0] / width
    wanted = [*slopes, curve.intercept_[0] - slopes @ centre]
    np.testing.assert_allclose(learned_calibration(indptr, scores, is_true), wanted, rtol=1e-6)


def test_separable_data_give_a_steep_and_finite_curve() -> None:
    indptr, scores, _ = scored(300, 9, 0.7)
    found = learned_calibration(indptr, scores, scores > -6)
    assert np.isfinite(found).all()
    assert found.slope > 50
    assert -found.intercept / found.slope == pytest.approx(-6, abs=0.1)


def test_scores_that_speak_against_labels_are_left_as_they_are() -> None:
    assert learned_calibration(*scored(300, 9, -0.7)) == Calibration()


def test_too_few_true_or_wrong_candidates() -> None:
    indptr, scores, is_true = scored(300, 9, 0.7)
    few = is_true & (np.cumsum(is_true) <= 9)
    assert learned_calibration(indptr, scores, few) == Calibration()
    assert learned_calibration(indptr, scores, ~few) == Calibration()
    assert learned_calibration(np.zeros(1, np.int64), scores[:0], is_true[:0]) == Calibration()


def test_one_candidate_in_each_row_and_equal_scores() -> None:
    _, scores, is_true = scored(300, 9, 0.7)
    found = learned_calibration(np.arange(scores.size + 1, dtype=np.int64), scores, is_true)
    assert found.slope == pytest.approx(0.7, abs=0.2)
    assert found.row_slope == 0
    assert (
        learned_calibration(np.arange(scores.size + 1, dtype=np.int64), np.zeros_like(scores), is_true) == Calibration()
    )
