"""What all protocols share: from rows to rankings, within the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from labelprism.serve.batching import Batcher, Job
from labelprism.serve.bodies import BodyReader
from labelprism.serve.errors import RequestError, busy, invalid
from labelprism.serve.metrics import ServerMetrics
from labelprism.serve.models import ModelStore
from labelprism.serve.served_model import Ranking, Rows, ServedModel
from labelprism.serve.settings import ServeSettings
from labelprism.serve.sparse_rows import SparseRows
from labelprism.serve.time_limits import TimeLimits

Result = TypeVar("Result")

_MOST_SLOW = 32  # explanations and the like, waiting for their turn


class Service:
    """Models, queues and limits of one worker.

    Parameters
    ----------
    settings : ServeSettings
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.metrics = ServerMetrics()
        self.models = ModelStore(
            settings.models, settings.threads, self.metrics.model_changed, self.metrics.reload_failed
        )
        self.limits = TimeLimits(settings.timeout_s)
        self.bodies = BodyReader(settings.max_body, self.limits)
        self._thread = ThreadPoolExecutor(1, "labelprism-batches")
        self._slow_thread = ThreadPoolExecutor(1, "labelprism-explanations")
        self._n_slow = 0
        self._batchers = {name: self._batcher(name) for name in settings.models}
        self.metrics.watch_queue(lambda: sum(batcher.n_rows for batcher in self._batchers.values()))

    def _batcher(self, name: str) -> Batcher:
        return Batcher(
            lambda: self.models[name], self._thread, self.settings.max_queue, self.metrics.batch_observer(name)
        )

    async def rank(self, name: str, rows: Rows, k: int, likely: bool = False) -> tuple[Ranking, ServedModel]:
        """Return the k best labels of rows, and the model that found them.

        Parameters
        ----------
        name : str
            Of a model that is there.
        rows : list of n str, or n SparseRows
        k : int
        likely : bool
            Whether scores are to be probabilities.
        """
        job = Job(rows, k, likely, self.settings.deadline_ms / 1000)
        with self.limits.limited(_timed_out):
            return await self._batchers[name].submit(job)

    async def slowly(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return what a function returns that takes milliseconds, computed apart from the rankings."""
        if self._n_slow >= _MOST_SLOW:
            raise busy(429, "queue_full", f"{self._n_slow} explanations wait already; try again later")
        self._n_slow += 1
        try:
            with self.limits.limited(_timed_out):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._slow_thread, function, *arguments)
        finally:
            self._n_slow -= 1

    # ---------------------------------------------------------------------------------------------------- checked input

    def check_k(self, k: int) -> None:
        """Refuse more labels than are allowed."""
        if k > self.settings.max_k:
            raise invalid(f"k is {k}, at most {self.settings.max_k} labels are given (--max-k)", "k")

    def check_count(self, n_rows: int, at: str) -> None:
        """Refuse more rows than are allowed."""
        if n_rows > self.settings.max_rows:
            raise invalid(f"{n_rows} rows, at most {self.settings.max_rows} may come at once (--max-rows)", at)

    def matrix(self, model: ServedModel, rows: Sequence[tuple[list[int], list[float]]], at: str = "rows") -> SparseRows:
        """Return rows as a matrix, after a look at every index and value.

        Parameters
        ----------
        model : ServedModel
        rows : sequence of (indices, values)
        at : str
            What the request calls them.

        Returns
        -------
        SparseRows
        """
        for number, (indices, values) in enumerate(rows):
            place = f"{at}.{number}"
            if len(indices) != len(values):
                message = f"row {number} has {len(indices)} indices and {len(values)} values; they must be as many"
                raise invalid(message, place)
            if len(indices) > self.settings.max_features:
                limit = self.settings.max_features
                message = f"row {number} has {len(indices)} entries, at most {limit} may come (--max-features)"
                raise invalid(message, place)
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(indices) for indices, _ in rows], out=indptr[1:])
        all_indices = np.concatenate([np.zeros(0, np.int64), *(np.asarray(part, np.int64) for part, _ in rows)])
        all_values = np.concatenate([np.zeros(0, np.float64), *(np.asarray(part, np.float64) for _, part in rows)])
        return checked_matrix(model, indptr, all_indices, all_values, at)


def checked_matrix(model: ServedModel, indptr: Any, indices: Any, values: Any, at: str) -> SparseRows:
    """Return a matrix whose indices are in range and whose values are finite.

    Parameters
    ----------
    model : ServedModel
    indptr, indices : int64 arrays
        `indptr` ascends from 0 to the number of entries.
    values : float64 array
    at : str
        What the request calls them.

    Returns
    -------
    SparseRows
    """
    row_of = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    outside = np.flatnonzero((indices < 0) | (indices >= model.n_features))
    if outside.size:
        first = outside[0]
        message = f"row {row_of[first]} has the index {indices[first]}; features go from 0 to {model.n_features - 1}"
        raise invalid(message, f"{at}.{row_of[first]}")
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    strange = np.flatnonzero(~np.isfinite(narrow))
    if strange.size:
        row = row_of[strange[0]]
        message = f"row {row} has the value {values[strange[0]]}, which is no finite number of 32 bits"
        raise invalid(message, f"{at}.{row}")
    order = np.lexsort((indices, row_of))
    indices = indices[order].astype(np.int32)
    repeated = np.flatnonzero((np.diff(indices) == 0) & (np.diff(row_of) == 0))
    if repeated.size:
        row, index = row_of[repeated[0]], indices[repeated[0]]
        raise invalid(f"row {row} has the index {index} twice; give each feature once", f"{at}.{row}")
    return SparseRows(indptr, indices, narrow[order])


def _timed_out() -> RequestError:
    return busy(503, "timeout", "the answer took longer than the server allows (--timeout); try again later")
