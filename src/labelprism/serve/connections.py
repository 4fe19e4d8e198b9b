"""Connections beyond the limit: they are answered like everything else, and then closed."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from labelprism.serve.errors import RequestError, busy

_MARK = "labelprism.beyond_limit"


class LimitedConnection(HttpToolsProtocol):
    """A connection that knows whether there were too many when it was made; those before it go on.

    uvicorn's own limit answers in plain text, and it refuses old connections together with the new one.

    Parameters
    ----------
    max_connections : int
    **options
        What uvicorn passes.
    """

    def __init__(self, max_connections: int, **options: Any) -> None:
        super().__init__(**options)
        self._max_connections = max_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        if len(self.connections) > self._max_connections:
            self.app_state = {**self.app_state, _MARK: True}  # which every request of it will carry


def is_beyond_limit(scope: Scope) -> bool:
    """Tell whether a request came by a connection too many."""
    return _MARK in scope.get("state", ())


def too_many_connections() -> RequestError:
    """Return what such a request is answered."""
    message = "this server has all the connections it may (--max-connections); try again later"
    error = busy(503, "too_many_connections", message)
    error.headers = {**(error.headers or {}), "Connection": "close"}
    return error
