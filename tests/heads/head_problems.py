"""Small problems for the tests of heads: candidates of leaves, rows, labels, and routes that need no filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass
class WanderingRoutes:
    """Routes without a filter: decided leaves, and for the random ones the share of rows that go astray."""

    table: sp.csr_array
    leaves: np.ndarray
    astray: float = 0.0

    def decided(self) -> np.ndarray:
        return self.leaves

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        other = rng.integers(self.table.shape[0], size=self.leaves.size).astype(np.int32)
        return np.where(rng.random(self.leaves.size) < self.astray, other, self.leaves)


@dataclass
class Problem:
    """Rows (n, d), labels (n, c), and a table of candidates (n_leaves, c)."""

    X: Any
    Y: sp.csr_array
    routes: WanderingRoutes

    @property
    def table(self) -> sp.csr_array:
        return self.routes.table

    @property
    def leaves(self) -> np.ndarray:
        return self.routes.leaves


def candidate_table(lists: list[list[int]], n_labels: int) -> sp.csr_array:
    """A table with equally probable candidates."""
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in lists])])
    data = np.concatenate([np.full(len(labels), -np.log(max(len(labels), 1))) for labels in lists])
    indices = np.concatenate([np.array(sorted(labels), int) for labels in lists])
    return sp.csr_array((data.astype(np.float32), indices, indptr), shape=(len(lists), n_labels))


def random_problem(
    seed: int = 0,
    n: int = 60,
    d: int = 11,
    c: int = 9,
    n_leaves: int = 3,
    labels_per_row: int = 1,
    density: float = 0.5,
) -> Problem:
    """Rows, labels and candidates at random: truths may be filtered out, rows may have no labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    Y = np.zeros((n, c), np.float32)
    for _ in range(labels_per_row):
        Y[np.arange(n), rng.integers(c, size=n)] = 1
    Y[:: max(n // 5, 1)] = 0
    lists = [list(rng.choice(c, size=rng.integers(2, c), replace=False)) for _ in range(n_leaves)]
    leaves = rng.integers(n_leaves, size=n).astype(np.int32)
    routes = WanderingRoutes(candidate_table(lists, c), leaves, astray=0.3)
    return Problem(sp.csr_array(X.astype(np.float32)), sp.csr_array(Y), routes)


def separable_problem(n: int = 400, c: int = 8, multilabel: bool = False, seed: int = 0) -> Problem:
    """Each label has a feature of its own; half of the labels are candidates in each of two leaves."""
    rng = np.random.default_rng(seed)
    first = rng.integers(c, size=n)
    Y = np.zeros((n, c), np.float32)
    Y[np.arange(n), first] = 1
    if multilabel:
        Y[np.arange(n), first // 2 * 2] = 1
    X = Y + 0.05 * rng.standard_normal((n, c))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    half = c // 2
    table = candidate_table([list(range(half)), list(range(half, c))], c)
    routes = WanderingRoutes(table, (first >= half).astype(np.int32))
    return Problem(sp.csr_array(X.astype(np.float32)), sp.csr_array(Y), routes)
