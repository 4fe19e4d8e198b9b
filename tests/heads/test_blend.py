"""The blend: it finds the weights that made the data, and survives data that say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime, minimize

from labelprism.heads.blend import (
    DEFAULT_BLEND,
    BlendWeights,
    _first_of_the_best,
    _Softmax,
    blend_and_likelihood,
    is_true_label,
    log_head,
)


def learned(*given: Any, **more: Any) -> BlendWeights:
    return blend_and_likelihood(*given, **more)[0]


def drawn(n: int, width: int, weights: list[float], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with one true candidate each, drawn by the softmax of weighted features."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n * width, len(weights)))
    score = (features @ weights).reshape(n, width) + rng.gumbel(size=(n, width))
    is_true = np.zeros((n, width), bool)
    is_true[np.arange(n), score.argmax(1)] = True
    return np.arange(n + 1, dtype=np.int64) * width, features, is_true.ravel()


@pytest.mark.parametrize(
    "weights",
    [
        [1.5, 0.5, 3.0, -0.5],
        [1.5, 0.5, 3.0, -0.5, 1.2],
        [1.5, 0.5, 3.0, -0.5, -1.2, 1.2],
        [1.5, 0.5, 3.0, -0.5, -1.2, 1.2, 0.7],
    ],
)
def test_finds_the_weights_that_made_the_data(weights: list[float]) -> None:
    blend = learned(*drawn(4000, 8, weights))
    np.testing.assert_allclose(blend[: len(weights)], weights, atol=0.3)
    assert blend[len(weights) :] == (0.0,) * (8 - len(weights))


def several_true(n: int, width: int) -> _Softmax:
    """Rows of several true candidates, which count differently."""
    rng = np.random.default_rng(3)
    features = rng.standard_normal((n * width, 4))
    is_true = (features @ [1.0, 0.5, 1.0, 0.2] + rng.gumbel(size=n * width) > 1).reshape(n, width)
    is_true[:, 0] = True
    share = is_true.ravel() * rng.uniform(0.5, 2, n * width)
    return _Softmax(np.arange(n + 1, dtype=np.int64) * width, features, share, 1)


@pytest.mark.parametrize("name", ["of_all_labels", "of_any_label"])
def test_derivatives_of_the_likelihoods(name: str) -> None:
    likelihood = getattr(several_true(40, 6), name)
    w = np.array([0.3, 0.8, 2.0, -0.4])
    here = likelihood(w)
    np.testing.assert_allclose(
        here.gradient, approx_fprime(w, lambda w: likelihood(w).value, 1e-6), rtol=1e-4, atol=1e-4
    )
    bent = -np.array([approx_fprime(w, lambda w, i=i: likelihood(w).gradient[i], 1e-6) for i in range(4)])
    np.testing.assert_allclose(here.curvature, bent, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["of_all_labels", "of_any_label"])
def test_the_maximum_is_that_of_scipy(name: str) -> None:
    problem = several_true(200, 6)
    likelihood = getattr(problem, name)
    found, value = problem.maximise(likelihood, problem.default)
    assert value == likelihood(found).value
    best = minimize(lambda w: -likelihood(w).value, problem.default, jac=lambda w: -likelihood(w).gradient)
    np.testing.assert_allclose(found, best.x, atol=0.01)


def test_where_it_is_not_concave_the_curvature_is_that_of_the_bound() -> None:
    """Two true candidates on either side of a wrong one: the middle is the worst place for "any of them"."""
    features = np.tile([[3.0, 0, 0, 0], [-3.0, 0, 0, 0], [0.0, 0, 0, 0]], (500, 1))
    problem = _Softmax(np.arange(501, dtype=np.int64) * 3, features, np.tile([1.0, 1.0, 0.0], 500), 1)
    middle = np.zeros(4)
    step = np.array([1e-4, 0, 0, 0])
    value = [problem.of_any_label(w).value for w in (middle - step, middle, middle + step)]
    assert value[0] + value[2] > 2 * value[1]
    assert np.linalg.eigvalsh(problem.of_any_label(middle).curvature)[0] > 0


def test_the_first_way_is_left_for_a_reason_only() -> None:
    rng = np.random.default_rng(0)
    level = rng.random(400)
    luck = level + 1e-3 * rng.standard_normal(400)  # better or worse by chance
    assert _first_of_the_best(np.stack([level, luck - luck.mean() + level.mean() + 1e-5])) == 0
    assert _first_of_the_best(np.stack([level, level + 0.01, level + 0.005])) == 1
    assert _first_of_the_best(np.stack([level, level])) == 0


def test_no_expert_counts_against_a_label() -> None:
    """The first true label is unlike the centroid, so that the likelihood of any label would turn its weight around."""
    rng = np.random.default_rng(1)
    features = rng.standard_normal((600 * 4, 4))
    is_true = np.tile([True, True, False, False], 600)
    features[::4, 0] += 3
    features[::4, 2] -= 3
    blend = learned(np.arange(601, dtype=np.int64) * 4, features, is_true)
    assert min(blend.head, blend.forest, blend.centroid) >= 0


def test_importance_moves_the_blend_to_labels_that_matter() -> None:
    indptr, features, is_true = drawn(2000, 8, [1.0, 1.0, 1.0, 0.0])
    plain = learned(indptr, features, is_true)
    rare = learned(indptr, features, is_true, importance=np.exp(-features[:, 3]))
    assert rare.frequency < plain.frequency - 0.3


def test_rows_without_a_true_candidate_or_without_any_teach_nothing() -> None:
    indptr, features, is_true = drawn(300, 6, [1.0, 0.5, 2.0, 0.1])
    longer = np.concatenate([indptr, [indptr[-1], indptr[-1] + 4]])
    more = np.concatenate([features, np.ones((4, 4))])
    expected = learned(indptr, features, is_true)
    np.testing.assert_allclose(learned(longer, more, np.append(is_true, [False] * 4)), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 5])
def test_nothing_to_learn_from_gives_the_default(n: int) -> None:
    indptr = np.arange(n + 1, dtype=np.int64) * 2
    assert learned(indptr, np.ones((2 * n, 4)), np.zeros(2 * n, bool)) == DEFAULT_BLEND


def test_experts_that_say_nothing_keep_their_default_weight() -> None:
    indptr, features, is_true = drawn(500, 6, [1.0, 0.5, 0.0, 0.0])
    features[:, 2:] = 0
    blend = learned(indptr, features, is_true)
    assert (blend.centroid, blend.frequency) == pytest.approx((DEFAULT_BLEND.centroid, DEFAULT_BLEND.frequency))


@pytest.mark.parametrize("n_true", [1, 2])
def test_experts_that_are_wrong_are_not_believed_the_other_way_round(n_true: int) -> None:
    indptr, features, is_true = drawn(800, 6, [1.0, -0.5, 0.5, 0.5])
    if n_true == 2:  # another true label, no better than the others
        is_true[indptr[:-1]] = True
    blend = learned(indptr, features, is_true)
    assert blend.forest == 0
    assert blend.head > 0.5


def test_separable_data_give_finite_weights() -> None:
    features = np.tile([[5.0, 0, 0, 0], [-5.0, 0, 0, 0]], (50, 1))
    blend = learned(np.arange(51, dtype=np.int64) * 2, features, np.tile([True, False], 50))
    assert np.isfinite(blend).all()


def test_log_head_is_the_squared_miss_and_bounded() -> None:
    np.testing.assert_allclose(log_head(np.array([2.0, 1.0, 0.0, -1.0, -100.0])), [0, 0, -1, -4, -13.69])


def test_true_labels_are_found() -> None:
    Y = sp.csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]]))
    indptr, labels = np.array([0, 2, 3, 5]), np.array([0, 1, 2, 1, 2], np.int32)
    np.testing.assert_array_equal(is_true_label(indptr, labels, Y), [True, False, False, True, False])
