"""The array conventions of the library: what a kernel may rely on is made sure of here.

Kernels take C-contiguous arrays only: float32 values, int32 indices, int64 index pointers. scipy keeps
`indptr` and `indices` in one dtype, so the conversion happens at the door of the native core and
nowhere else; it copies `indptr` (n numbers) and, in the usual case, nothing more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

MAX_COLUMNS = 2**31 - 1
"""Columns are int32 in the native core, so this is the largest number of features or labels."""


class CSRParts(NamedTuple):
    """The three arrays of a CSR matrix in the dtypes of the native core."""

    indptr: Int64
    indices: Int32
    data: Float32


def is_sparse(matrix: object) -> bool:
    """Tell whether `matrix` is one of scipy's sparse matrices or arrays."""
    return bool(sp.issparse(matrix))


def check_whole(name: str, value: object, smallest: int, largest: int) -> None:
    """Make sure that a parameter is a whole number in a range.

    Parameters
    ----------
    name : str
        The parameter.
    value : object
        What was given for it. Booleans and floats are refused, also those that are whole.
    smallest, largest : int
        The range, both ends included.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not smallest <= value <= largest:
        raise ValueError(f"{name} must be a whole number from {smallest} to {largest}, got {value!r}")


def as_csr(matrix: Any, name: str = "X", n_threads: int = 1) -> sp.csr_array:
    """Return `matrix` as a canonical float32 `csr_array`: sorted, without duplicates, finite, in range.

    Parameters
    ----------
    matrix : sparse matrix or array-like of shape (n, m)
        Left unchanged; its arrays are shared where they already fit.
    name : str
        How error messages call it.
    n_threads : int
        That sort its rows, if they are not.
    """
    return _canonical(_checked_matrix(matrix, name), np.dtype(np.float32), name, n_threads)


def is_rows_of(X: Any, n_features: int) -> bool:
    """Tell whether X is a CSR matrix of float32 with at least one row and so many features."""
    return getattr(X, "format", None) == "csr" and X.dtype == np.float32 and X.shape[0] > 0 and X.shape[1] == n_features


def as_label_matrix(Y: Any, name: str = "Y") -> sp.csr_array:
    """Return `Y` as a CSR of ones: stored zeros are dropped, other values are set to 1.

    Parameters
    ----------
    Y : sparse matrix or array-like of shape (n, c)
        Non-zero where the row has the label, be it as small as it may.
    name : str
        How error messages call it.
    """
    Y = _checked_matrix(Y, name)
    # float32 would make zeros of tiny values, and their labels would vanish; whole numbers have none.
    is_wide = Y.dtype.kind == "f" and Y.dtype.itemsize > 4
    csr = _canonical(Y, Y.dtype.newbyteorder("=") if is_wide else np.dtype(np.float32), name)
    if not is_wide and (csr.data == 1).all():
        return csr
    has_label = csr.data != 0
    arrays = (has_label.astype(np.float32), csr.indices, csr.indptr)
    if has_label.all():
        return sp.csr_array(arrays, shape=csr.shape)
    ones = sp.csr_array(arrays, shape=csr.shape, copy=True)  # for the next line works in place
    ones.eliminate_zeros()
    return ones


def _checked_matrix(matrix: Any, name: str) -> Any:
    """Return a sparse matrix as it is and anything else as an array, made sure that it can become a CSR."""
    if not is_sparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, got {matrix.ndim}")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got values of type {matrix.dtype}; convert it before")
    if matrix.shape[1] > MAX_COLUMNS:
        raise ValueError(f"{name} has {matrix.shape[1]} columns; at most {MAX_COLUMNS} are possible")
    return matrix


def _canonical(matrix: Any, dtype: np.dtype[Any], name: str, n_threads: int = 1) -> sp.csr_array:
    """Return a checked matrix as a `csr_array` of `dtype`: sorted, without duplicates, finite in float32, in range."""
    try:
        # float32 overflow gives inf, which the check below names; numpy need not warn about it too.
        with np.errstate(over="ignore"):
            csr = sp.csr_array(matrix, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as a matrix of numbers: {error}") from error
    try:
        csr.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid CSR matrix: {error}") from error
    if not csr.has_canonical_format:
        csr = _sorted(csr, n_threads)
    with np.errstate(over="ignore"):
        finite = np.isfinite(csr.data.astype(np.float32, copy=False))
    if not finite.all():
        row = int(np.searchsorted(csr.indptr, np.flatnonzero(~finite)[0], side="right") - 1)
        raise ValueError(f"{name} holds NaN, infinity or a value beyond float32 in row {row}; clean it before")
    return csr


def _sorted(csr: sp.csr_array, n_threads: int) -> sp.csr_array:
    """Return a valid CSR matrix whose rows are sorted, without duplicates, as a copy."""
    if csr.dtype == np.float32 and csr.nnz <= MAX_COLUMNS:  # scipy takes three times as long
        indices, data, is_canonical = _core.sorted_rows(*csr_parts(csr), csr.shape[1], n_threads)
        if is_canonical:
            return sp.csr_array((data, indices, csr.indptr.astype(np.int32)), shape=csr.shape)
    copy = csr.copy()
    copy.sum_duplicates()
    return copy


def csr_parts(csr: sp.csr_array) -> CSRParts:
    """Return the arrays of a CSR matrix as the native core wants them."""
    return CSRParts(
        np.ascontiguousarray(csr.indptr, dtype=np.int64),
        np.ascontiguousarray(csr.indices, dtype=np.int32),
        np.ascontiguousarray(csr.data, dtype=np.float32),
    )


def csr_of(indptr: Int64, indices: Int32, data: npt.NDArray[Any], shape: tuple[int, int]) -> sp.csr_array:
    """Return a CSR matrix of arrays from the native core, as they are: scipy would copy indices to make them int64."""
    narrow = indptr.astype(np.int32) if indptr[-1] <= MAX_COLUMNS else indptr
    return sp.csr_array((data, indices, narrow), shape=shape)


def with_narrow_indices(csr: sp.csr_array) -> sp.csr_array:
    """Return a CSR matrix with int32 indices, where its entries can be counted so: what kernels take without a copy."""
    if csr.indices.dtype == np.int32 or csr.nnz > MAX_COLUMNS:
        return csr
    return sp.csr_array((csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)), shape=csr.shape)


def row_range(csr: sp.csr_array, begin: int, end: int) -> sp.csr_array:
    """Return the rows from `begin` up to `end` of a CSR matrix, as views: scipy would copy them, twice for a while.

    Parameters
    ----------
    csr : csr_array of shape (n, m)
    begin, end : int
        0 <= begin <= end <= n.
    """
    indptr = csr.indptr[begin : end + 1]
    entries = slice(int(indptr[0]), int(indptr[-1]))
    arrays = (csr.data[entries], csr.indices[entries], indptr - indptr[0])
    return sp.csr_array(arrays, shape=(end - begin, csr.shape[1]))


def picked_rows(csr: sp.csr_array, rows: Int64, n_threads: int = 1) -> sp.csr_array:
    """Return some rows of a float32 CSR matrix in memory, in the order wanted, in half of scipy's time.

    Parameters
    ----------
    csr : csr_array of shape (n, m)
    rows : int64 array
        From 0 to n - 1.
    n_threads : int
    """
    return csr_of(*_core.gathered_rows(*csr_parts(csr), csr.shape[1], rows, n_threads), (rows.size, csr.shape[1]))


def gathered_rows(csr: sp.csr_array, rows: Int64) -> sp.csr_array:
    """Return some rows of a CSR matrix; memory is that of the rows, however large the matrix is and wherever it lies.

    Parameters
    ----------
    csr : csr_array of shape (n, m)
        Its index pointers ascend; `indptr`, `indices` and `data` may be of different index types, or mapped files.
    rows : int64 array
        From 0 to n - 1, in the order wanted.
    """
    begins = csr.indptr[rows].astype(np.int64)
    lengths = csr.indptr[rows + 1].astype(np.int64) - begins
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    sources = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], lengths)
    shape = (rows.size, csr.shape[1])
    return sp.csr_array((csr.data[sources], csr.indices[sources], indptr), shape=shape)
