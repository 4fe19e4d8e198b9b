"""Speed of the block products against scipy, and against the bytes they must move.

    python benchmarks/kernels.py

A product reads every entry of X (8 bytes) and, for each, one row of the block (4 * width bytes); `GB/s` is the sum of
both over the time. Rows of a block that fits the cache cost less than memory would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from timing import best_of, machine

from labelprism import _core
from labelprism._arrays import as_csr, csr_parts


def power_law_matrix(n: int, d: int, nonzeros: int, seed: int = 0) -> sp.csr_array:
    """Random rows whose features are as unevenly frequent as words are."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d ** rng.random((n, nonzeros)) - 1).astype(np.int64), d - 1)
    rows = np.repeat(np.arange(n), nonzeros)
    return as_csr(sp.csr_array((rng.random(rows.size, dtype=np.float32), (rows, columns.ravel())), shape=(n, d)))


def products(X: sp.csr_array, width: int) -> Iterator[tuple[str, Callable[[], object], Callable[[int], object]]]:
    """Yield the name of a product, scipy's way and ours."""
    parts, (n, d) = csr_parts(X), X.shape
    right, left = np.ones((d, width), np.float32), np.ones((n, width), np.float32)
    yield "X B", lambda: X @ right, lambda threads: _core.csr_times_block(*parts, right, threads)
    yield "X' B", lambda: X.T @ left, lambda threads: _core.csr_transposed_times_block(*parts, d, left, threads)


def measure(ours: Callable[[int], object], threads: int, n_bytes: int) -> str:
    seconds = best_of(lambda: ours(threads))
    return f"{seconds:11.3f} ({n_bytes / seconds / 1e9:4.1f})"


def main() -> None:
    print(machine())
    for n, d, nonzeros in ((200_000, 50_000, 40), (200_000, 1_000_000, 40)):
        X = power_law_matrix(n, d, nonzeros)
        print(f"\n{n} x {d}, {X.nnz / n:.0f} entries a row; seconds (GB/s)")
        print(f"{'product':12}{'width':>6}{'scipy':>10}", end="")
        print("".join(f"{name + ' x' + str(t):>18}" for name in _core.instruction_sets() for t in (1, 2)))
        for width in (8, 16):
            for name, theirs, ours in products(X, width):
                print(f"{name:12}{width:6}{best_of(theirs, 3):10.3f}", end="")
                for instruction_set in _core.instruction_sets():
                    _core.use_instruction_set(instruction_set)
                    for threads in (1, 2):
                        print(measure(ours, threads, X.nnz * (8 + 4 * width)), end="")
                print()


if __name__ == "__main__":
    main()
