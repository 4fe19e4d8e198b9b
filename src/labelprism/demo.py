"""`make demo`: what the library can do, on the embedded data set, in under a minute.

F is the spectral label tree: it picks 200 candidates of 14,905 subjects for a test artwork. Until the library has a
classifier of its own, the artworks whose texts are nearest stand in for H: each votes with its cosine for those of its
own subjects that are candidates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp

from labelprism import _core, metrics
from labelprism._arrays import as_csr, csr_parts
from labelprism._progress import ProgressBar
from labelprism._threads import thread_count
from labelprism.data import Dataset, load_tate
from labelprism.features import TextHasher, Tfidf
from labelprism.filters import SpectralTree

N_NEIGHBOURS = 40
N_CANDIDATES = 200
N_RANKED = 10
N_SHOWN = 3
_ROWS_PER_BLOCK = 16


def nearest_rows(index: sp.csr_array, queries: sp.csr_array, k: int, n_threads: int) -> sp.csr_array:
    """Return the cosines of the k rows of `index` (n, d) nearest to each of `queries` (m, d), as CSR (m, n)."""
    parts = csr_parts(index)
    found = []
    with ProgressBar(queries.shape[0], "finding neighbours", "rows", delay=0) as bar:
        for begin in range(0, queries.shape[0], _ROWS_PER_BLOCK):
            block = np.ascontiguousarray(queries[begin : begin + _ROWS_PER_BLOCK].T.toarray())
            cosines = _core.csr_times_block(*parts, block, n_threads)
            found.append(_core.top_k_dense(np.ascontiguousarray(cosines.T), k, n_threads))
            bar.advance(block.shape[1])
    columns, cosines = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    rows = np.repeat(np.arange(columns.shape[0]), k)
    return sp.csr_array((cosines.ravel(), (rows, columns.ravel())), shape=(queries.shape[0], index.shape[0]))


def among(votes: sp.csr_array, candidates: sp.csr_array) -> sp.csr_array:
    """Return the votes for candidates only; stored entries are the candidates, whatever their values."""
    ones = np.ones(candidates.nnz, np.float32)
    mask = sp.csr_array((ones, candidates.indices, candidates.indptr), shape=candidates.shape)
    return as_csr(votes.multiply(mask))


def show_examples(test: Dataset, predicted: np.ndarray, seed: int = 3) -> None:
    """Print a few test artworks with what was suggested and what is true."""
    assert test.texts is not None
    for row in np.random.default_rng(seed).choice(test.n_rows, N_SHOWN, replace=False):
        true = test.Y.indices[test.Y.indptr[row] : test.Y.indptr[row + 1]]
        suggested = [f"{'*' if label in true else ' '}{name}" for label, name in named(test, predicted[row, :8])]
        print(f"\n  {test.texts[row][:150]}")
        print(f"    suggested  {' | '.join(suggested)}   (* is right)")
        print(f"    true       {' | '.join(name for _, name in named(test, true))}")


def named(data: Dataset, labels: np.ndarray) -> list[tuple[int, str]]:
    """Return labels with their names; -1, where nothing was suggested, is left out."""
    assert data.label_names is not None
    return [(int(label), data.label_names[label]) for label in labels if label >= 0]


@contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    """Record the seconds that the block takes."""
    start = time.perf_counter()
    yield
    times[name] = time.perf_counter() - start


def main() -> None:
    """Grow a tree over the training artworks, suggest subjects for the others, and print how good they are."""
    n_threads = thread_count(-1)
    times: dict[str, float] = {}
    with timed(times, "read the data"):
        train, test = load_tate()
    assert train.texts is not None
    assert test.texts is not None
    print(f"Tate collection: {train.n_rows} artworks to learn from, {test.n_rows} to test, {train.n_labels} subjects")
    hasher, weights = TextHasher(n_bits=16, n_jobs=-1), Tfidf()
    with timed(times, "train"):
        index = as_csr(weights.fit_transform(hasher.fit_transform(train.texts)))
        tree = SpectralTree(N_CANDIDATES, n_jobs=-1, random_state=0).fit(index, train.Y)
    with timed(times, "predict"):
        queries = as_csr(weights.transform(hasher.transform(test.texts)))
        candidates = tree.candidates(queries)
        votes = nearest_rows(index, queries, N_NEIGHBOURS, n_threads) @ train.Y
        predicted, _ = _core.top_k_csr(*csr_parts(among(votes, candidates)), N_RANKED, n_threads)
    scores = metrics.evaluate(test.Y, predicted, train.Y)
    parts = (index, train.Y, tree.routers_, tree.leaf_candidates_)
    model_bytes = sum(array.nbytes for matrix in parts for array in csr_parts(matrix))
    rows = [(f"seconds to {name}", f"{seconds:.1f}") for name, seconds in times.items()]
    rows += [(name, f"{100 * scores[name]:.1f}") for name in ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")]
    rows.append((f"filter recall@{N_CANDIDATES}", f"{100 * metrics.filter_recall(test.Y, candidates):.1f}"))
    rows.append(("model size, MB", f"{model_bytes / 1e6:.0f}"))
    print("\n".join(f"  {name:38}{value:>8}" for name, value in rows))
    show_examples(test, predicted)


if __name__ == "__main__":
    main()
