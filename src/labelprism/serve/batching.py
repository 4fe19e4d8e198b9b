"""Requests of the same moment are answered together: one native call for all of them.

Nobody waits for company: a batch is computed as soon as a turn of the event loop brings no further request, and while
a batch is computed, the next one gathers. The queue is bounded in rows, and a request that has waited too long is not
computed any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from time import monotonic
from typing import Any

from labelprism.serve.errors import RequestError, busy
from labelprism.serve.served_model import Ranking, Rows, ServedModel
from labelprism.serve.sparse_rows import stacked

# A few rows are computed in the event loop, since to hand them to the thread takes longer. More go to the thread, which
# does not hold the interpreter while it computes: meanwhile the event loop reads the next requests. A batch must not
# take all that wait, or there is nothing to read: with 16 rows a fifth more requests were answered than with all.
_INLINE_ROWS = 4
_INLINE_CHARACTERS = 1 << 15
_GATHERED_ROWS = 8
_GATHERING = 0.002  # seconds, for as long as every turn of the event loop brings more
_BATCH_ROWS = 16  # of several requests; one of more goes by itself
_BATCH_CHARACTERS = 1 << 20


class Job:
    """The rows of a request, and what is wanted of them.

    Parameters
    ----------
    rows : list of n str, or n SparseRows
    k : int
    likely : bool
        Whether scores are to be probabilities.
    seconds : float
        How long it may wait.
    """

    __slots__ = ("arrival", "deadline", "future", "key", "n_rows", "rows", "size")

    def __init__(self, rows: Rows, k: int, likely: bool, seconds: float) -> None:
        self.rows = rows
        self.n_rows, self.size = _extent(rows)
        # Only jobs of the same k go together: others would wait for labels that they did not ask for.
        self.key = (isinstance(rows, list), k, likely)
        self.arrival = monotonic()
        self.deadline = self.arrival + seconds
        self.future: asyncio.Future[tuple[Ranking, ServedModel]] = asyncio.get_running_loop().create_future()


class Batcher:
    """The queue of one model.

    Parameters
    ----------
    current : function
        Returns the model of the moment.
    thread : Executor
        Where large batches are computed.
    max_rows : int
        Rows that may wait or be computed.
    on_batch : function of int
        Called with the rows of each batch.
    """

    def __init__(
        self, current: Callable[[], ServedModel], thread: Executor, max_rows: int, on_batch: Callable[[int], None]
    ) -> None:
        self._current, self._thread, self._max_rows, self._on_batch = current, thread, max_rows, on_batch
        self._waiting: deque[Job] = deque()
        self._is_scheduled = self._is_busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._n_before = 0
        self.n_rows = 0

    def submit(self, job: Job) -> asyncio.Future[tuple[Ranking, ServedModel]]:
        """Queue a job, and return where its result will be."""
        if self.n_rows and self.n_rows + job.n_rows > self._max_rows:
            raise busy(
                429, "queue_full", f"{self.n_rows} rows wait already, at most {self._max_rows} may; try again later"
            )
        self.n_rows += job.n_rows
        self._waiting.append(job)
        if self._is_busy:
            self._expire_later()
        elif not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)
        return job.future

    def _is_gathering(self) -> bool:
        """Tell whether to look once more for requests that are on their way, as there were some a moment ago."""
        n_rows, n_before = self.n_rows, self._n_before
        if n_rows == n_before or n_rows >= _GATHERED_ROWS or monotonic() - self._waiting[0].arrival > _GATHERING:
            self._n_before = 0
            return False
        self._n_before = n_rows
        return True

    def _expire_later(self) -> None:
        """See to it that jobs that wait for a long batch are given up in time; they wait in the order of their ends."""
        if self._timer is None and self._waiting:
            seconds = max(0.0, self._waiting[0].deadline - monotonic()) + 0.001
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = monotonic()
        while self._waiting and self._waiting[0].deadline < now:
            self._give_up(self._waiting.popleft())
        self._expire_later()

    def _give_up(self, job: Job) -> None:
        self.n_rows -= job.n_rows
        if not job.future.done():
            job.future.set_exception(_too_late())

    def _work(self) -> None:
        if self._is_gathering():
            asyncio.get_running_loop().call_soon(self._work)
            return
        self._is_scheduled = False
        while self._waiting:
            batch, n_rows, size = self._take()
            if not batch:
                continue
            self._on_batch(n_rows)
            model = self._current()
            if _is_small(n_rows, size):
                try:
                    result: Any = _computed(model, batch)
                except Exception as error:  # noqa: BLE001 - each request tells its client
                    result = error
                self._give(batch, model, result)
            else:
                self._is_busy = True
                computing = asyncio.get_running_loop().run_in_executor(self._thread, _computed, model, batch)
                computing.add_done_callback(lambda done, batch=batch, model=model: self._done(batch, model, done))  # type: ignore[misc]
                return

    def _done(self, batch: list[Job], model: ServedModel, computing: asyncio.Future[Ranking]) -> None:
        self._is_busy = False
        self._give(batch, model, computing.exception() or computing.result())
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _take(self) -> tuple[list[Job], int, int]:
        """Return the next jobs that go together, the first that waits among them."""
        batch: list[Job] = []
        n_rows = size = 0
        now = monotonic()
        while self._waiting:
            job = self._waiting[0]
            if job.future.done() or job.deadline < now:  # its client was told already, or is told now
                self._give_up(job)
            elif batch and (
                job.key != batch[0].key or n_rows + job.n_rows > _BATCH_ROWS or size + job.size > _BATCH_CHARACTERS
            ):
                break
            else:
                batch.append(job)
                n_rows += job.n_rows
                size += job.size
            self._waiting.popleft()
        return batch, n_rows, size

    def _give(self, batch: list[Job], model: ServedModel, result: Ranking | BaseException) -> None:
        begin = 0
        for job in batch:
            self.n_rows -= job.n_rows
            end = begin + job.n_rows
            if job.future.done():
                pass
            elif isinstance(result, BaseException):
                job.future.set_exception(result)
            else:
                job.future.set_result((Ranking(result.labels[begin:end], result.scores[begin:end]), model))
            begin = end


def _extent(rows: Rows) -> tuple[int, int]:
    """Return the number of rows, and about how many characters they are worth."""
    if isinstance(rows, list):
        return len(rows), sum(map(len, rows))
    return rows.n_rows, 8 * rows.data.size


def _is_small(n_rows: int, size: int) -> bool:
    return n_rows <= _INLINE_ROWS and size <= _INLINE_CHARACTERS


def _too_late() -> RequestError:
    return busy(503, "deadline", "the request waited longer than the server allows (--deadline-ms); try again later")


def _computed(model: ServedModel, batch: list[Job]) -> Ranking:
    _, k, likely = batch[0].key
    return model.rank(_joined(batch), k, likely)


def _joined(batch: list[Job]) -> Rows:
    if len(batch) == 1:
        return batch[0].rows
    parts: list[Any] = [job.rows for job in batch]
    return [text for part in parts for text in part] if isinstance(parts[0], list) else stacked(parts)
