"""What may go wrong on a cluster of programs: workers are killed in every phase, the scheduler dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from chunked_problem import chunked, same_bits, topics
from distributed import Client

from labelprism.distributed import DaskPrismClassifier, spread_growth
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.spread_growth import SpreadLimits
from labelprism.errors import CheckpointError, ClusterError

N_WORKERS = 6  # all but one of them will be killed
CUTS = [0, 1000, 2000, 3000, 4000]
WHOLE = SpreadLimits(chunks_of_rows=1e9)  # no node is spread


def started(program: str, *arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", str(folder / "where.json")]
    with (folder / f"{program}.log").open("ab") as log:
        return subprocess.Popen([*command, *arguments], stdout=log, stderr=log, cwd=folder)


class Programs:
    """A scheduler and workers, each a program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scheduler = started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", folder=folder)
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self) -> None:
        options = ("--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
        self.workers.append(started("worker", *options, folder=self.folder))

    def kill_worker(self, pid: int | None = None) -> None:
        """Kill the worker of a process, or the first one."""
        victim = next(worker for worker in self.workers if pid in (None, worker.pid))
        self.workers.remove(victim)
        victim.send_signal(signal.SIGKILL)
        victim.wait()

    def stop(self) -> None:
        for program in (*self.workers, self.scheduler):
            program.kill()
            program.wait()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    made = Programs(tmp_path_factory.mktemp("programs"))
    for _ in range(N_WORKERS):
        made.add_worker()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def own_client(programs: Programs) -> Iterator[Client]:
    with Client(scheduler_file=str(programs.folder / "where.json"), timeout="60s") as made:
        made.wait_for_workers(N_WORKERS, timeout=120)
        yield made


def trained(client: Any, limits: SpreadLimits) -> DaskPrismClassifier:
    model = DaskPrismClassifier(preset="fast", random_state=0, client=client)
    model._limits = limits
    return model.fit(*(chunked(matrix, CUTS) for matrix in topics(4000, 1)))


@pytest.fixture(scope="module")
def reference(client: Any) -> DaskPrismClassifier:
    """Trained on the other cluster, where nothing goes wrong."""
    return trained(client, SpreadLimits())


@pytest.fixture(scope="module")
def whole_reference(client: Any) -> DaskPrismClassifier:
    """The same, with a tree that is not spread."""
    return trained(client, WHOLE)


def test_tasks_of_single_chunks_give_the_same_bits(
    reference: DaskPrismClassifier, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_growth, "_MOST_ASKED", 0)
    assert same_bits(trained(client, SpreadLimits()), reference)


def test_more_workers_give_the_same_bits(
    reference: DaskPrismClassifier, whole_reference: DaskPrismClassifier, own_client: Client
) -> None:
    assert same_bits(trained(own_client, SpreadLimits()), reference)
    assert same_bits(trained(own_client, WHOLE), whole_reference)


@pytest.mark.parametrize(
    ("phase", "step", "number"),
    [("spread-growth", "gradient", 5), ("subtree-growth", "grow", 1), ("head", "train", 1)],
)
def test_a_killed_worker_changes_nothing(
    phase: str, step: str, number: int, reference: DaskPrismClassifier, programs: Programs, own_client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    submit, seen = Cluster.submit, []

    def submit_and_kill(self: Cluster, *arguments: Any, **options: Any) -> Any:
        future = submit(self, *arguments, **options)
        if arguments[:2] == (phase, step):
            seen.append(future.key)
            if len(seen) == number:
                programs.kill_worker()
        return future

    monkeypatch.setattr(Cluster, "submit", submit_and_kill)
    model = trained(own_client, SpreadLimits())
    assert len(seen) >= number, f"{phase} never came to {step}"
    assert same_bits(model, reference)


def test_a_worker_that_has_the_rows_of_whole_trees_is_killed(
    whole_reference: DaskPrismClassifier, programs: Programs, own_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the stem of the tree, and what has grown below it."""
    submit, submit_all, shares, homes = Cluster.submit, Cluster.submit_all, [], []
    processes = own_client.run(os.getpid)

    def noted(self: Cluster, *arguments: Any, **options: Any) -> Any:
        if arguments[1] == "stem":
            homes.append(options["home"])
        return submit(self, *arguments, **options)

    def submit_and_kill(self: Cluster, *arguments: Any, **options: Any) -> Any:
        futures = submit_all(self, *arguments, **options)
        if arguments[:2] == ("subtree-growth", "grow") and not shares:
            shares.extend(futures)
            shares[0].result(timeout=60)
            programs.kill_worker(processes[homes[0]])
        return futures

    monkeypatch.setattr(Cluster, "submit", noted)
    monkeypatch.setattr(Cluster, "submit_all", submit_and_kill)
    assert same_bits(trained(own_client, WHOLE), whole_reference)
    assert len(shares) > 3


def test_a_worker_killed_in_prediction(reference: DaskPrismClassifier, programs: Programs, own_client: Client) -> None:
    X, _ = topics(4000, 2)
    model = DaskPrismClassifier(client=own_client)
    model.__dict__.update({name: value for name, value in reference.__dict__.items() if name.endswith("_")})
    model._target_format = reference._target_format
    asked = own_client.compute(model.predict_topk(chunked(X, list(range(0, 4001, 100))))[0])
    programs.kill_worker()
    np.testing.assert_array_equal(asked.result(timeout=60), reference.to_local().predict_topk(X)[0])


def test_a_checkpoint_outlives_the_scheduler(
    programs: Programs, own_client: Client, client: Client, reference: DaskPrismClassifier, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The last test that uses the programs: it leaves nothing of them."""
    submit, kept = Cluster.submit, tmp_path / "checkpoint"
    seen: list[str] = []

    def submit_and_kill(self: Cluster, *arguments: Any, **options: Any) -> Any:
        seen.append(arguments[0])
        if arguments[:2] == ("head", "train") and self.client is own_client:
            os.kill(programs.scheduler.pid, signal.SIGKILL)
        return submit(self, *arguments, **options)

    monkeypatch.setattr(Cluster, "submit", submit_and_kill)
    X, Y = (chunked(matrix, CUTS) for matrix in topics(4000, 1))
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}), pytest.raises(ClusterError, match="scheduler"):
        DaskPrismClassifier(preset="fast", random_state=0, client=own_client).fit(X, Y, checkpoint=kept)
    assert "spread-growth" in seen
    assert {"training", "forest", "head"} <= {stage.name for stage in kept.iterdir()}
    seen.clear()
    model = DaskPrismClassifier(preset="fast", random_state=0, client=client).fit(X, Y, checkpoint=kept)
    assert same_bits(model, reference)
    assert "spread-growth" not in seen  # the forest was there


def test_a_checkpoint_keeps_classifiers(
    client: Client, reference: DaskPrismClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = (chunked(matrix, CUTS) for matrix in topics(4000, 1))
    kept = tmp_path / "checkpoint"
    first = DaskPrismClassifier(preset="fast", random_state=0, client=client).fit(X, Y, checkpoint=kept)
    assert same_bits(first, reference)
    shards = sorted(stage.name for stage in kept.iterdir() if stage.name.startswith("head_"))
    assert len(shards) >= 2
    shutil.rmtree(kept / shards[1])
    submit, seen = Cluster.submit, []

    def noted(self: Cluster, *arguments: Any, **options: Any) -> Any:
        seen.append(arguments[:2])
        return submit(self, *arguments, **options)

    monkeypatch.setattr(Cluster, "submit", noted)
    again = DaskPrismClassifier(preset="fast", random_state=0, client=client).fit(X, Y, checkpoint=kept)
    assert same_bits(again, reference)
    assert seen.count(("head", "train")) == 1
    with pytest.raises(CheckpointError, match="random_state was"):
        DaskPrismClassifier(preset="fast", random_state=1, client=client).fit(X, Y, checkpoint=kept)
    other = chunked(topics(4000, 1)[0], [0, 2000, 4000]), chunked(topics(4000, 1)[1], [0, 2000, 4000])
    with pytest.raises(CheckpointError, match="chunks is not the same"):
        DaskPrismClassifier(preset="fast", random_state=0, client=client).fit(*other, checkpoint=kept)


def test_no_client() -> None:
    X, Y = (chunked(matrix, [0, 30]) for matrix in topics(30, 1))
    with pytest.raises(ValueError, match=r"client must be a distributed\.Client"):
        DaskPrismClassifier(client="tcp://nowhere:8786").fit(X, Y)
