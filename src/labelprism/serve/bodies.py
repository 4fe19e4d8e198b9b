"""Bodies of requests: read within the limits of size, of time, and of memory for all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from labelprism.serve.errors import RequestError, busy, invalid

_HELD_BODIES = 8  # of the largest size, by all requests of a worker together
_DRAINED_BODIES = 8  # of the largest size: what is read and dropped of a body that is too large
_MOST_FIELDS = 100


class BodyReader:
    """Reads bodies of requests, and keeps count of the bytes at hand.

    Parameters
    ----------
    max_body : int
        Bytes of one body.
    seconds : float
        How long a body may take to arrive.
    """

    def __init__(self, max_body: int, seconds: float) -> None:
        self._max_body, self._seconds = max_body, seconds
        self._n_held = 0

    @contextmanager
    def held(self, n_bytes: int) -> Iterator[None]:
        """Count bytes as taken, or refuse them."""
        if self._n_held and self._n_held + n_bytes > _HELD_BODIES * self._max_body:
            raise busy(503, "memory_full", "the requests at hand take all the memory they may; try again later")
        self._n_held += n_bytes
        try:
            yield
        finally:
            self._n_held -= n_bytes

    async def read(self, request: Request) -> bytes:
        """Return the body of a request."""
        announced = _announced(request)
        if announced is not None and announced > self._max_body:
            await self._drain(request)
            raise self._too_large()
        with time_limit(self._seconds, _too_slow):
            pieces, n_bytes = [], 0
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                n_bytes += len(piece)
                if n_bytes > self._max_body:
                    break
                pieces.append(piece)
                if not message.get("more_body", False):
                    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        await self._drain(request)
        raise self._too_large()

    async def _drain(self, request: Request) -> None:
        """Read on for a while and drop it: most clients look for an answer only after they have sent all."""
        n_bytes = 0
        with time_limit(self._seconds, _too_slow):
            while n_bytes < _DRAINED_BODIES * self._max_body:
                message = await request.receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                n_bytes += len(message.get("body", b""))

    def _too_large(self) -> RequestError:
        message = f"the body is larger than {self._max_body} bytes (--max-body); send less at once"
        return RequestError(413, "too_large", message, headers={"Connection": "close"})


def size_of(request: Request, max_body: int) -> int:
    """Return the bytes that a body may take: those it announces, or as many as are allowed."""
    announced = _announced(request)
    return max_body if announced is None else min(announced, max_body)


def _announced(request: Request) -> int | None:
    length = request.headers.get("content-length")
    return int(length) if length is not None and length.isascii() and length.isdigit() else None


def check_media_type(request: Request, expected: str) -> None:
    """Refuse a body of another kind than is read here."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != expected:
        what = f"{given[:100]!r} was sent" if given else "none was sent"
        raise RequestError(415, "media_type", f"the Content-Type must be {expected}; {what}")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise RequestError(415, "media_type", f"the body is encoded as {encoding[:100]!r}; send it as it is")


def form_fields(body: bytes) -> dict[str, str]:
    """Return the fields of a form; of a field that is repeated, the first."""
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise invalid(f"the form cannot be read: {error}") from error
    return {name: values[0] for name, values in fields.items()}


def _too_slow() -> RequestError:
    return RequestError(
        408, "too_slow", "the body did not arrive in time; send it faster", headers={"Connection": "close"}
    )


class time_limit:  # noqa: N801 - a context manager, as `asyncio.timeout`, which came with Python 3.11
    """Cancel the task after some seconds, and raise an error in place of the cancellation.

    Parameters
    ----------
    seconds : float
    error : function
        Returns what to raise.
    """

    def __init__(self, seconds: float, error: Any) -> None:
        self._seconds, self._error = seconds, error
        self._is_over = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._end, asyncio.current_task())

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._is_over = True
        task.cancel()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._timer.cancel()
        if self._is_over and kind is asyncio.CancelledError:
            task = asyncio.current_task()
            if hasattr(task, "uncancel"):
                task.uncancel()
            raise self._error() from None
