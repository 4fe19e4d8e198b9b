"""`ConstantHead` against the table of its leaves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from fixed_routes import FixedRoutes
from sklearn.exceptions import NotFittedError

from labelprism.heads import ConstantHead
from labelprism.heads.base import Head

ROUTES = FixedRoutes([0, 1, 2, 0], [[3, 0, 4], [2], []], 5)
X = np.eye(4, 3, dtype=np.float32)
Y = sp.csr_array(np.eye(4, 5, dtype=np.float32))


@pytest.fixture
def head() -> ConstantHead:
    return ConstantHead().fit(X, Y, ROUTES)


def test_scores_are_the_log_frequencies_of_the_leaf(head: ConstantHead) -> None:
    leaves = np.array([1, 0, 2, 0])
    scores = head.scores(X, leaves)
    np.testing.assert_array_equal(np.diff(scores.indptr), [1, 3, 0, 3])  # the stored 0 of the best counts too
    np.testing.assert_array_equal(scores.indices, [2, 0, 3, 4, 0, 3, 4])
    np.testing.assert_array_equal(scores.data, [0, -1, 0, -2, -1, 0, -2])
    assert scores.dtype == np.float32


def test_topk_is_that_of_every_head(head: ConstantHead) -> None:
    leaves = np.array([1, 0, 2, 0])
    for k in (1, 2, 7):
        for mine, common in zip(head.topk(X, leaves, k), Head.topk(head, X, leaves, k), strict=True):
            np.testing.assert_array_equal(mine, common)
            assert mine.dtype == common.dtype
    labels, scores = head.topk(X, leaves, 2)
    np.testing.assert_array_equal(labels, [[2, -1], [3, 0], [-1, -1], [3, 0]])
    np.testing.assert_array_equal(scores, [[0, -np.inf], [0, -1], [-np.inf, -np.inf], [0, -1]])


def test_no_examples(head: ConstantHead) -> None:
    labels, scores = head.topk(X[:0], np.zeros(0, np.int32), 3)
    assert labels.shape == scores.shape == (0, 3)


def test_threads_change_nothing() -> None:
    leaves = np.array([0, 2, 1, 1])
    one, two = (ConstantHead(n_jobs=n_jobs).fit(X, Y, ROUTES).topk(X, leaves, 3) for n_jobs in (1, 2))
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)


def test_wrong_input(head: ConstantHead) -> None:
    with pytest.raises(ValueError, match="between 0 and 2"):
        head.topk(X, np.array([0, 1, 2, 3]), 1)
    with pytest.raises(ValueError, match="fitted with 3"):
        head.topk(X[:, :2], np.zeros(4, np.int32), 1)
    with pytest.raises(ValueError, match="k must be"):
        head.topk(X, np.zeros(4, np.int32), 0)
    with pytest.raises(NotFittedError):
        ConstantHead().topk(X, np.zeros(4, np.int32), 1)
