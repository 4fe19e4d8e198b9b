"""Copies of rows: sorted, or picked, as scipy makes them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core
from labelprism._arrays import as_csr, csr_parts, picked_rows


def shuffled(n: int, d: int, seed: int) -> sp.csr_array:
    """A matrix whose rows do not ascend, some of them empty, with zeros and negative values."""
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(d)[: rng.integers(0, d + 1)] for _ in range(n)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    indices = np.concatenate([*columns, np.zeros(0, np.int64)]).astype(np.int32)
    data = rng.standard_normal(indices.size).round(1).astype(np.float32)
    return sp.csr_array((data, indices, indptr), shape=(n, d))


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 4), st.integers(0, 99))
def test_rows_are_sorted_and_picked_as_scipy_does(n: int, d: int, n_threads: int, seed: int) -> None:
    X = shuffled(n, d, seed)
    indices, data, is_canonical = _core.sorted_rows(*csr_parts(X), d, n_threads)
    wanted = X.sorted_indices()
    assert is_canonical
    np.testing.assert_array_equal(indices, wanted.indices)
    np.testing.assert_array_equal(data, wanted.data)
    rows = np.random.default_rng(seed).integers(n, size=2 * n)
    picked = picked_rows(wanted, rows, n_threads)
    for array, other in zip(csr_parts(picked), csr_parts(sp.csr_array(wanted[rows])), strict=True):
        np.testing.assert_array_equal(array, other)


def test_matrices_that_are_not_sorted_become_so_and_what_is_there_twice_is_added_up() -> None:
    X = shuffled(3000, 50, 1)
    before = X.indices.copy()
    for n_threads in (1, 3):
        sorted_X = as_csr(X, n_threads=n_threads)
        assert sorted_X.has_canonical_format
        assert (sorted_X != X.sorted_indices()).nnz == 0
    np.testing.assert_array_equal(X.indices, before)
    twice = sp.csr_array((np.array([1, 2, 3], np.float32), np.array([4, 0, 4]), [0, 3]), shape=(1, 5))
    assert not _core.sorted_rows(*csr_parts(twice), 5)[2]
    np.testing.assert_array_equal(as_csr(twice).toarray(), [[2, 0, 0, 0, 4]])


def test_bad_input_is_refused() -> None:
    parts = csr_parts(shuffled(5, 4, 0).sorted_indices())
    for rows in ([5], [-1], [2**62]):
        with pytest.raises(ValueError, match="a row is out of range"):
            _core.gathered_rows(*parts, 4, np.array(rows))
    with pytest.raises(ValueError, match="an index is out of range"):
        _core.sorted_rows(*parts, 1)
