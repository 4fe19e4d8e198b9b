"""From settings to a server that listens: one process, or a supervisor with workers."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from functools import partial
from typing import Any, cast

import uvicorn

from labelprism.serve.app import create_app
from labelprism.serve.connections import LimitedConnection
from labelprism.serve.models import load_whole
from labelprism.serve.settings import ServeSettings
from labelprism.serve.supervisor import supervise

logger = logging.getLogger("labelprism")

_BACKLOG = 2048


def run(settings: ServeSettings) -> None:
    """Serve until told to end.

    Parameters
    ----------
    settings : ServeSettings
    """
    if settings.workers > 1 and sys.platform == "win32":
        raise ValueError("workers cannot share a socket on Windows; serve with one, which uses all threads")
    listening = listen(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if settings.token is None and not _is_local(host):
        logger.warning("%s can be reached from elsewhere, and no --token is set", address)
    try:
        if settings.workers == 1:
            serve(settings, listening, address)
            return
        for name, path in settings.models.items():  # what is wrong with a model is told once, and not by each worker
            load_whole(name, path, settings.threads)
        supervise(settings, listening, address)
    finally:
        listening.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; connections wait in it until somebody accepts them."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # where it would let a second server take over the address of the first
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    return listening


def serve(settings: ServeSettings, listening: socket.socket, address: str) -> None:
    """Serve in this process, until SIGTERM or SIGINT; requests at hand are finished."""
    config = uvicorn.Config(
        create_app(settings),
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        backlog=1 if settings.workers > 1 else _BACKLOG,
        http=cast("Any", partial(LimitedConnection, settings.max_connections)),
        timeout_keep_alive=max(5, int(settings.timeout_s)),
        timeout_graceful_shutdown=settings.shutdown_s,
    )
    server = _FairServer(config, listening)
    # uvicorn ends on these signals and then raises them once more, which is to end nothing else.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    logger.info("serving on %s", address)
    asyncio.run(server.serve(sockets=[listening]))
    logger.info("ended; requests at hand were finished")


class _FairServer(uvicorn.Server):
    """A server that leaves connections to the other workers.

    An event loop accepts as many connections at once as its backlog says, so that the first worker to wake up would
    have them all. With a backlog of 1 it takes one or two at a time; the socket itself is then given its backlog back.
    """

    def __init__(self, config: uvicorn.Config, listening: socket.socket) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.listen(_BACKLOG)


def _is_local(host: str) -> bool:
    return host.startswith("127.") or host == "::1"
