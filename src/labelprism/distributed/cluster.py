"""A Dask cluster as training sees it: pure tasks with names that tell the phase, and errors that tell what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from distributed import Client, KilledWorker, as_completed, default_client
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError

from labelprism._progress import ProgressBar
from labelprism.distributed.sizes import size_of
from labelprism.distributed.sums import FAN_IN, added
from labelprism.distributed.traffic import PHASES, TrafficCounter, received_bytes, task_name
from labelprism.errors import ClusterError


class Group(NamedTuple):
    """Some of many futures, by number, and the address of the worker that has them, where that is known."""

    home: str | None
    numbers: list[int]


class Cluster:
    """The tasks of one training.

    Every task is a pure function of others and of small arguments: Dask can make anew whatever a worker took with it
    when it died, from the blocks of the user's own arrays on.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.token = f"{uuid4().int % 10**12:012d}"  # digits alone: the dashboard leaves them out of the name
        self._n_tasks = 0
        self._fetched: dict[str, int] = {}
        self._counter: TrafficCounter | None = None
        self._homes: dict[Any, str] = {}

    def submit(
        self, phase: str, step: str, function: Callable[..., Any], *arguments: Any, first: bool = False,
        last: bool = False, home: str | Sequence[str] | None = None,
    ) -> Any:  # fmt: skip
        """Return the future of a task.

        Tasks whose first argument is settled (see `settle`) run where it is, as long as that worker lives.

        Parameters
        ----------
        phase, step : see `traffic.task_name`
        function : callable
            Pure.
        *arguments
            Futures, lists of them, and small values.
        first : bool
            Whether others wait for it, so that it goes before those.
        last : bool
            Whether nobody waits for it yet, so that it goes when a worker has nothing else to do.
        home : str or sequence of str, optional
            The address of the worker that should run it, or of those of which one should.
        """
        home = home or (self.home_of(arguments[0]) if arguments else None)
        options = {**_place(home), "priority": int(first) - int(last)}
        return self.client.submit(function, *arguments, key=self._name(phase, step), pure=False, **options)

    def submit_all(
        self, phase: str, step: str, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]],
        home: Sequence[str] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Return the futures of many tasks of a kind. The scheduler gets them together, which costs half as much.

        Parameters
        ----------
        phase, step, function : see `submit`
        tasks : sequence of tuples
            The arguments of each.
        home : sequence of str, optional
            The addresses of workers of which one should run a task; that of its first argument when left out.
        """
        by_home: dict[str | None, list[int]] = {}
        for number, arguments in enumerate(tasks):
            by_home.setdefault(None if home else self.home_of(arguments[0]), []).append(number)
        futures: dict[int, Any] = {}
        for settled, own in by_home.items():
            names = [self._name(phase, step) for _ in own]
            columns = zip(*(tasks[number] for number in own), strict=True)
            made = self.client.map(function, *columns, key=names, pure=False, **_place(home or settled))
            futures |= dict(zip(own, made, strict=True))
        return [futures[number] for number in range(len(tasks))]

    def _name(self, phase: str, step: str) -> str:
        self._n_tasks += 1
        return task_name(phase, step, self.token, self._n_tasks)

    def homes(self, futures: Sequence[Any]) -> list[str | None]:
        """Return the addresses of workers that have results; None where there is no such result yet."""
        with readable_errors():
            holders = self.client.who_has(futures)
        return [min(holders.get(future.key) or [None], key=str) for future in futures]

    def settle(self, futures: Sequence[Any], homes: Sequence[str | None]) -> None:
        """Let tasks of large results run at given addresses."""
        self._homes |= {future.key: home for future, home in zip(futures, homes, strict=True) if home is not None}

    def home_of(self, argument: Any) -> str | None:
        """Return the address where a future is settled; None of other values."""
        return self._homes.get(getattr(argument, "key", None))

    def groups(self, futures: Sequence[Any]) -> list[Group]:
        """Return settled futures in groups, each for one task, which asks all of them where they are.

        What is asked of a small chunk takes no longer than a task does, so that there are no more tasks than threads.
        """
        by_home: dict[str | None, list[int]] = {}
        for number, future in enumerate(futures):
            by_home.setdefault(self.home_of(future), []).append(number)
        threads = self.threads()
        return [
            Group(home, part.tolist())
            for home, own in by_home.items()
            for part in np.array_split(own, min(threads.get(home, 1), len(own)))
        ]

    def total(self, phase: str, step: str, parts: Sequence[Any]) -> Any:
        """Return the future of the sum of the results of many tasks; see `sums.added`."""
        return self.subtotals(phase, step, parts, 1)[0]

    def subtotals(self, phase: str, step: str, parts: Sequence[Any], most: int = FAN_IN) -> list[Any]:
        """Return the futures of a few sums, which `sums.added` makes one of."""
        parts = list(parts)
        while len(parts) > most:
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [
                self.submit(phase, f"{step}-sum", added, group) if len(group) > 1 else group[0] for group in groups
            ]
        return parts

    def fetch(self, phase: str, futures: Any) -> Any:
        """Return the results of futures, in any nesting of lists; they come to this process."""
        with readable_errors():
            results = self.client.gather(futures)
        self._fetched[phase] = self._fetched.get(phase, 0) + size_of(results)
        return results

    def watch(self, futures: Sequence[Any], description: str, unit: str = "tasks") -> None:
        """Wait for tasks with a progress bar."""
        with ProgressBar(len(futures), description, unit) as bar, readable_errors():
            for future in as_completed(futures):
                future.result() if future.status == "error" else None
                if future.cancelled():
                    raise FutureCancelledError(future.key, "cancelled", "scheduler-connection-lost")
                bar.advance()

    def workers(self) -> dict[str, float]:
        """Return the addresses of the workers that there are now, sorted, and the bytes of their memory."""
        found = self._workers()
        return {address: float(found[address]["memory_limit"] or math.inf) for address in sorted(found)}

    def threads(self) -> dict[str | None, int]:
        """Return the addresses of the workers that there are now, and how many threads each has."""
        return {address: int(worker["nthreads"]) for address, worker in self._workers().items()}

    def _workers(self) -> dict[str, Any]:
        with readable_errors():
            # Not `client.scheduler_info`: what it returns is replaced every two seconds by a summary without workers.
            found: dict[str, Any] = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        if not found:
            raise ClusterError("the Dask cluster has no workers; start some, as with the program `dask worker`")
        return found

    @contextmanager
    def counted(self, inputs: frozenset[str] = frozenset()) -> Iterator[None]:
        """Count the bytes that travel while the block runs.

        Parameters
        ----------
        inputs : frozenset of str
            The names of the blocks of X and y.
        """
        self._counter = TrafficCounter(self.token, inputs)
        with readable_errors():
            self.client.register_plugin(self._counter)
        try:
            yield
        except ClusterError:  # nobody may be there to be asked
            raise
        except BaseException:
            self._stop_counting()
            raise
        self._stop_counting()

    def _stop_counting(self) -> None:
        assert self._counter is not None
        with readable_errors():
            self.client.unregister_worker_plugin(self._counter.name)

    def traffic(self) -> dict[str, int]:
        """Return the bytes that workers received from each other, and this process from them, by phase."""
        assert self._counter is not None
        with readable_errors():
            by_worker = self.client.run(received_bytes, self._counter.name, on_error="ignore")
        totals = dict.fromkeys(PHASES, 0) | self._fetched
        for received in by_worker.values():
            for phase, size in received.items():
                totals[phase] = totals.get(phase, 0) + size
        return totals


def _place(home: str | Sequence[str] | None) -> dict[str, Any]:
    """Return where a task should run, as Dask wants to be told."""
    if home is None:
        return {}
    return {"workers": [home] if isinstance(home, str) else list(home), "allow_other_workers": True}


def found_client(client: Any) -> Any:
    """Return the client that was given, or that of the surrounding program.

    Parameters
    ----------
    client : distributed.Client or None
    """
    if client is None:
        try:
            client = default_client()
        except ValueError as error:
            raise ClusterError(
                "there is no Dask client; make one, as distributed.Client('tcp://scheduler:8786'), or give client="
            ) from error
    if not isinstance(client, Client):
        raise ValueError(f"client must be a distributed.Client, got {client!r}")
    if client.asynchronous:
        raise ValueError("client is asynchronous; training waits for results, so give a plain Client")
    if client.status != "running":
        raise ClusterError(f"the Dask client is {client.status}; connect a new one to the scheduler")
    return client


@contextmanager
def readable_errors() -> Iterator[None]:
    """Say what a failure of the cluster means; errors of the data and of the settings stay as they are."""
    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"the workers that ran {error.task} died, one after the other; they may be short of memory: "
            "give them more, or smaller chunks. Their logs tell more"
        ) from error
    except (FutureCancelledError, CommClosedError, TimeoutError) as error:
        if "lost dependencies" in str(error):
            raise ClusterError(
                "blocks of X or y are gone, and nobody knows how to make them again: they were scattered to a worker "
                f"that died, or are those of another client. Give arrays that Dask can compute ({error})"
            ) from error
        raise ClusterError(
            "the connection to the Dask scheduler was lost, and with it all that was computed; see that the scheduler "
            f"runs, connect a new Client and fit again ({error})"
        ) from error
