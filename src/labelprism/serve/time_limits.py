"""How long requests may take: one look at all of them now and then, in place of a timer for each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
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

    @contextmanager
    def limited(self, error: Callable[[], Exception]) -> Iterator[None]:
        """Raise an error in the task at hand if it does not leave the block in time."""
        task = asyncio.current_task()
        assert task is not None
        self._since[task] = monotonic()
        try:
            yield
        except asyncio.CancelledError:
            if task in self._since:  # cancelled by somebody else
                raise
            if sys.version_info >= (3, 11):
                task.uncancel()
            raise error() from None
        finally:
            self._since.pop(task, None)

    async def watch(self) -> None:
        """Look at all tasks again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._seconds / _LOOKS)
            limit = monotonic() - self._seconds
            for task in [task for task, since in self._since.items() if since < limit]:
                del self._since[task]
                task.cancel()
