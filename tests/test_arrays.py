"""What may enter the library as a matrix, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config

from labelprism._arrays import as_csr, as_label_matrix, check_whole, csr_of, csr_parts, with_narrow_indices
from labelprism._threads import thread_count


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array, list])
def test_as_csr_of_any_container(container: object) -> None:
    dense = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    csr = as_csr(container(dense))  # type: ignore[operator]
    assert isinstance(csr, sp.csr_array)
    assert csr.dtype == np.float32
    np.testing.assert_array_equal(csr.toarray(), dense)


def test_unsorted_and_repeated_entries_are_put_right_in_a_copy() -> None:
    given = sp.csr_array((np.array([1, 2, 3], np.float32), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    np.testing.assert_array_equal(as_csr(given).toarray(), [[2, 0, 4]])
    assert given.indices.tolist() == [2, 0, 2]


def test_a_fitting_matrix_is_shared() -> None:
    given = sp.csr_array(np.eye(3, dtype=np.float32))
    assert np.shares_memory(as_csr(given).data, given.data)


def forged(indices: list[int], indptr: list[int]) -> sp.csr_array:
    matrix = sp.csr_array((2, 3), dtype=np.float32)
    matrix.data = np.ones(len(indices), np.float32)
    matrix.indices = np.array(indices, np.int32)
    matrix.indptr = np.array(indptr, np.int32)
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.ones((2, 2, 2)), "two dimensions"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[None]]), "real numbers"),
        (np.array([[1.0]], dtype=object), "real numbers"),
        (np.array([[1 + 2j]]), "real numbers, got values of type complex128"),
        (sp.csr_array(np.array([[1 + 2j]])), "real numbers, got values of type complex128"),
        (sp.coo_array(np.array([[2j]], dtype=np.complex64)), "real numbers, got values of type complex64"),
        (np.array([[1, np.nan]]), "row 0"),
        (np.array([[1.0], [np.inf]]), "row 1"),
        (np.array([[0.0, 1], [1e39, 0]]), "row 1"),
        (forged([7, 0], [0, 1, 2]), "not a valid CSR"),
        (forged([-1, 0], [0, 1, 2]), "not a valid CSR"),
        (forged([1, 0], [0, 5, 2]), "not a valid CSR"),
        (sp.csr_array((1, 2**31)), "columns"),
    ],
)
def test_what_is_refused(matrix: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        as_csr(matrix, "Z")
    assert str(caught.value).startswith("Z ")


def test_label_matrices_hold_ones_only() -> None:
    given = sp.csr_array((np.array([0, 5, -1], np.float32), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 3))
    Y = as_label_matrix(given)
    np.testing.assert_array_equal(Y.toarray(), [[0, 1, 1]])
    assert Y.nnz == 2
    assert given.data.tolist() == [0, 5, -1]


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.longdouble, ">f8"])
def test_tiny_values_are_labels(container: Any, dtype: Any) -> None:
    given = np.array([[1e-50, 0, 1], [0, -1e-300, 0]], dtype=dtype)
    if container is not np.asarray:
        given = given.astype(given.dtype.newbyteorder("="))  # the only order that sparse matrices have
    Y = as_label_matrix(container(given))
    assert Y.dtype == np.float32
    np.testing.assert_array_equal(Y.toarray(), [[1, 0, 1], [0, 1, 0]])


def test_labels_are_what_repeated_entries_sum_to() -> None:
    data, indices = np.array([1e-50, 1e-50, 1, -1]), np.array([0, 0, 1, 1])
    given = sp.csr_array((data, indices, np.array([0, 4])), shape=(1, 2))
    np.testing.assert_array_equal(as_label_matrix(given).toarray(), [[1, 0]])
    assert given.data.tolist() == [1e-50, 1e-50, 1, -1]
    assert given.indices.tolist() == [0, 0, 1, 1]


def test_label_matrices_share_what_fits() -> None:
    ones = sp.csr_array(np.eye(3, dtype=np.float32))
    assert np.shares_memory(as_label_matrix(ones).data, ones.data)
    counts = sp.csr_array(7 * np.eye(3))
    assert np.shares_memory(as_label_matrix(counts).indices, counts.indices)
    for array in (counts.data, counts.indices, counts.indptr):
        array.flags.writeable = False
    np.testing.assert_array_equal(as_label_matrix(counts).toarray(), np.eye(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_labels_must_be_finite(value: float, dtype: Any) -> None:
    with pytest.raises(ValueError, match="Y holds NaN, infinity or a value beyond float32 in row 1"):
        as_label_matrix(sp.csr_array(np.array([[1, 0], [0, value]], dtype=dtype)))


@pytest.mark.parametrize("value", [0, 3, np.int32(7), np.uint64(7)])
def test_whole_numbers_in_range(value: object) -> None:
    check_whole("size", value, 0, 7)


@pytest.mark.parametrize("value", [-1, 8, 3.0, np.float32(3), True, np.True_, "3", None, [3]])
def test_what_is_no_whole_number_in_range(value: object) -> None:
    with pytest.raises(ValueError, match=r"^size must be a whole number from 0 to 7, got "):
        check_whole("size", value, 0, 7)


def test_parts_have_the_dtypes_of_the_core() -> None:
    parts = csr_parts(as_csr(np.eye(4)))
    assert [array.dtype for array in parts] == [np.int64, np.int32, np.float32]


def test_indices_become_narrow_and_narrow_ones_stay() -> None:
    wide = sp.csr_array((np.ones(2, np.float32), np.array([2, 0], np.int64), np.array([0, 1, 2], np.int64)), (2, 3))
    narrow = with_narrow_indices(wide)
    assert (wide.indices.dtype, narrow.indices.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(narrow.toarray(), wide.toarray())
    assert with_narrow_indices(narrow) is narrow


def test_arrays_of_the_core_are_not_copied() -> None:
    indices, data = np.array([2, 0], np.int32), np.ones(2, np.float32)
    csr = csr_of(np.array([0, 1, 2], np.int64), indices, data, (2, 3))
    np.testing.assert_array_equal(csr.toarray(), [[0, 0, 1], [1, 0, 0]])
    assert np.shares_memory(csr.indices, indices)
    assert np.shares_memory(csr.data, data)


def test_thread_counts() -> None:
    assert thread_count(None) == 1
    assert thread_count(3) == 3
    assert thread_count(-1) >= 1
    with parallel_config("threading", n_jobs=2):
        assert thread_count(None) == 2
    with pytest.raises(ValueError, match="n_jobs"):
        thread_count(0)
