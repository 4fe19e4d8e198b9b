"""A problem of topics, as one matrix and as dask arrays, and what a model is worth on it."""

from __future__ import annotations

import itertools
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

N_FEATURES, N_LABELS = 600, 150


def topics(n: int, seed: int, words: int = 24) -> tuple[sp.csr_array, sp.csr_array]:
    """Rows of words that their one to three labels are fond of, and of others."""
    rng = np.random.default_rng(seed)
    favourites = np.random.default_rng(0).integers(N_FEATURES, size=(N_LABELS, 12))
    frequency = 1 / (np.arange(N_LABELS) + 10)
    labels = rng.choice(N_LABELS, size=(n, 3), p=frequency / frequency.sum())
    labels = np.where(np.arange(3) < rng.integers(1, 4, n)[:, None], labels, labels[:, :1])
    chosen = labels[np.arange(n)[:, None], rng.integers(3, size=(n, words))]
    columns = favourites[chosen, rng.integers(12, size=(n, words))]
    columns = np.where(rng.random((n, words)) < 0.4, rng.integers(N_FEATURES, size=(n, words)), columns)
    X = sp.csr_array((np.ones(columns.size, np.float32), columns.ravel(), np.arange(n + 1) * words), (n, N_FEATURES))
    Y = sp.csr_array((np.ones(labels.size, np.float32), labels.ravel(), np.arange(n + 1) * 3), (n, N_LABELS))
    X.sum_duplicates()
    Y.sum_duplicates()
    Y.data[:] = 1
    return X, Y


def chunked(matrix: Any, cuts: list[int]) -> Any:
    """A dask array of the rows from cut to cut, each block made by a task of its own, which any worker can run anew."""
    blocks = [matrix[begin:end] for begin, end in itertools.pairwise(cuts)]
    if sp.issparse(matrix):
        blocks = [sp.csr_matrix(block) for block in blocks]
        meta: Any = sp.csr_matrix((0, 0), dtype=matrix.dtype)
    else:
        meta = np.empty((0,) * matrix.ndim, matrix.dtype)
    parts = [da.from_delayed(dask.delayed(block), block.shape, matrix.dtype, meta) for block in blocks]
    return da.concatenate(parts, axis=0)


def same_bits(one: Any, other: Any) -> bool:
    """Whether two fitted classifiers hold the same model."""
    arrays, others = one.recipe_.arrays, other.recipe_.arrays
    return one.recipe_.meta == other.recipe_.meta and all(np.array_equal(arrays[name], others[name]) for name in arrays)
