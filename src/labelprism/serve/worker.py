"""A worker of `labelprism.serve.supervisor`: `python -m labelprism.serve.worker DESCRIPTOR LOG_LEVEL`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading

from labelprism.serve.run import serve
from labelprism.serve.settings import ServeSettings

logger = logging.getLogger("labelprism")


def main(descriptor: int, level: int) -> None:
    """Serve on an inherited socket.

    Parameters
    ----------
    descriptor : int
        Of the listening socket.
    level : int
        Of the log.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s worker {os.getpid()}: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    settings = ServeSettings.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_supervisor, name="labelprism-supervisor", daemon=True).start()
    listening = socket.socket(fileno=descriptor)
    serve(settings, listening, "the socket of the supervisor")


def _end_with_supervisor() -> None:
    """Wait until the supervisor is gone, then finish as if told to."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
