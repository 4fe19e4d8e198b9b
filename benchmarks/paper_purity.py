"""The paper's Table 3: purity of the root's split against random directions.

Every direction splits the training examples at the median of its margins, and the test examples at the same place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from paper_data import Split
from paper_models import Settings, percent, say

from labelprism import _core
from labelprism._arrays import csr_parts, is_sparse
from labelprism._progress import ProgressBar
from labelprism._threads import thread_count
from labelprism.filters import SpectralTree

_BLOCK = 16
HEAD = ["data", "", "spectral root", "mean of random", "best of random"]
PAPER = [
    ["ALOI, paper", "train purity", "86.7%", "71.9%", "84.8%"],
    ["ALOI, paper", "test purity", "86.9%", "74.0%", "85.6%"],
    ["ALOI, paper", "test balance", "49.98%", "50.0%", "49.96%"],
]


def purity_rows(data: Split, settings: Settings, n_directions: int) -> list[list[str]]:
    """Return the rows of the table for a data set with one label a row."""
    n_threads = thread_count(settings.jobs)
    tree = SpectralTree(1, 1, weight_threshold=0.0, **settings.common()).fit(data.X, data.Y)
    root = measure(data, np.ascontiguousarray(tree.routers_[[0]].toarray().T), n_threads)[:, 0]
    say(f"root of {data.name}: train purity {root[0]:.1%}")
    random = random_directions(data, n_directions, n_threads)
    best = random[:, np.argmax(random[0])]
    rows = []
    for row, name in enumerate(("train purity", "test purity")):
        rows.append([data.name, name, *(percent(x, 1) for x in (root[row], random[row].mean(), random[row].max()))])
    for row, name in ((2, "train balance"), (3, "test balance")):
        rows.append([data.name, name, *(percent(x) for x in (root[row], random[row].mean(), best[row]))])
    return rows


def measure(data: Split, directions: npt.NDArray[np.float32], n_threads: int) -> npt.NDArray[np.float64]:
    """Return train purity, test purity, train balance and test balance of each direction; directions (d, width)."""
    margins, test_margins = (_margins(X, directions, n_threads) for X in (data.X, data.X_test))
    bias = np.partition(margins, margins.shape[0] // 2, axis=0)[margins.shape[0] // 2]
    purity, balance = split_quality(data.Y, margins > bias, n_threads)
    test_purity, test_balance = split_quality(data.Y_test, test_margins > bias, n_threads)
    return np.stack([purity, test_purity, balance, test_balance])


def split_quality(Y: Any, goes_right: npt.NDArray[np.bool_], n_threads: int) -> tuple[Any, Any]:
    """Return purity and balance of several splits; goes_right (n, width)."""
    labels = csr_parts(Y)
    right = goes_right.astype(np.float32)
    ones = np.ones(Y.shape[0], np.float32)
    to_right = _core.class_sums(labels.indptr, labels.indices, Y.shape[1], ones, right, n_threads)
    total = np.bincount(labels.indices, minlength=Y.shape[1])[:, None]
    share = right.mean(axis=0, dtype=np.float64)
    purity = np.maximum(to_right, total - to_right).sum(axis=0, dtype=np.float64) / total.sum()
    return purity, np.maximum(share, 1 - share)


def random_directions(data: Split, count: int, n_threads: int) -> npt.NDArray[np.float64]:
    """Measure directions drawn uniformly from the sphere; (4, count)."""
    rng = np.random.default_rng(0)
    results = []
    with ProgressBar(count, "random directions", "directions") as bar:
        for _ in range(0, count, _BLOCK):
            directions = rng.standard_normal((data.X.shape[1], _BLOCK), dtype=np.float32)
            results.append(measure(data, directions / np.linalg.norm(directions, axis=0), n_threads))
            bar.advance(_BLOCK)
    return np.concatenate(results, axis=1)[:, :count]


def _margins(X: Any, directions: npt.NDArray[np.float32], n_threads: int) -> npt.NDArray[np.float32]:
    if is_sparse(X):
        return _core.csr_times_block(*csr_parts(X), directions, n_threads)
    margins: npt.NDArray[np.float32] = X @ directions
    return margins
