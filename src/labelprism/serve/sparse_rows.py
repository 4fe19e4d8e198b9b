"""Sparse rows as plain arrays: what a request of one row needs costs less than making a SciPy matrix of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Float32, Int32, Int64


class SparseRows(NamedTuple):
    """Rows of CSR whose indices ascend in each row; the number of columns is the model's."""

    indptr: Int64
    indices: Int32
    data: Float32

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.indptr.size - 1

    def matrix(self, n_columns: int) -> sp.csr_array:
        """Return the rows as a SciPy matrix."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=(self.n_rows, n_columns))

    def row(self, number: int) -> SparseRows:
        """Return one of the rows."""
        begin, end = self.indptr[number], self.indptr[number + 1]
        return SparseRows(np.array([0, end - begin]), self.indices[begin:end], self.data[begin:end])


def stacked(parts: Sequence[SparseRows]) -> SparseRows:
    """Return all rows of several, one below the other."""
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    indices, data = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
    return SparseRows(indptr, indices, data)
