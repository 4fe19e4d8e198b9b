"""The block products against their twins, for every instruction set and number of threads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core, _reference
from labelprism._arrays import as_csr, csr_parts

_ONES = np.zeros(0, np.float32)  # where values or weights are all 1


def random_csr(rng: np.random.Generator, n: int, d: int, density: float) -> sp.csr_array:
    return as_csr(sp.random_array((n, d), density=density, rng=rng, dtype=np.float32))


def large_case(rng: np.random.Generator) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Enough entries for several pieces of the transposed product and many tasks of the other."""
    X = random_csr(rng, 20_000, 600, 0.1)
    return X, rng.standard_normal((600, 16), dtype=np.float32), rng.standard_normal((20_000, 16), dtype=np.float32)


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield request.param
    _core.use_instruction_set(before)


@pytest.mark.parametrize("width", [1, 3, 7, 8, 9, 15, 16, 17, 31, 40])
def test_products_match_scipy(instruction_set: str, width: int) -> None:
    rng = np.random.default_rng(width)
    X = random_csr(rng, 300, 170, 0.05)
    right = rng.standard_normal((170, width), dtype=np.float32)
    left = rng.standard_normal((300, width), dtype=np.float32)
    weight = rng.random(300, dtype=np.float32)
    indptr, indices, data = csr_parts(X)
    np.testing.assert_allclose(
        _core.csr_times_block(indptr, indices, data, right), _reference.csr_times_block(X, right), atol=2e-5
    )
    np.testing.assert_allclose(
        _core.csr_transposed_times_block(indptr, indices, data, 170, left),
        _reference.csr_transposed_times_block(X, left),
        atol=2e-5,
    )
    Y = X.copy()
    Y.data[:] = 1
    np.testing.assert_allclose(
        _core.class_sums(indptr, indices, 170, weight, left), _reference.class_sums(Y, weight, left), atol=2e-5
    )


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_through_rows_are_those_of_matrices(instruction_set: str, unit: bool, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    X, Y = random_csr(rng, 9000, 170, 0.05), random_csr(rng, 9000, 40, 0.05)  # more rows than are summed at once
    X.data[X.indptr[5] : X.indptr[6]] = 0  # a row without a direction
    vectors = rng.standard_normal((170, 64), dtype=np.float32)
    weight = rng.random(9000, dtype=np.float32) + np.float32(0.1) if weighted else np.zeros(0, np.float32)
    of_rows = X @ vectors
    if unit:
        of_rows /= np.maximum(np.linalg.norm(of_rows, axis=1, keepdims=True), 1e-12)
    wanted = Y.T @ (of_rows * weight[:, None] if weighted else of_rows)
    found = [_core.sums_through_rows(*csr_parts(X), *csr_parts(Y), 40, weight, vectors, unit, n) for n in (1, 2, 3)]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-3)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    ones = csr_parts(Y)._replace(data=np.zeros(0, np.float32))
    Y.data[:] = 1
    of_ones = _core.sums_through_rows(*csr_parts(X), *ones, 40, weight, vectors, unit)
    np.testing.assert_array_equal(
        of_ones, _core.sums_through_rows(*csr_parts(X), *csr_parts(Y), 40, weight, vectors, unit)
    )


def test_large_products_match_scipy() -> None:
    X, right, left = large_case(np.random.default_rng(0))
    indptr, indices, data = csr_parts(X)
    np.testing.assert_allclose(
        _core.csr_times_block(indptr, indices, data, right, 2), _reference.csr_times_block(X, right), atol=1e-4
    )
    np.testing.assert_allclose(
        _core.csr_transposed_times_block(indptr, indices, data, 600, left, 2),
        _reference.csr_transposed_times_block(X, left),
        atol=1e-2,
    )


def test_the_bits_do_not_depend_on_threads_or_instruction_set() -> None:
    X, right, left = large_case(np.random.default_rng(1))
    indptr, indices, data = csr_parts(X)
    weight = np.random.default_rng(2).random(X.shape[0], dtype=np.float32)
    results = []
    before = _core.instruction_set()
    try:
        for name in _core.instruction_sets():
            _core.use_instruction_set(name)
            for n_threads in (1, 2, 3, 8):
                product = _core.csr_times_block(indptr, indices, data, right, n_threads)
                transposed = _core.csr_transposed_times_block(indptr, indices, data, 600, left, n_threads)
                sums = _core.class_sums(indptr, indices, 600, weight, left, n_threads)
                results.append((product.tobytes(), transposed.tobytes(), sums.tobytes()))
    finally:
        _core.use_instruction_set(before)
    assert all(result == results[0] for result in results[1:])


