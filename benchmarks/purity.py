"""The paper's Table 3 on real data: purity of the root's split against random directions.

    python benchmarks/purity.py [--directions 10000] FOLDER ...

FOLDER holds X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz. Rows with several labels are reduced to their first. Every
direction splits the training examples at the median of its margins, and the test examples at the same place.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from timing import machine

from labelprism import _core
from labelprism._arrays import as_csr, csr_parts
from labelprism._progress import ProgressBar
from labelprism._threads import thread_count
from labelprism.filters import SpectralTree

_BLOCK = 16


class Part(NamedTuple):
    """Examples with one label each."""

    X: sp.csr_array
    Y: sp.csr_array


def first_labels(Y: sp.csr_matrix) -> sp.csr_array:
    """Return the label matrix with the first label of each row only; rows without labels stay empty."""
    has_label = np.diff(Y.indptr) > 0
    columns = Y.indices[Y.indptr[:-1][has_label]]
    indptr = np.concatenate([[0], np.cumsum(has_label)])
    return sp.csr_array((np.ones(columns.size, np.float32), columns, indptr), shape=Y.shape)


def load(folder: Path, part: str) -> Part:
    Y = sp.load_npz(folder / f"Y_{part}.npz").tocsr()
    Y.sort_indices()
    return Part(as_csr(normalize(sp.load_npz(folder / f"X_{part}.npz"))), first_labels(Y))


def split_quality(part: Part, margins: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> tuple[Any, Any]:
    """Return purity and balance of several splits; margins (n, width), bias (width,)."""
    right = (margins > bias).astype(np.float32)
    labels = csr_parts(part.Y)
    ones = np.ones(part.Y.shape[0], np.float32)
    to_right = _core.class_sums(labels.indptr, labels.indices, part.Y.shape[1], ones, right, thread_count(-1))
    total = np.bincount(labels.indices, minlength=part.Y.shape[1])[:, None]
    share = right.mean(axis=0, dtype=np.float64)
    return np.maximum(to_right, total - to_right).sum(axis=0, dtype=np.float64) / total.sum(), np.maximum(
        share, 1 - share
    )


def measure(train: Part, test: Part, directions: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return train purity, test purity, train balance and test balance of each direction; directions (d, width)."""
    margins = _core.csr_times_block(*csr_parts(train.X), directions, thread_count(-1))
    bias = np.partition(margins, margins.shape[0] // 2, axis=0)[margins.shape[0] // 2]
    test_margins = _core.csr_times_block(*csr_parts(test.X), directions, thread_count(-1))
    purity, balance = split_quality(train, margins, bias)
    test_purity, test_balance = split_quality(test, test_margins, bias)
    return np.stack([purity, test_purity, balance, test_balance])


def random_directions(train: Part, test: Part, count: int) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(0)
    results = []
    with ProgressBar(count, "random directions", "directions") as bar:
        for _ in range(0, count, _BLOCK):
            directions = rng.standard_normal((train.X.shape[1], _BLOCK), dtype=np.float32)
            results.append(measure(train, test, directions / np.linalg.norm(directions, axis=0)))
            bar.advance(_BLOCK)
    return np.concatenate(results, axis=1)[:, :count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--directions", type=int, default=10_000)
    a = parser.parse_args()
    print(machine())
    print("| data | | spectral root | mean of random | best of random |\n|---|---|---|---|---|")
    for folder in a.folders:
        train, test = load(folder, "trn"), load(folder, "tst")
        tree = SpectralTree(1, 1, n_jobs=-1, random_state=0, weight_threshold=0.0).fit(train.X, train.Y)
        root = measure(train, test, tree.routers_[[0]].T.toarray())[:, 0]
        random = random_directions(train, test, a.directions)
        for row, name in enumerate(("train purity", "test purity")):
            print(f"| {folder.name} | {name} | {root[row]:.1%} | {random[row].mean():.1%} | {random[row].max():.1%} |")
        best = random[:, np.argmax(random[0])]
        print(f"| {folder.name} | train balance | {root[2]:.2%} | {random[2].mean():.2%} | {best[2]:.2%} |")
        print(f"| {folder.name} | test balance | {root[3]:.2%} | {random[3].mean():.2%} | {best[3]:.2%} |")


if __name__ == "__main__":
    main()
