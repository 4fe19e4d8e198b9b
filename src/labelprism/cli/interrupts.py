"""Ctrl-C: at once, with a message, and no half file.

Python hands a signal to the program between two steps of the main thread, and a native call is one step that may last
minutes. While nothing is being written, a second thread therefore waits for the signal and ends the process by itself.
While something is written, the exception of Python does its work: it leaves the `with` blocks, which remove what is
unfinished; each step of writing is short.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM, which should clean up as Ctrl-C does."""


class Watcher:
    """Ends the process on SIGINT and SIGTERM, also during a native call; off until `at_once` is entered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held to the end by who leaves: nobody can begin to write meanwhile
        self._active = False
        self._read, self._write = os.pipe()
        if sys.platform != "win32":  # where the pipe may block, which nobody notices: it is read at once
            os.set_blocking(self._write, False)
        signal.signal(signal.SIGTERM, _raise_terminated)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="labelprism-signals", daemon=True).start()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end the process without waiting for the main thread: nothing may be half written now."""
        self._set_active(True)
        try:
            yield
        finally:
            self._set_active(False)

    def _set_active(self, active: bool) -> None:
        with self._lock:
            self._active = active

    def _watch(self) -> None:
        while number := os.read(self._read, 1):
            code = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}.get(signal.Signals(number[0]))
            with self._lock:
                if code is not None and self._active:
                    _leave(code)


def message_of(code: int) -> str:
    """Return what to say of the end by a signal."""
    return "interrupted" if code == INTERRUPTED else "terminated"


def _leave(code: int) -> NoReturn:
    # A bar may stand on the line. Buffers of standard output are left alone: the main thread may hold their lock.
    os.write(2, f"\nlabelprism: {message_of(code)}\n".encode())
    os._exit(code)


def _raise_terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


_watcher: Watcher | None = None


def watch() -> None:
    """Start to watch for signals; for the program itself, which owns its process."""
    global _watcher
    _watcher = Watcher()


@contextmanager
def at_once() -> Iterator[None]:
    """Mark what computes for long and writes nothing; without `watch`, as in tests, Python's own way remains."""
    if _watcher is None:
        yield
        return
    with _watcher.at_once():
        yield
