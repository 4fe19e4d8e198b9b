"""What a Dask cluster costs: training on 1 and 2 workers of one thread beside the local classifier on 1 and 2 threads.

    python benchmarks/cluster.py FOLDER ... [--chunks 8] [--workers 1 2] [--spread] [--repeat 3]
    python benchmarks/cluster.py --paper FOLDER      # what 10 and 100 machines would need, from these numbers

FOLDER holds X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz; "synthetic" stands for 100,000 rows that are made here, a
tenth of them to test with, "synthetic-N" for N of them. Wall
seconds are the least of several runs, in turn, so that other work on the machine meets all alike; CPU seconds are those
of the workers, or of the local training, and say what the machine would do if it had nothing else to do. `--spread`
keeps nodes spread however small the data.

The file is not called distributed.py: whoever has this folder in sys.path would find it in place of Dask's package.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait
from synthetic import Shape, sparse_data
from timing import machine

from labelprism import PrismClassifier, metrics
from labelprism.distributed import DaskPrismClassifier
from labelprism.distributed.label_shards import range_count
from labelprism.distributed.spread_growth import SpreadLimits

_ROWS, _LABELS, _FEATURES = 10**9, 10**6, 10**6  # of the data on paper
_ENTRIES, _PER_ROW = 50, 60  # features of a row, and its labels and candidates
_CORES, _BYTES_PER_SECOND = 32, 10e9 / 8  # of a machine
_MEMORY, _CHUNK_BYTES = 2e11, 2e8
_SYNTHETIC = Shape(100_000, 5_000, 1_000, 2.0, 60)  # X is large against a block of its features
_EFFICIENCY = 0.7  # of the network, and of tasks that wait for the last


class Run(NamedTuple):
    """Wall seconds, CPU seconds, wall seconds by stage, and the model."""

    wall: float
    cpu: float
    stages: dict[str, float]
    model: Any


def read(folder: Path) -> dict[str, sp.csr_array]:
    name, _, n_rows = str(folder).partition("-")
    if name == "synthetic":
        X, Y = sparse_data(replace(_SYNTHETIC, n=int(n_rows or _SYNTHETIC.n)))
        n = 9 * X.shape[0] // 10
        return {"X_trn": X[:n], "Y_trn": Y[:n], "X_tst": X[n:], "Y_tst": Y[n:]}
    parts = ("X_trn", "Y_trn", "X_tst", "Y_tst")
    return {part: sp.csr_array(sp.load_npz(folder / f"{part}.npz"), dtype=np.float32) for part in parts}


def chunked(matrix: sp.csr_array, n_chunks: int) -> Any:
    cuts = np.linspace(0, matrix.shape[0], n_chunks + 1).astype(int)
    blocks = [sp.csr_matrix(matrix[a:b]) for a, b in pairwise(cuts)]
    meta = sp.csr_matrix((0, 0), dtype=matrix.dtype)
    return da.concatenate([da.from_delayed(dask.delayed(b), b.shape, matrix.dtype, meta) for b in blocks])


@contextmanager
def cluster(n_workers: int) -> Iterator[Client]:
    made = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0")
    with made, Client(made, direct_to_workers=True) as client:  # the model comes without a detour by the scheduler
        yield client


def local_run(data: dict[str, sp.csr_array], n_jobs: int) -> Run:
    cpu, since = time.process_time(), time.perf_counter()
    model = PrismClassifier(random_state=0, n_jobs=n_jobs).fit(data["X_trn"], data["Y_trn"])
    wall, cpu = time.perf_counter() - since, time.process_time() - cpu
    return Run(wall, cpu, dict(model.recipe_.stage_seconds_), model)


class OnCluster:
    """The data on a cluster, ready to be trained on."""

    def __init__(self, client: Client, data: dict[str, sp.csr_array], n_chunks: int, spread: bool) -> None:
        self.client = client
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            self.X, self.Y = client.persist([chunked(data[part], n_chunks) for part in ("X_trn", "Y_trn")])
        wait([self.X, self.Y])
        self.limits = SpreadLimits(traffic=1e9) if spread else SpreadLimits()
        self.run()  # workers load the library

    def run(self) -> Run:
        """Train once."""
        model = DaskPrismClassifier(random_state=0, client=self.client)
        model._limits = self.limits
        cpu, since = self._cpu(), time.perf_counter()
        model.fit(self.X, self.Y)
        wall, cpu = time.perf_counter() - since, self._cpu() - cpu
        return Run(wall, cpu, dict(model.recipe_.stage_seconds_), model)

    def _cpu(self) -> float:
        """Return the CPU seconds of all workers."""
        return float(sum(self.client.run(time.process_time).values()))


def least(runs: list[Run]) -> Run:
    return min(runs, key=lambda run: run.wall)


def worth(model: PrismClassifier, data: dict[str, sp.csr_array]) -> str:
    labels, _ = model.predict_topk(data["X_tst"], 5)
    points = [100 * metrics.precision_at_k(data["Y_tst"], labels, k) for k in (1, 3, 5)]
    found = model.candidates(data["X_tst"])
    offered = sp.csr_array((np.ones(found.nnz), found.indices, found.indptr), shape=found.shape)
    recall = 100 * offered.multiply(data["Y_tst"] != 0).sum() / data["Y_tst"].nnz
    return f"{points[0]:.2f} / {points[1]:.2f} / {points[2]:.2f}, recall {recall:.2f}"


def compare(folder: Path, n_chunks: int, n_workers: list[int], spread: bool, repeat: int) -> None:
    data = read(folder)
    size = 8 * data["X_trn"].nnz
    print(f"\n{folder.name}: {data['X_trn'].shape[0]} rows, X of {size / 1e6:.1f} MB, {n_chunks} chunks")
    with ExitStack() as clusters:
        on = {n: OnCluster(clusters.enter_context(cluster(n)), data, n_chunks, spread) for n in n_workers}
        runs: dict[tuple[str, int], list[Run]] = {}
        for _ in range(repeat):
            for n in n_workers:
                runs.setdefault(("local", n), []).append(local_run(data, n))
                runs.setdefault(("dask", n), []).append(on[n].run())
        for (where, n), own in runs.items():
            best = least(own)
            ratio = best.wall / least(runs["local", n]).wall
            cpu = min(run.cpu for run in own) / min(run.cpu for run in runs["local", n])
            stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in best.stages.items())
            spent = f"CPU {min(run.cpu for run in own):.2f} s, x {cpu:.2f}"
            print(f"| {where} {n} | {best.wall:.2f} s, x {ratio:.2f} | {spent} | {stages} |")
        for where in ("local", "dask"):
            print(f"P@1 / P@3 / P@5, {where}: {worth(least(runs[where, n_workers[-1]]).model, data)}")
        sent = least(runs["dask", n_workers[-1]]).model.bytes_sent_
        print("bytes, in X: " + ", ".join(f"{phase} {n / size:.2f}" for phase, n in sent.items() if n > 0.005 * size))


def on_paper(folder: Path) -> None:
    """Print what 10 and 100 machines would need for 10^9 rows and 10^6 labels, by measured seconds and bytes."""
    data = read(folder)
    runs = [local_run(data, 1) for _ in range(3)]
    stage = {name: min(run.stages[name] for run in runs) for name in runs[0].stages}
    n, entries = data["X_trn"].shape[0], data["X_trn"].nnz
    levels, levels_there = (math.log2(rows / 50) for rows in (n, _ROWS))
    size = 8.0 * _ROWS * _ENTRIES
    seconds = {  # of one core
        "forest": stage["forest"] / entries / levels * _ROWS * _ENTRIES * levels_there,
        "centroids": stage["centroids"] / entries * _ROWS * _ENTRIES,
        "candidates": stage["candidates"] / n * _ROWS * levels_there / levels,
        "head": stage["head"] / entries * _ROWS * _ENTRIES,
    }
    print(f"from {folder.name}, one thread: " + ", ".join(f"{name} {stage[name]:.2f} s" for name in seconds))
    n_chunks, n_trees = size / _CHUNK_BYTES, 3
    spread_levels = math.log2(n_chunks / SpreadLimits().chunks_of_rows)
    for machines in (10, 100):
        n_ranges = range_count(machines, int(size), _PER_ROW, 0.2 * _MEMORY)
        traffic = {
            "forest": n_trees * (SpreadLimits().traffic + 1.2) * size,
            "centroids": 0.5 * size,
            "candidates": machines * 1e10,  # forest, centroids and votes go to every machine
            "head": size * n_ranges * (1 - (1 - 1 / n_ranges) ** _PER_ROW),  # to where its candidates and labels are
        }
        print(
            f"{machines} machines of {_CORES} cores, {n_chunks:.0f} chunks, at most {spread_levels:.0f} spread levels, "
            f"{n_ranges} ranges of labels:"
        )
        total = 0.0
        for name, work in seconds.items():
            computing = work / machines / _CORES / _EFFICIENCY
            sending = traffic[name] / machines / _BYTES_PER_SECOND / _EFFICIENCY
            total += computing + sending
            print(f"| {name} | {computing / 60:.0f} min | {traffic[name] / 1e12:.1f} TB | {sending / 60:.0f} min |")
        print(f"| all | {total / 3600:.1f} h |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--paper", action="store_true")
    options = parser.parse_args()
    print(machine())
    for one_folder in options.folders:
        if options.paper:
            on_paper(one_folder)
        else:
            compare(one_folder, options.chunks, options.workers, options.spread, options.repeat)
