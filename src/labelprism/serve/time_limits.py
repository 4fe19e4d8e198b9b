"""How long requests may take: one look at all of them now and then, in place of a timer for each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any

_LOOKS = 10  # in the time that is allowed


class TimeLimits:
    """Cancels what takes too long.

    Parameters
    ----------
    seconds : float
        What is allowed; the end comes up to a tenth of it later.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[asyncio.Task[Any], float] = {}

    def limited(self, error: Callable[[], Exception]) -> _Limited:
        """Raise an error in the task at hand if it does not leave a `with` block in time."""
        return _Limited(self._since, error)

    async def watch(self) -> None:
        """Look at all tasks again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._seconds / _LOOKS)
            limit = monotonic() - self._seconds
            for task in [task for task, since in self._since.items() if since < limit]:
                del self._since[task]
                task.cancel()


class _Limited:
    """A block that a task must leave in time."""

    __slots__ = ("_error", "_since", "_task")

    def __init__(self, since: dict[asyncio.Task[Any], float], error: Callable[[], Exception]) -> None:
        self._since, self._error = since, error

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._since[task] = monotonic()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        is_late = self._since.pop(self._task, None) is None
        if is_late and isinstance(error, asyncio.CancelledError):  # else cancelled by somebody else
            if sys.version_info >= (3, 11):
                self._task.uncancel()
            raise self._error() from None
