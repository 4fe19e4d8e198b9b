"""Speed of the sparse text parser against scikit-learn's `load_svmlight_file`, both on one core.

python benchmarks/parser.py [--rows 40000]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from timing import best_of, machine

from labelprism.data import Dataset, read_svmlight, write_svmlight


def random_dataset(rows: int, nonzeros: int, features: int = 200_000, labels: int = 30_000) -> Dataset:
    rng = np.random.default_rng(0)
    X = sp.random_array((rows, features), density=nonzeros / features, rng=rng, dtype=np.float32).tocsr()
    Y = sp.random_array((rows, labels), density=5 / labels, rng=rng, dtype=np.float32).tocsr()
    Y.data[:] = 1
    return Dataset(X=X, Y=Y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    rows = parser.parse_args().rows
    print(machine())
    print(f"{'values':24}{'MB':>8}{'sklearn s':>12}{'labelprism s':>14}{'MB/s':>8}{'ratio':>8}")
    data = random_dataset(rows, 75)
    assert data.X is not None
    for name, values in (
        ("as float32 prints", data.X.data),
        ("4 decimals", data.X.data.round(4)),
        ("counts", np.ceil(9 * data.X.data)),
    ):
        X = sp.csr_array((values, data.X.indices, data.X.indptr), shape=data.X.shape)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.txt"
            write_svmlight(Dataset(X=X, Y=data.Y), path, zero_based=True)
            theirs = best_of(lambda path=path: load_svmlight_file(str(path), multilabel=True, zero_based=True), 3)
            ours = best_of(lambda path=path: read_svmlight(path, zero_based=True), 5)
            size = path.stat().st_size / 1e6
        print(f"{name:24}{size:8.0f}{theirs:12.2f}{ours:14.3f}{size / ours:8.0f}{theirs / ours:8.1f}")


if __name__ == "__main__":
    main()
