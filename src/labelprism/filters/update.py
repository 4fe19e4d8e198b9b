"""The labels of further examples, counted in the leaves that the examples reach; the ways to the leaves stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism.filters.base import candidate_table, keep_entries


def counted(
    table: sp.csr_array, mass: npt.NDArray[Any], probabilities: sp.csr_array, Y: sp.csr_array, n_candidates: int | None
) -> tuple[sp.csr_array, npt.NDArray[np.float64]]:
    """Return the candidates of the leaves, with their log-probabilities, and the mass of the leaves, after examples.

    Parameters
    ----------
    table : csr_array of shape (n_leaves, c), sorted
        The candidates before, with their log-probabilities.
    mass : array of shape (n_leaves,)
        The label mass of each leaf before.
    probabilities : csr_array of shape (n, n_leaves)
        How probable it is that an example comes to a leaf, times its weight.
    Y : csr_array of shape (n, c') with c' >= c
        The labels of the examples; those from c on are new.
    n_candidates : int or None
        A leaf keeps so many of its labels, or as many as it had, and all that no leaf had before.
    """
    wide = sp.csr_array((table.data, table.indices, table.indptr), shape=(table.shape[0], Y.shape[1]))
    counts_before = np.exp(wide.data) * np.repeat(mass, np.diff(wide.indptr))
    old = sp.csr_array((counts_before, wide.indices, wide.indptr), shape=wide.shape)
    added = sp.csr_array(probabilities.T.tocsr() @ Y)
    counts = sp.csr_array(old + added)
    counts.sort_indices()
    is_old_label = np.zeros(Y.shape[1], bool)
    is_old_label[table.indices] = True
    kept = ~is_old_label[counts.indices]
    most = np.diff(wide.indptr)
    if n_candidates is not None:
        most = np.maximum(most, n_candidates)
    kept |= _among_the_largest(counts, most)
    new_mass = np.asarray(mass, np.float64) + np.asarray(added.sum(axis=1)).ravel()
    return candidate_table(keep_entries(counts, kept), new_mass), new_mass


def _among_the_largest(matrix: sp.csr_array, most: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell for each entry whether it is one of the `most` largest of its row, of equals the first."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, row))
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return np.asarray(rank - matrix.indptr[row] < most[row])
