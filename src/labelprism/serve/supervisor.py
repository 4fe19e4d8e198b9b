"""Several workers behind one listening socket.

The supervisor holds the socket and starts workers, which inherit it: a connection that nobody has accepted yet outlives
any worker. One that dies is replaced. Workers read their settings, with the token, from a pipe, which stays open: when
the supervisor is gone, it closes, and they end.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead

from labelprism.serve.metrics import MULTIPROCESS_FOLDER
from labelprism.serve.settings import ServeSettings

logger = logging.getLogger("labelprism")

_SECONDS_BETWEEN_LOOKS = 0.1
_QUICK_DEATH = 5.0  # seconds; a worker that dies earlier is started again after a while only
_LONGEST_PAUSE = 10.0
_GRACE = 5.0  # seconds beyond the time that workers are given to finish


class _Place:
    """One of the workers, and those before it that died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.not_before = 0.0
        self.n_quick_deaths = 0


def supervise(settings: ServeSettings, listening: socket.socket, address: str) -> None:
    """Start workers and keep them running, until SIGTERM or SIGINT.

    Parameters
    ----------
    settings : ServeSettings
    listening : socket
    address : str
        For the log.
    """
    stop: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.append(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    folder = tempfile.mkdtemp(prefix="labelprism-metrics-")
    places = [_Place() for _ in range(settings.workers)]
    try:
        logger.info("serving on %s with %d workers", address, settings.workers)
        while not stop:
            for place in places:
                _look_after(place, settings, listening, folder)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        _end(places, settings.shutdown_s + _GRACE)
        logger.info("ended; requests at hand were finished")
    finally:
        for place in places:
            if place.process is not None and place.process.poll() is None:
                place.process.kill()
        shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _look_after(place: _Place, settings: ServeSettings, listening: socket.socket, folder: str) -> None:
    now = time.monotonic()
    if place.process is not None and place.process.poll() is not None:
        died = place.process
        quick = now - place.started < _QUICK_DEATH
        place.n_quick_deaths = place.n_quick_deaths + 1 if quick else 0
        pause = min(_LONGEST_PAUSE, 0.1 * 2**place.n_quick_deaths) if place.n_quick_deaths > 1 else 0.0
        place.not_before = now + pause
        logger.error("worker %d ended with %d; another takes its place", died.pid, died.returncode)
        mark_process_dead(died.pid, folder)  # type: ignore[no-untyped-call]
        _close_pipe(died)
        place.process = None
    if place.process is None and now >= place.not_before:
        place.process, place.started = _start(settings, listening, folder), now


def _start(settings: ServeSettings, listening: socket.socket, folder: str) -> subprocess.Popen[bytes]:
    descriptor = listening.fileno()
    worker = subprocess.Popen(
        [sys.executable, "-m", "labelprism.serve.worker", str(descriptor), str(logger.getEffectiveLevel())],
        stdin=subprocess.PIPE,
        pass_fds=[descriptor],
        env={**os.environ, MULTIPROCESS_FOLDER: folder},
        start_new_session=True,  # Ctrl-C is for the supervisor, who tells them
    )
    assert worker.stdin is not None
    with suppress(BrokenPipeError):  # it died at once, which is seen at the next look
        worker.stdin.write(settings.to_json().encode() + b"\n")
        worker.stdin.flush()
    return worker


def _end(places: list[_Place], seconds: float) -> None:
    """Tell all workers to finish what they have, and wait for them."""
    workers = [place.process for place in places if place.process is not None]
    for worker in workers:
        worker.terminate()
    until = time.monotonic() + seconds
    for worker in workers:
        try:
            worker.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            logger.error("worker %d did not end in time and is killed", worker.pid)
            worker.kill()
            worker.wait()
        _close_pipe(worker)


def _close_pipe(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):
        worker.stdin.close()