@given(n=st.integers(0, 40), d=st.integers(1, 40), width=st.integers(0, 20), seed=st.integers(0, 2**31))
def test_any_shape(n: int, d: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = random_csr(rng, n, d, 0.2)
    indptr, indices, data = csr_parts(X)
    right = rng.standard_normal((d, width), dtype=np.float32)
    left = rng.standard_normal((n, width), dtype=np.float32)
    np.testing.assert_allclose(
        _core.csr_times_block(indptr, indices, data, right, 2), _reference.csr_times_block(X, right), atol=1e-5
    )
    np.testing.assert_allclose(
        _core.csr_transposed_times_block(indptr, indices, data, d, left, 2),
        _reference.csr_transposed_times_block(X, left),
        atol=1e-5,
    )


def test_read_only_inputs() -> None:
    X = random_csr(np.random.default_rng(0), 50, 20, 0.2)
    parts = csr_parts(X)
    block = np.ones((20, 8), np.float32)
    expected = _core.csr_times_block(*parts, block)
    for array in (*parts, block):
        array.flags.writeable = False
    np.testing.assert_array_equal(_core.csr_times_block(*parts, block), expected)


@pytest.mark.parametrize(
    ("indptr", "indices", "data", "message"),
    [
        ([0, 1], [5], [1.0], "out of range"),
        ([0, 1], [-1], [1.0], "out of range"),
        ([0, 1], [-(2**31)], [1.0], "out of range"),
        ([0, 1], [2**31 - 1], [1.0], "out of range"),
        ([0, 2, 1], [0], [1.0], "descend"),
        ([0, 3], [0], [1.0], "end with"),
        ([1, 1], [0], [1.0], "begin with 0"),
        ([0, 1], [0], [1.0, 2.0], "same length"),
    ],
)
def test_forged_matrices_are_refused(indptr: list[int], indices: list[int], data: list[float], message: str) -> None:
    arrays = np.array(indptr, np.int64), np.array(indices, np.int32), np.array(data, np.float32)
    with pytest.raises(ValueError, match=message):
        _core.csr_times_block(*arrays, np.ones((5, 8), np.float32))


def test_a_matrix_without_columns_has_no_entries() -> None:
    indptr, nothing = np.array([0, 0]), np.ones((0, 8), np.float32)
    product = _core.csr_times_block(indptr, np.zeros(0, np.int32), np.zeros(0, np.float32), nothing)
    np.testing.assert_array_equal(product, np.zeros((1, 8)))
    with pytest.raises(ValueError, match="out of range"):
        _core.csr_times_block(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32), nothing)


def test_wrong_block_and_weight_sizes_are_refused() -> None:
    indptr, indices, data = csr_parts(random_csr(np.random.default_rng(0), 10, 5, 0.5))
    with pytest.raises(ValueError, match="row for every row"):
        _core.csr_transposed_times_block(indptr, indices, data, 5, np.ones((9, 8), np.float32))
    with pytest.raises(ValueError, match="example_weight"):
        _core.class_sums(indptr, indices, 5, np.ones(9, np.float32), np.ones((10, 8), np.float32))
    rows, vectors = (indptr, indices, np.ones(indices.size, np.float32)), np.ones((5, 64), np.float32)
    with pytest.raises(ValueError, match="the same rows"):
        _core.sums_through_rows(*rows, indptr[:-1], indices[: indptr[-2]], _ONES, 5, _ONES, vectors, True)
    with pytest.raises(ValueError, match="64 columns"):
        _core.sums_through_rows(*rows, *rows, 5, _ONES, vectors[:, :63].copy(), True)
    with pytest.raises(ValueError, match="out of range"):
        _core.sums_through_rows(*rows, *rows, 2, _ONES, vectors, True)
    with pytest.raises(ValueError, match="instruction set"):
        _core.use_instruction_set("avx1024")


def test_sizes_that_overflow_are_refused() -> None:
    indptr, indices, data = csr_parts(random_csr(np.random.default_rng(0), 10, 5, 0.5))
    with pytest.raises(ValueError, match="columns"):
        _core.csr_transposed_times_block(indptr, indices, data, 2**61, np.ones((10, 8), np.float32))
    with pytest.raises(ValueError, match="k must be"):
        _core.top_k_csr(indptr, indices, data, 2**62)
    with pytest.raises(ValueError, match="k must be"):
        _core.top_k_dense(np.ones((4, 8), np.float32), 2**62)


def test_arrays_are_never_converted_silently() -> None:
    """An int64 index of 2**32 would become 0."""
    indptr, indices, data = csr_parts(random_csr(np.random.default_rng(0), 10, 5, 0.5))
    block = np.ones((5, 8), np.float32)
    wrong = [
        (indptr, indices.astype(np.int64), data, block),
        (indptr.astype(np.int32), indices, data, block),
        (indptr, indices.astype(np.float32), data, block),
        (indptr, indices, data.astype(np.float64), block),
        (indptr, indices, data, np.asfortranarray(np.ones((5, 8), np.float32))),
    ]
    for arguments in wrong:
        with pytest.raises(TypeError):
            _core.csr_times_block(*arguments)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the system does not say what its processor can do")
def test_instruction_sets_are_those_of_the_processor() -> None:
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    expected = ["plain"]
    if "avx2" in flags:
        expected.append("avx2")
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        expected.append("avx512")
        if "avx512_vnni" in flags:
            expected.append("avx512_vnni")
    assert _core.instruction_sets() == expected
