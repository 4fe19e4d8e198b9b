"""Small data with planted labels, and trees over them, for the tests of the filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism.filters import SpectralTree


def planted(
    n: int = 600, c: int = 24, labels_per_row: float = 1.0, seed: int = 0, density: float = 0.15
) -> tuple[sp.csr_array, sp.csr_array]:
    """Labels with features of their own, in clusters of four, and noise; unit rows."""
    rng = np.random.default_rng(seed)
    d = 60
    profiles = rng.random((c, d)) * (rng.random((c, d)) < density) + np.repeat(
        rng.random((c // 4, d)) * (rng.random((c // 4, d)) < density), 4, axis=0
    )
    Y = np.zeros((n, c))
    Y[np.arange(n), rng.integers(c, size=n)] = 1
    if labels_per_row > 1:
        Y[rng.random((n, c)) < (labels_per_row - 1) / c] = 1
    X = Y @ profiles + 0.3 * rng.random((n, d)) * (rng.random((n, d)) < 0.1)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y.astype(np.float32))


def fitted(X: Any, Y: Any, **parameters: Any) -> SpectralTree:
    defaults = {"n_candidates": 4, "max_depth": 5, "random_state": 0, "verbose": False}
    return SpectralTree(**(defaults | parameters)).fit(X, Y)


def leaf_counts(tree: SpectralTree, X: Any, Y: Any) -> np.ndarray:
    """Return the expected label counts of every leaf, by following all examples."""
    return np.asarray((tree.leaf_probabilities(X).astype(np.float64).T @ Y).todense())
