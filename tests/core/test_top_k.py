"""Top-k selection against its twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labelprism import _core, _reference
from labelprism._arrays import as_csr, csr_parts

# Few distinct values, so that ties, infinities and NaN are common.
SCORES = st.sampled_from([-np.inf, np.inf, np.nan, -1.0, 0.0, -0.0, 0.5, 1.0, 3e38])


def matrices() -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(0, 50)), elements=SCORES)


@given(scores=matrices(), k=st.integers(1, 60), n_threads=st.integers(1, 3))
def test_dense_rows(scores: np.ndarray, k: int, n_threads: int) -> None:
    columns, best = _core.top_k_dense(scores, k, n_threads)
    assert columns.shape == best.shape == (scores.shape[0], k)
    for row in range(scores.shape[0]):
        expected = _reference.top_k_row(np.arange(scores.shape[1], dtype=np.int32), scores[row], k)
        assert (columns[row].tolist(), best[row].tolist()) == expected


@given(scores=matrices(), k=st.integers(1, 60), n_threads=st.integers(1, 3))
def test_csr_rows(scores: np.ndarray, k: int, n_threads: int) -> None:
    kept = np.random.default_rng(0).random(scores.shape) < 0.5
    indptr = np.concatenate([[0], np.cumsum(kept.sum(1))]).astype(np.int64)
    indices = np.nonzero(kept)[1].astype(np.int32)
    data = scores[kept]
    columns, best = _core.top_k_csr(indptr, indices, data, k, n_threads)
    for row in range(scores.shape[0]):
        part = slice(indptr[row], indptr[row + 1])
        assert (columns[row].tolist(), best[row].tolist()) == _reference.top_k_row(indices[part], data[part], k)


def test_many_columns() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((3, 100_003), dtype=np.float32)
    columns, best = _core.top_k_dense(scores, 7, 2)
    np.testing.assert_array_equal(columns, np.argsort(-scores, axis=1, kind="stable")[:, :7])
    np.testing.assert_array_equal(best, np.take_along_axis(scores, columns, axis=1))


def test_threads_do_not_change_the_choice() -> None:
    X = as_csr(np.random.default_rng(0).integers(0, 4, (1000, 90)))
    parts = csr_parts(X)
    one, two = _core.top_k_csr(*parts, 9, 1), _core.top_k_csr(*parts, 9, 2)
    assert all((a == b).all() for a, b in zip(one, two, strict=True))


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        _core.top_k_dense(np.ones((2, 2), np.float32), 0)
