"""Time the metrics on 100,000 rows of 5 predictions, 100,000 labels and about 5 labels a row.

Run with ``python benchmarks/metrics.py``. The first part ranks from label ids, the second part from a
sparse matrix of 50 scores a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism import metrics

ROWS = 100_000
LABELS = 100_000
PREDICTIONS = 5
CANDIDATES = 50
REPEATS = 3


def random_labels(generator: np.random.Generator, per_row: int) -> sp.csr_array:
    """Return labels with a long tail: `per_row` draws for each row, where repeated ones merge."""
    rows = np.repeat(np.arange(ROWS), per_row)
    labels = (LABELS * generator.random(rows.size) ** 3).astype(np.int64)
    return sp.csr_array((generator.random(rows.size), (rows, labels)), shape=(ROWS, LABELS))


def report(name: str, function: Callable[[], Any]) -> float:
    """Print and return the least time of a few calls."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    print(f"{name:28s} {min(seconds):7.3f} s")
    return min(seconds)


def main() -> None:
    generator = np.random.default_rng(0)
    truth, train = random_labels(generator, 5), random_labels(generator, 5)
    scores = random_labels(generator, CANDIDATES)
    ids = generator.integers(-1, LABELS, size=(ROWS, PREDICTIONS))
    ids[:, 2] = truth.indices[truth.indptr[:-1]]
    weights = metrics.inverse_propensity(train)
    goes_right = generator.random(ROWS)

    single: dict[str, Callable[[], Any]] = {
        "precision_at_k": lambda: metrics.precision_at_k(truth, ids, 5),
        "recall_at_k": lambda: metrics.recall_at_k(truth, ids, 5),
        "ndcg_at_k": lambda: metrics.ndcg_at_k(truth, ids, 5),
        "inverse_propensity": lambda: metrics.inverse_propensity(train),
        "psp_at_k": lambda: metrics.psp_at_k(truth, ids, 5, weights),
        "psndcg_at_k": lambda: metrics.psndcg_at_k(truth, ids, 5, weights),
        "coverage_at_k": lambda: metrics.coverage_at_k(truth, ids, 5),
        "f1_at_k": lambda: metrics.f1_at_k(truth, ids, 5),
        "filter_recall": lambda: metrics.filter_recall(truth, scores),
        "purity": lambda: metrics.purity(truth, goes_right),
        "balance": lambda: metrics.balance(goes_right),
    }
    total = sum(report(name, function) for name, function in single.items())
    print(f"{'all of the above':28s} {total:7.3f} s\n")
    report("evaluate, ids", lambda: metrics.evaluate(truth, ids, train))
    report("evaluate, sparse scores", lambda: metrics.evaluate(truth, scores, train))
    report("bootstrap_difference", lambda: metrics.bootstrap_difference(truth, ids, scores, k=5))


if __name__ == "__main__":
    main()
