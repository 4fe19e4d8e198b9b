"""The blend: it finds the weights that made the data, and survives data that say nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism.heads.blend import DEFAULT_BLEND, is_true_label, learn_blend, log_head


def drawn(n: int, width: int, weights: list[float], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with one true candidate each, drawn by the softmax of weighted features."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n * width, 4))
    score = (features @ weights).reshape(n, width) + rng.gumbel(size=(n, width))
    is_true = np.zeros((n, width), bool)
    is_true[np.arange(n), score.argmax(1)] = True
    return np.arange(n + 1, dtype=np.int64) * width, features, is_true.ravel()


def test_finds_the_weights_that_made_the_data() -> None:
    weights = [1.5, 0.5, 3.0, -0.5]
    np.testing.assert_allclose(learn_blend(*drawn(4000, 8, weights)), weights, atol=0.3)


def test_importance_moves_the_blend_to_labels_that_matter() -> None:
    indptr, features, is_true = drawn(2000, 8, [1.0, 1.0, 1.0, 0.0])
    plain = learn_blend(indptr, features, is_true)
    rare = learn_blend(indptr, features, is_true, importance=np.exp(-features[:, 3]))
    assert rare.frequency < plain.frequency - 0.3


def test_rows_without_a_true_candidate_or_without_any_teach_nothing() -> None:
    indptr, features, is_true = drawn(300, 6, [1.0, 0.5, 2.0, 0.1])
    longer = np.concatenate([indptr, [indptr[-1], indptr[-1] + 4]])
    more = np.concatenate([features, np.ones((4, 4))])
    expected = learn_blend(indptr, features, is_true)
    np.testing.assert_allclose(learn_blend(longer, more, np.append(is_true, [False] * 4)), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 5])
def test_nothing_to_learn_from_gives_the_default(n: int) -> None:
    indptr = np.arange(n + 1, dtype=np.int64) * 2
    assert learn_blend(indptr, np.ones((2 * n, 4)), np.zeros(2 * n, bool)) == DEFAULT_BLEND


def test_experts_that_say_nothing_keep_their_default_weight() -> None:
    indptr, features, is_true = drawn(500, 6, [1.0, 0.5, 0.0, 0.0])
    features[:, 2:] = 0
    blend = learn_blend(indptr, features, is_true)
    assert (blend.centroid, blend.frequency) == pytest.approx((DEFAULT_BLEND.centroid, DEFAULT_BLEND.frequency))


def test_separable_data_give_finite_weights() -> None:
    features = np.tile([[5.0, 0, 0, 0], [-5.0, 0, 0, 0]], (50, 1))
    blend = learn_blend(np.arange(51, dtype=np.int64) * 2, features, np.tile([True, False], 50))
    assert np.isfinite(blend).all()


def test_log_head_is_the_squared_miss_and_bounded() -> None:
    np.testing.assert_allclose(log_head(np.array([2.0, 1.0, 0.0, -1.0, -100.0])), [0, 0, -1, -4, -13.69])


def test_true_labels_are_found() -> None:
    Y = sp.csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]]))
    indptr, labels = np.array([0, 2, 3, 5]), np.array([0, 1, 2, 1, 2], np.int32)
    np.testing.assert_array_equal(is_true_label(indptr, labels, Y), [True, False, False, True, False])
