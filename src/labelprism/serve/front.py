"""What every request passes first: the token, the clock and the log."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from time import perf_counter, time
from typing import Any

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from labelprism.serve.connections import is_beyond_limit, too_many_connections
from labelprism.serve.errors import RequestError
from labelprism.serve.metrics import ServerMetrics
from labelprism.serve.shortcut import Shortcut
from labelprism.serve.tickets import Tickets

logger = logging.getLogger("labelprism")

_SECONDS_BETWEEN_WRITES = 0.1
_LONGEST_WRITE = 4096  # bytes; a pipe takes so many at once, so that lines of several workers do not mix
_LONGEST_PATH = 200
_TICKET = b"ticket="
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}
OPEN_ROUTES = ("/", "/page/", "/docs", "/openapi.json", "/v2/health/live", "/v2/health/ready")
"""What needs no token; "/page/" stands for all below it."""


class AccessLog:
    """A line of JSON for each request, written a tenth of a second later at most; never anything of a body.

    Parameters
    ----------
    descriptor : int
        Where lines go.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, entry: dict[str, Any]) -> None:
        """Take a line."""
        self._lines.append(to_json(entry) + b"\n")
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS_BETWEEN_WRITES, self.flush)

    def flush(self) -> None:
        """Write the lines at hand."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        piece: list[bytes] = []
        n_bytes = 0
        try:
            for line in lines:
                if piece and n_bytes + len(line) > _LONGEST_WRITE:
                    os.write(self._descriptor, b"".join(piece))
                    piece, n_bytes = [], 0
                piece.append(line)
                n_bytes += len(line)
            if piece:
                os.write(self._descriptor, b"".join(piece))
        except OSError:  # nobody reads the log; the requests are not to suffer
            logger.debug("the access log cannot be written")


class Front:
    """The outermost part of the application.

    Parameters
    ----------
    app : ASGI application
    metrics : ServerMetrics
    token : str or None
    log : AccessLog or None
    shortcut : Shortcut or None
    """

    def __init__(
        self, app: ASGIApp, metrics: ServerMetrics, token: str | None, log: AccessLog | None, shortcut: Shortcut | None
    ) -> None:
        self._app, self._metrics, self._log, self._shortcut = app, metrics, log, shortcut
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._tickets = None if token is None else Tickets(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = perf_counter()
        status, n_bytes = 0, 0

        async def counted(message: Message) -> None:
            nonlocal status, n_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                n_bytes += len(message.get("body", b""))
            await send(message)

        try:
            if is_beyond_limit(scope):
                await too_many_connections().response()(scope, receive, counted)
            elif self._expected is None or self._may_pass(scope):
                short = None if self._shortcut is None else self._shortcut.app_for(scope)
                await (self._app if short is None else short)(scope, receive, counted)
            else:
                await _unauthorized().response()(scope, receive, counted)
        except ClientDisconnect:
            status = status or 499  # as nginx notes a client that left
        finally:
            self._note(scope, status, perf_counter() - begin, n_bytes)

    def _may_pass(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if any(path == route or (route == "/page/" and path.startswith(route)) for route in OPEN_ROUTES):
            return True
        if scope["method"] == "OPTIONS":  # a browser asks so before it sends the token
            return True
        assert self._expected is not None
        assert self._tickets is not None
        query: bytes = scope["query_string"]
        if query.startswith(_TICKET) and scope["method"] == "GET":
            ticket = query[len(_TICKET) :].decode("latin-1")
            if self._tickets.is_valid(path, ticket):
                return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)

    def _note(self, scope: Scope, status: int, seconds: float, n_bytes: int) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.finished(method, route, status, seconds)
        if self._log is not None:
            client = scope.get("client")
            self._log.write(
                {
                    "time": round(time(), 3),
                    "client": client[0] if client else None,
                    "method": method,
                    "path": scope["path"][:_LONGEST_PATH],
                    "status": status,
                    "ms": round(1000 * seconds, 3),
                    "bytes": n_bytes,
                    **scope.get("labelprism.note", {}),
                }
            )


def _unauthorized() -> RequestError:
    return RequestError(
        401,
        "unauthorized",
        "this server wants its token: send the header Authorization: Bearer TOKEN",
        headers={"WWW-Authenticate": "Bearer"},
    )
