"""Centroids: sums and norms of labels, however unlike their sizes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from labelprism.heads.centroids import centroids, label_sums, row_norms


def test_sums_and_norms_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 30), density=0.2, format="csr", dtype=np.float32, rng=rng)
    Y = sp.csr_array((rng.random((40, 6)) < 0.3).astype(np.float32))
    weight = rng.uniform(0.5, 2, 40).astype(np.float32)
    wanted = (Y.toarray() * weight[:, None]).T @ X.toarray()
    sums = label_sums(X, Y, weight)
    np.testing.assert_allclose(sums.toarray(), wanted, rtol=1e-5)
    np.testing.assert_allclose(row_norms(sums), np.linalg.norm(wanted, axis=1), rtol=1e-6)


def test_small_sums_after_large_ones_keep_their_norms() -> None:
    """Rows of small weight make labels whose squares vanish beside the sum of all others."""
    sums = sp.csr_array(np.array([[3e4, 4e4], [3e-6, 4e-6], [0, 0], [3e-8, 4e-8]], np.float32))
    norms = row_norms(sums)
    np.testing.assert_allclose(norms, [5e4, 5e-6, 0, 5e-8], rtol=1e-6)
    cut = centroids(sums, norms, 2).toarray()
    np.testing.assert_allclose(cut, [[0.6, 0.8], [0.6, 0.8], [0, 0], [0.6, 0.8]], rtol=1e-3)
