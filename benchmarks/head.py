"""Cost of the heads by gradient descent.

    python benchmarks/head.py shape aloi|lshtc [--rows SHARE]   # a pass, and prediction, at the shapes of the paper
    python benchmarks/head.py labels                            # a pass and prediction against the number of labels
    python benchmarks/head.py grouping                          # what it buys to take the rows of a leaf together

`shape` grows a tree first; the others need none: leaves with random candidates stand in for it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from synthetic import SHAPES, dense_data, sparse_data
from timing import machine

from labelprism.estimator import FilterRoutes
from labelprism.filters import SpectralTree
from labelprism.heads import LogisticHead, LowRankHead
from labelprism.heads.sgd import SGDHead

PASSES = 8  # enough that what comes before the first, which is left out, does not blur the difference
HASHED = 4096  # of the LSHTC shape: weights and momentum of 325,000 labels then take 10.6 GB


@dataclass
class RandomRoutes:
    """Leaves with random candidates, to measure a head without a tree."""

    table: sp.csr_array
    leaves: np.ndarray

    def decided(self) -> np.ndarray:
        """Return the leaf of every row."""
        return self.leaves

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        """Return the same: the draw is not what is measured."""
        return self.leaves


def random_routes(n: int, c: int, n_leaves: int, k: int, disjoint: bool = False) -> tuple[RandomRoutes, sp.csr_array]:
    """Return routes, and one label a row among its candidates.

    Leaves draw their candidates from all labels; if they are to be disjoint, from those that others have not drawn.
    """
    rng = np.random.default_rng(0)
    if disjoint:
        columns = np.sort(rng.permutation(c)[: n_leaves * k].reshape(n_leaves, k), axis=1)
    else:
        columns = np.sort(np.stack([rng.choice(c, size=k, replace=False) for _ in range(n_leaves)]), axis=1)
    data = np.full(columns.size, -np.log(k), np.float32)
    table = sp.csr_array((data, columns.ravel(), np.arange(n_leaves + 1) * k), shape=(n_leaves, c))
    leaves = rng.integers(n_leaves, size=n).astype(np.int32)
    labels = columns[leaves, rng.integers(k, size=n)]
    return RandomRoutes(table, leaves), sp.csr_array((np.ones(n, np.float32), labels, np.arange(n + 1)), shape=(n, c))


def seconds_of(head: SGDHead, X: Any, Y: sp.csr_array, routes: Any) -> tuple[float, float]:
    """Return the seconds of one pass, what comes before the first left out, and of predicting all rows."""
    times = []
    for passes in (1, 1 + PASSES):
        start = time.perf_counter()
        head.set_params(passes=passes).fit(X, Y, routes)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    head.topk(X, routes.decided(), 5)
    return (times[1] - times[0]) / PASSES, time.perf_counter() - start


def shape(name: str, share: float, n_jobs: int) -> None:
    X, Y = (dense_data if name == "aloi" else sparse_data)(SHAPES[name].scaled(share))
    k, noise = (25, "sqrt") if name == "aloi" else (4000, "paper")
    start = time.perf_counter()
    tree = SpectralTree(k, noise=noise, n_jobs=n_jobs, random_state=0).fit(X, Y)
    print(f"tree: {time.perf_counter() - start:.0f} s, {tree.leaf_nodes_.size} leaves", file=sys.stderr)
    head: SGDHead
    if name == "aloi":
        head = LowRankHead(50, task="weights", learning_rate=0.3, n_jobs=n_jobs, random_state=0)
    else:
        head = LogisticHead(n_hashed_features=HASHED, n_jobs=n_jobs, random_state=0)
    routes, n = FilterRoutes(tree, X), X.shape[0]
    if name == "lshtc":  # a second table beside the first would not fit
        start = time.perf_counter()
        head.set_params(passes=1).fit(X, Y, routes)
        a_pass = time.perf_counter() - start
    else:
        a_pass, _ = seconds_of(head, X, Y, routes)
    candidates = np.diff(tree.leaf_candidates_.indptr)[tree.route(X)].mean()
    predicted = min(n, 200_000)
    rows = X[:predicted]
    start = time.perf_counter()
    head.topk(rows, tree.route(rows), 5)
    rate = predicted / (time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        "| shape | rows | candidates a row | a pass | rows a second in prediction | peak memory |\n" + "|---" * 6 + "|"
    )
    print(f"| {name} | {n:,} | {candidates:.0f} | {a_pass:.2f} s | {rate:,.0f} | {memory:.1f} GB |")


def labels(n_jobs: int) -> None:
    X, _ = sparse_data(replace(SHAPES["lshtc"], n=100_000, d=100_000, c=10_000))
    print("| leaves, candidates | labels | weights | a pass | prediction |\n|---|---|---|---|---|")
    # Disjoint candidates touch the same pairs whatever c is. Drawn from all labels, they touch more of them the more
    # labels there are, until hardly any two leaves share one.
    for (n_leaves, disjoint), hashed in product(((100, True), (1000, False)), (1024, None)):
        for c in (10_000, 100_000, 1_000_000):
            routes, Y = random_routes(X.shape[0], c, n_leaves, 100, disjoint)
            head = LogisticHead(loss="logistic", n_hashed_features=hashed, n_jobs=n_jobs, random_state=0)
            a_pass, prediction = seconds_of(head, X, Y, routes)
            name = f"hashed to {hashed}" if hashed else f"touched pairs: {head.coef_.nnz / 1e6:.0f}M"
            leaves = f"{n_leaves}, {'disjoint' if disjoint else 'drawn from all'}"
            print(f"| {leaves} | {c:,} | {name} | {a_pass:.2f} s | {prediction:.2f} s |", flush=True)


def grouping(n_jobs: int) -> None:
    X, _ = sparse_data(replace(SHAPES["lshtc"], n=20_000))
    routes, Y = random_routes(X.shape[0], 20_000, 20, 400)
    print("| weights | rows of a leaf together | a pass |\n|---|---|---|")
    for hashed in (HASHED, None):
        for group_rows in (1, 4, 16, 64, 256, 1024):
            # A step for every row, however rows are grouped: the work is the same, and only memory differs.
            head = LogisticHead(loss="logistic", batch_size=1, group_rows=group_rows, n_hashed_features=hashed)
            start = time.perf_counter()
            head.set_params(passes=1, n_jobs=n_jobs, random_state=0).fit(X, Y, routes)
            name = f"hashed to {hashed}" if hashed else "touched pairs"
            print(f"| {name} | {group_rows} | {time.perf_counter() - start:.2f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shape", "labels", "grouping"])
    parser.add_argument("name", nargs="?", choices=["aloi", "lshtc"])
    parser.add_argument("--rows", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(machine(), file=sys.stderr)
    if arguments.what == "shape":
        if arguments.name is None:
            parser.error("shape needs a name")
        shape(arguments.name, arguments.rows, arguments.jobs)
    else:
        {"labels": labels, "grouping": grouping}[arguments.what](arguments.jobs)


if __name__ == "__main__":
    main()
