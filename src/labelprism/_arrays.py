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


def as_csr(matrix: Any, name: str = "X") -> sp.csr_array:
    """Return `matrix` as a canonical float32 `csr_array`: sorted, without duplicates, finite, in range.

    Parameters
    ----------
    matrix : sparse matrix or array-like of shape (n, m)
        Left unchanged; its arrays are shared where they already fit.
    name : str
        How error messages call it.
    """
    if not is_sparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, got {matrix.ndim}")
    if matrix.shape[1] > MAX_COLUMNS:
        raise ValueError(f"{name} has {matrix.shape[1]} columns; at most {MAX_COLUMNS} are possible")
    try:
        # float32 overflow gives inf, which the check below names; numpy need not warn about it too.
        with np.errstate(over="ignore"):
            csr = sp.csr_array(matrix, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as a matrix of numbers: {error}") from error
    try:
        csr.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid CSR matrix: {error}") from error
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if not np.isfinite(csr.data).all():
        row = int(np.searchsorted(csr.indptr, np.flatnonzero(~np.isfinite(csr.data))[0], side="right") - 1)
        raise ValueError(f"{name} holds NaN, infinity or a value beyond float32 in row {row}; clean it before")
    return csr


def as_label_matrix(Y: Any, name: str = "Y") -> sp.csr_array:
    """Return `Y` as a CSR of ones: stored zeros are dropped, other values are set to 1.

    Parameters
    ----------
    Y : sparse matrix or array-like of shape (n, c)
        Non-zero where the row has the label.
    name : str
        How error messages call it.
    """
    csr = as_csr(Y, name)
    if not (csr.data == 1).all():
        csr = csr.copy()
        csr.eliminate_zeros()
        csr.data[:] = 1
    return csr


def csr_parts(csr: sp.csr_array) -> CSRParts:
    """Return the arrays of a CSR matrix as the native core wants them."""
    return CSRParts(
        np.ascontiguousarray(csr.indptr, dtype=np.int64),
        np.ascontiguousarray(csr.indices, dtype=np.int32),
        np.ascontiguousarray(csr.data, dtype=np.float32),
    )
