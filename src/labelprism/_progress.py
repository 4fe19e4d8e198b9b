"""Progress bars: on a terminal, for what takes over two seconds, and only where tqdm is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import TracebackType
from typing import Any

_DELAY_SECONDS = 2.0
_LOOK_SECONDS = 0.2


class ProgressBar:
    """A bar on standard error that shows itself after two seconds; silent where there is no terminal.

    Parameters
    ----------
    total : int or None
        The amount of work, in `unit`; None when it is not known.
    description : str
        What is being done.
    unit : str
        What is counted; "B" stands for bytes and is scaled.
    delay : float
        Seconds before the bar is shown.
    """

    def __init__(self, total: int | None, description: str, unit: str = "it", delay: float = _DELAY_SECONDS) -> None:
        self._bar: Any = None
        if sys.stderr is None or not sys.stderr.isatty():
            return
        try:
            from tqdm import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=total, desc=description, unit=unit, unit_scale=unit == "B", delay=delay, leave=False)

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal to show it on."""
        return self._bar is not None

    def advance(self, amount: int = 1) -> None:
        """Report that `amount` more is done."""
        if self._bar is not None:
            self._bar.update(amount)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def watched(counter: Any, total: int, description: str, unit: str) -> Iterator[None]:
    """Show how far a native computation has come, while the block waits for it.

    Parameters
    ----------
    counter : _core.Counter
        Native code counts with it, and releases the GIL, so that a thread of our own can look.
    total, description, unit : see `ProgressBar`
    """
    with ProgressBar(total, description, unit) as bar:
        if not bar.is_shown:
            yield
            return
        ended, shown = Event(), 0

        def look() -> None:
            nonlocal shown
            while not ended.wait(_LOOK_SECONDS):
                done = min(counter.done, total)
                bar.advance(done - shown)
                shown = done

        watcher = Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
