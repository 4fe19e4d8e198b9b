"""Synthetic data with the shape, sparsity and skew of the data sets of the paper's Table 1.

Labels and features are as unevenly frequent as words are (Zipf's law). Labels form clusters of neighbours, which share
features; each label has features of its own too; the rest is noise. So there is a structure to be found, at several
scales, as in real data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

UInt64 = npt.NDArray[np.uint64]
_ROWS_PER_CHUNK = 100_000
_CLUSTER = 32  # labels in a cluster
_PROFILE = 24  # features that are typical of a label or of a cluster
_MORE_LABELS = 1.07  # labels drawn beyond the first, for each that a row shall have: some are drawn twice


@dataclass(frozen=True)
class Shape:
    """The shape of a data set: rows, features, labels, labels a row, and features a row (all of them when dense)."""

    n: int
    d: int
    c: int
    labels_per_row: float
    nonzeros: int

    def scaled(self, factor: float) -> Shape:
        """Return the shape with fewer rows."""
        return Shape(max(2, round(self.n * factor)), self.d, self.c, self.labels_per_row, self.nonzeros)


SHAPES = {
    "aloi": Shape(97_200, 128, 1_000, 1.0, 128),
    "odp": Shape(1_500_000, 500_000, 100_000, 1.0, 40),
    "lshtc": Shape(2_400_000, 1_600_000, 325_000, 3.26, 40),
    "twitter": Shape(25_000_000, 1_000_000, 264_000, 1.27, 15),
}


def zipf(uniform: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.int64]:
    """Map uniform numbers to 0 ... size - 1 such that number i has a probability of about 1 / (i + 1)."""
    return np.minimum(((size + 1.0) ** uniform - 1).astype(np.int64), size - 1)


def hashed_uniform(keys: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for every key, always the same one."""
    x = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 0x632BE59BD9B4E019 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sparse_data(shape: Shape, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Return X (n, d) with unit rows by the Hellinger map, and Y (n, c)."""
    rng = np.random.default_rng(seed)
    draws = _draws(shape)
    sizes = [min(_ROWS_PER_CHUNK, shape.n - begin) for begin in range(0, shape.n, _ROWS_PER_CHUNK)]
    chunks = [_sparse_chunk(size, shape, draws, rng) for size in sizes]
    X, Y = (sp.vstack(part, format="csr") for part in zip(*chunks, strict=True))
    return X, Y


def _draws(shape: Shape) -> int:
    """Return how many features to draw for a row, that so many different ones come out as it shall have."""
    draws = float(shape.nonzeros)
    for _ in range(4):
        X, _ = _sparse_chunk(2000, shape, round(draws), np.random.default_rng(0))
        draws *= shape.nonzeros / (X.nnz / 2000)
    return round(draws)


def _sparse_chunk(n: int, shape: Shape, draws: int, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    counts = 1 + rng.poisson(_MORE_LABELS * (shape.labels_per_row - 1), n)
    first = zipf(rng.random(n), shape.c)
    row_of_label = np.repeat(np.arange(n), counts)
    # Further labels of a row are neighbours of its first: labels that occur together are alike.
    neighbour = first[row_of_label] // _CLUSTER * _CLUSTER + rng.integers(_CLUSTER, size=row_of_label.size)
    starts = np.concatenate([[0], np.cumsum(counts)])
    labels = np.minimum(neighbour, shape.c - 1)
    labels[starts[:-1]] = first
    Y = sp.csr_array((np.ones(labels.size, np.float32), labels, starts), shape=(n, shape.c))
    Y.sum_duplicates()
    Y.data[:] = 1

    chosen = starts[:-1, None] + (rng.random((n, draws)) * counts[:, None]).astype(np.int64)
    source = labels[chosen]  # the label that each feature of a row comes from
    kind = rng.random(source.shape)
    slot = rng.integers(_PROFILE, size=source.shape)
    key = np.where(kind < 0.4, source, shape.c + source // _CLUSTER) * _PROFILE + slot
    uniform = np.where(kind < 0.7, hashed_uniform(key, seed=1), rng.random(source.shape))
    features = zipf(uniform, shape.d)
    indptr = np.arange(n + 1) * draws
    X = sp.csr_array((np.ones(features.size, np.float32), features.ravel(), indptr), shape=(n, shape.d))
    X.sum_duplicates()
    X.data = np.sqrt(X.data / np.float32(draws))
    return X, Y


def dense_data(shape: Shape, seed: int = 0) -> tuple[npt.NDArray[np.float32], sp.csr_array]:
    """Return X (n, d) dense, with the norms of ALOI (34 to 148), and Y (n, c) with one label a row, all as frequent.

    As in pictures, few directions hold most of the variance: the i-th about 1 / i of it.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(shape.n) % shape.c)
    spectrum = 1 / np.sqrt(1 + np.arange(shape.d))
    rotation, _ = np.linalg.qr(rng.standard_normal((shape.d, shape.d)))
    centres = rng.standard_normal((shape.c, shape.d))
    within = 0.25 * rng.standard_normal((shape.n, shape.d), dtype=np.float32)
    X = ((centres[labels] + within) * spectrum) @ rotation
    X *= rng.uniform(34, 148, shape.n)[:, None] / np.linalg.norm(X, axis=1, keepdims=True)
    Y = sp.csr_array((np.ones(shape.n, np.float32), labels, np.arange(shape.n + 1)), shape=(shape.n, shape.c))
    return X.astype(np.float32), Y
