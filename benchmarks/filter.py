"""Cost of the spectral tree at the shapes of the paper's Table 1, and what its parameters change.

    python benchmarks/filter.py shape aloi|odp|lshtc|twitter   # root, tree, peak memory, distance to the floor
    python benchmarks/filter.py k                              # tree time against the class budget
    python benchmarks/filter.py weights FOLDER                 # dropping small router weights
    python benchmarks/filter.py bias FOLDER                    # splitting at the median or at 0, side by side; likewise
                                                               # routing, noise, prune, head_labels, macro
    python benchmarks/filter.py scaling [PICTURE]              # tree time against n, c and depth

FOLDER holds X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz. A picture needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from synthetic import SHAPES, Shape, dense_data, sparse_data
from timing import best_of, machine

from labelprism import _core
from labelprism._threads import thread_count
from labelprism.filters import SpectralTree
from labelprism.filters.node import Examples, Features, has_one_label

N_BLOCKS, CG_ITERATIONS = 3, 16  # the defaults
COMPARED: dict[str, tuple[Any, ...]] = {
    "bias": ("median", "zero"),
    "routing": ("fractional", "hard"),
    "noise": ("paper", "sqrt"),
    "prune": ("roulette", "threshold"),
    "head_labels": (0, 20, 100),
    "macro": (False, True),
}
TREES: dict[str, dict[str, Any]] = {
    "aloi": {"n_candidates": 25, "noise": "sqrt"},
    "odp": {"n_candidates": 4000},
    "lshtc": {"n_candidates": 4000},
    "twitter": {"n_candidates": 4000},
}


def make(name: str, shape: Shape) -> tuple[Any, sp.csr_array]:
    return dense_data(shape) if name == "aloi" else sparse_data(shape)


def solve_root(X: Any, Y: sp.csr_array, n_threads: int) -> None:
    n = X.shape[0]
    examples = Examples(np.arange(n, dtype=np.int32), np.ones(n, np.float32), np.array([0, n]))
    settings = _core.SpectralSettings(N_BLOCKS, CG_ITERATIONS, has_one_label(Y), 1e-4, 0)
    Features(X, n_threads).solve_nodes(Y, examples, examples.probability, np.zeros(1, np.int64), settings)


def bandwidth(n_threads: int) -> float:
    """Return the bytes a second at which so many cores together copy memory."""
    parts = [(np.ones(32_000_000, np.float32), np.empty(32_000_000, np.float32)) for _ in range(n_threads)]
    with ThreadPoolExecutor(n_threads) as executor:
        seconds = best_of(lambda: list(executor.map(lambda part: np.copyto(part[1], part[0]), parts)), 5)
    return 2 * n_threads * parts[0][0].nbytes / seconds


def floor(X: Any, Y: sp.csr_array) -> tuple[float, float]:
    """Return the multiply-adds of the root and the bytes that it must move, if every array is streamed once a pass.

    There are 2 N_BLOCKS + 1 products of X or X' with blocks of 8; each reads X, and reads or writes the blocks of the
    rows and of the columns. Two more passes are made with single vectors, for the constraint and for the margins. Where
    rows have several labels, each block takes CG_ITERATIONS products with Y'DY, which read Y and five blocks.
    """
    passes = 2 * N_BLOCKS + 1
    dense = not sp.issparse(X)
    entries, size = (X.size, 4) if dense else (X.nnz, 8)
    steps = 0 if has_one_label(Y) else N_BLOCKS * CG_ITERATIONS
    multiply_adds = (8 * passes + 2) * entries + 16 * (passes + steps) * Y.nnz
    n_bytes = (passes + 2) * entries * size + passes * 32 * sum(X.shape) + steps * (4 * Y.nnz + 5 * 32 * Y.shape[1])
    return multiply_adds, n_bytes


def run_shape(name: str) -> None:
    shape = SHAPES[name].scaled(0.1) if name == "twitter" else SHAPES[name]
    X, Y = make(name, shape)
    nonzeros = X.shape[1] if name == "aloi" else X.nnz / shape.n
    print(
        f"{name}: {shape.n} x {shape.d}, {shape.c} labels, {Y.nnz / shape.n:.2f} a row, {nonzeros:.1f} features a row"
    )
    n_threads = thread_count(-1)
    root = best_of(lambda: solve_root(X, Y, n_threads), 3)
    multiply_adds, n_bytes = floor(X, Y)
    rate = bandwidth(n_threads)
    print(
        f"root {root:.3f} s: {multiply_adds / 1e9:.1f} G multiply-adds ({multiply_adds / root / 1e9:.1f} G/s), "
        f"{n_bytes / 1e9:.2f} GB to move, {n_bytes / rate:.3f} s at {rate / 1e9:.1f} GB/s: "
        f"{root * rate / n_bytes:.1f} times the floor; {1e6 * root / shape.n:.2f} us a row"
    )
    if name == "twitter":
        return
    start = time.perf_counter()
    tree = SpectralTree(max_depth=14, n_jobs=-1, random_state=0, **TREES[name]).fit(X, Y)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"tree {seconds:.1f} s, peak memory {peak:.1f} GB with the data, {tree.routers_.nnz / 1e6:.1f} M router weights"
    )
    print(tree.diagnostics(X, Y))


def run_k() -> None:
    X, Y = sparse_data(SHAPES["odp"].scaled(0.05))
    print(f"tree time against k; {X.shape[0]} x {X.shape[1]}, {Y.shape[1]} labels, depth 8, no early stop")
    for k in (25, 100, 400, 1000, 4000):
        tree = SpectralTree(k, 8, target_recall=1.0, n_jobs=-1, random_state=0)
        print(f"k = {k:5}: {best_of(lambda tree=tree: tree.fit(X, Y), 2):6.2f} s, {tree.leaf_nodes_.size} leaves")


def load(folder: str) -> tuple[Any, Any, Any, Any]:
    X, Y, X_test, Y_test = (sp.load_npz(Path(folder) / f"{n}.npz") for n in ("X_trn", "Y_trn", "X_tst", "Y_tst"))
    return normalize(X), Y, normalize(X_test), Y_test


def compare(parameter: str, folder: str) -> None:
    X, Y, X_test, Y_test = load(folder)
    print(f"{Path(folder).name}: {parameter}; k = 200, depth 14")
    for value in COMPARED[parameter]:
        start = time.perf_counter()
        tree = SpectralTree(200, 14, n_jobs=-1, random_state=0, **{parameter: value}).fit(X, Y)
        seconds = time.perf_counter() - start
        numbers = tree.diagnostics(X, Y, (X_test, Y_test))
        inner = tree.children_ >= 0
        balance = np.average(numbers.balance[inner], weights=tree.mass_[inner])
        print(f"{value!s:10} {seconds:5.1f} s, balance {numbers.balance[0]:.3f}, mean {balance:.3f}; {numbers}")


def run_weights(folder: str) -> None:
    X, Y, X_test, Y_test = load(folder)
    print(f"{Path(folder).name}: recall and size against the threshold under which router weights are dropped")
    for threshold in (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1):
        tree = SpectralTree(200, 14, weight_threshold=threshold, n_jobs=-1, random_state=0).fit(X, Y)
        recall = tree.diagnostics(X, Y, (X_test, Y_test)).holdout_recall
        print(f"{threshold:7}: {tree.routers_.nnz / 1e6:7.2f} M weights, hold-out recall {100 * recall:.2f}%")


def time_tree(shape: Shape, depth: int) -> float:
    X, Y = sparse_data(shape)
    start = time.perf_counter()
    SpectralTree(100, depth, target_recall=1.0, n_jobs=-1, random_state=0).fit(X, Y)
    return time.perf_counter() - start


def run_scaling(picture: str | None) -> None:
    base = Shape(100_000, 100_000, 20_000, 1.5, 30)
    curves = {
        "rows (thousands)": [
            (n // 1000, time_tree(replace(base, n=n), 8)) for n in (25_000, 50_000, 100_000, 200_000, 400_000)
        ],
        "labels (thousands)": [
            (c // 1000, time_tree(replace(base, c=c), 8)) for c in (5_000, 10_000, 20_000, 40_000, 80_000, 160_000)
        ],
        "depth": [(depth, time_tree(base, depth)) for depth in (2, 4, 8, 12, 16)],
    }
    for name, points in curves.items():
        slope = np.polyfit(*np.log(np.array(points)).T, 1)[0]
        print(f"{name:20} exponent {slope:.2f}: " + ", ".join(f"{x}: {y:.2f} s" for x, y in points))
    if picture:
        draw(curves, picture)


def draw(curves: dict[str, list[tuple[int, float]]], picture: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, (name, points) in zip(axes, curves.items(), strict=True):
        x, y = np.array(points).T
        slope, shift = np.polyfit(np.log(x), np.log(y), 1)
        axis.loglog(x, y, "o", color="#1f5a99")
        axis.loglog(x, np.exp(shift) * x**slope, "--", color="#999999", label=f"exponent {slope:.2f}")
        axis.set_xlabel(name)
        axis.set_xticks(x, [f"{value:g}" for value in x])
        axis.minorticks_off()
        axis.legend(frameon=False)
    axes[0].set_ylabel("seconds to grow the tree")
    axes[0].set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
    figure.savefig(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shape", "k", "weights", "scaling", *COMPARED])
    parser.add_argument("argument", nargs="?")
    a = parser.parse_args()
    print(machine(), file=sys.stderr)
    actions = {
        "shape": lambda: run_shape(a.argument),
        "k": run_k,
        "weights": lambda: run_weights(a.argument),
        "scaling": lambda: run_scaling(a.argument),
    }
    if a.what in COMPARED:
        compare(a.what, a.argument)
    else:
        actions[a.what]()


if __name__ == "__main__":
    main()
