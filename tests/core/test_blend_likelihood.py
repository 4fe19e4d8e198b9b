"""The likelihoods of a blend and its best candidates: against their twins, and where numbers are at their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core, _reference_heads


def problem(lengths: list[int], n_features: int, scale: float, seed: int) -> tuple[Any, ...]:
    """Rows of few distinct features, so that equals are common; some have no true candidate, shares differ."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    features = scale * rng.choice([0.0, 0.5, 1.0, -2.0, 0.125], (indptr[-1], n_features))
    share = np.where(rng.random(indptr[-1]) < 0.3, rng.uniform(0.5, 2, indptr[-1]), 0.0)
    return indptr, features, share, rng.choice([0.0, 1.0, -1.0, 0.25, 3.0], n_features)


SIZES: Any = {
    "lengths": st.lists(st.integers(0, 9), max_size=12),
    "n_features": st.integers(1, 8),
    "scale": st.sampled_from([1.0, 10.0, 1e5]),
    "seed": st.integers(0, 2**31),
}


@given(**SIZES, any_label=st.booleans())
def test_softmax(lengths: list[int], n_features: int, scale: float, seed: int, any_label: bool) -> None:
    candidates = problem(lengths, n_features, scale, seed)
    found = _core.softmax_likelihood(*candidates, any_label, 1)
    for mine, wanted in zip(found, _reference_heads.softmax_likelihood(*candidates, any_label), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-11 * scale**2)
    np.testing.assert_array_equal(found[2], found[2].T)
    np.testing.assert_array_equal(found[3], found[3].T)


@given(**SIZES)
def test_logistic(lengths: list[int], n_features: int, scale: float, seed: int) -> None:
    _, features, share, weights = problem([*lengths, 600], n_features, scale, seed)
    found = _core.logistic_likelihood(features, share > 0, weights)
    for mine, wanted in zip(found, _reference_heads.logistic_likelihood(features, share > 0, weights), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-11 * scale**2)
    np.testing.assert_array_equal(found[2], found[2].T)


@given(**SIZES, n_best=st.integers(1, 6))
def test_best(lengths: list[int], n_features: int, scale: float, seed: int, n_best: int) -> None:
    indptr, features, _, weights = problem(lengths, n_features, scale, seed)
    features[:1] = np.nan
    features[1:2] = -np.inf
    with np.errstate(invalid="ignore"):
        wanted = _reference_heads.best_candidates(indptr, features, weights, n_best)
    np.testing.assert_array_equal(_core.best_candidates(indptr, features, weights, n_best, 1), wanted)


@pytest.mark.parametrize("any_label", [False, True])
def test_many_rows_by_any_number_of_threads(any_label: bool) -> None:
    """Rows are taken in parts, whose sums are added up in their order."""
    indptr, features, _, weights = candidates = problem([5] * 500, 6, 1.0, 0)
    alone = _core.softmax_likelihood(*candidates, any_label, 1)
    for mine, wanted in zip(alone, _reference_heads.softmax_likelihood(*candidates, any_label), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-9)
    for n_threads in (2, 3, 16):
        for mine, wanted in zip(_core.softmax_likelihood(*candidates, any_label, n_threads), alone, strict=True):
            np.testing.assert_array_equal(mine, wanted)
        best = _core.best_candidates(indptr, features, weights, 3, n_threads)
        np.testing.assert_array_equal(best, _reference_heads.best_candidates(indptr, features, weights, 3))


def test_scores_that_overflow_an_exponential() -> None:
    indptr, features = np.array([0, 2, 3]), np.array([[1e4], [-1e4], [1e4]])
    for any_label in (False, True):
        sure = _core.softmax_likelihood(indptr, features, np.array([1.0, 0, 1]), np.ones(1), any_label, 1)
        assert [float(np.sum(part)) for part in sure] == [0, 0, 0, 0]
    value, gradient, _, _ = _core.softmax_likelihood(indptr, features, np.array([0, 1.0, 0]), np.ones(1), False, 1)
    assert (value, gradient.tolist()) == (-2e4, [-2e4])
    value, gradient, _, _ = _core.softmax_likelihood(indptr, features, np.array([0, 1.0, 0]), np.ones(1), True, 1)
    assert (value, gradient.tolist()) == (pytest.approx(np.log(1e-300)), [-2e4])
    value, gradient, curvature = _core.logistic_likelihood(features, np.array([True, True, False]), np.ones(1))
    assert (value, gradient.tolist(), curvature.tolist()) == (-2e4, [-2e4], [[0.0]])


def test_arrays_that_do_not_fit_are_refused() -> None:
    indptr, features, share, weights = problem([3, 4], 5, 1.0, 0)
    for other in (indptr[1:], indptr[:-1], np.array([0, 8, 7]), np.zeros(0, np.int64)):
        with pytest.raises(ValueError, match="indptr"):
            _core.softmax_likelihood(other, features, share, weights, True, 1)
        with pytest.raises(ValueError, match="indptr"):
            _core.best_candidates(other, features, weights, 5, 1)
    with pytest.raises(ValueError, match="share"):
        _core.softmax_likelihood(indptr, features, share[1:], weights, True, 1)
    with pytest.raises(ValueError, match="is_true"):
        _core.logistic_likelihood(features, share[1:] > 0, weights)
    with pytest.raises(ValueError, match="n_best"):
        _core.best_candidates(indptr, features, weights, 0, 1)
    for wide, w in ((features, weights[1:]), (np.ones((7, 9)), np.ones(9)), (np.ones((7, 0)), np.ones(0))):
        with pytest.raises(ValueError, match="feature"):
            _core.softmax_likelihood(indptr, wide, share, w, False, 1)
        with pytest.raises(ValueError, match="feature"):
            _core.logistic_likelihood(wide, share > 0, w)
        with pytest.raises(ValueError, match="feature"):
            _core.best_candidates(indptr, wide, w, 5, 1)
