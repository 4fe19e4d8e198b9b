"""Bodies of requests: read within the limits of size, of time, and of memory for all of them together."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, NoReturn
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from labelprism.serve.errors import RequestError, busy, invalid
from labelprism.serve.time_limits import TimeLimits

_HELD_BODIES = 8  # of the largest size, by all requests of a worker together
_DRAINED_BODIES = 8  # of the largest size: what is read and dropped of a body that is too large
_MOST_FIELDS = 100


class BodyHeaders(NamedTuple):
    """What the headers of a request say of its body."""

    length: int | None
    media_type: bytes
    encoding: bytes

    @classmethod
    def of(cls, request: Request) -> BodyHeaders:
        """Return those of a request, found in one pass: a look-up in Starlette's headers is a pass each."""
        length, media_type, encoding = None, b"", b""
        for name, value in request.scope["headers"]:
            if name == b"content-length" and value.isdigit():
                length = int(value)
            elif name == b"content-type":
                media_type = value
            elif name == b"content-encoding":
                encoding = value
        return cls(length, media_type, encoding)


class BodyReader:
    """Reads bodies of requests, and keeps count of the bytes at hand.

    Parameters
    ----------
    max_body : int
        Bytes of one body.
    limits : TimeLimits
        How long a body may take to arrive.
    """

    def __init__(self, max_body: int, limits: TimeLimits) -> None:
        self._max_body, self._limits = max_body, limits
        self.n_held = 0

    def held(self, headers: BodyHeaders) -> _HeldBytes:
        """Count the bytes of a body as taken in a `with` block, or refuse it; one of unknown size may be of any."""
        n_bytes = self._max_body if headers.length is None else min(headers.length, self._max_body)
        if self.n_held and self.n_held + n_bytes > _HELD_BODIES * self._max_body:
            raise busy(503, "memory_full", "the requests at hand take all the memory they may; try again later")
        return _HeldBytes(self, n_bytes)

    async def read(self, request: Request, headers: BodyHeaders) -> bytes:
        """Return the body of a request."""
        with self._limits.limited(_too_slow):
            if headers.length is not None and headers.length > self._max_body:
                await self._drain(request)
            pieces, n_bytes = [], 0
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                n_bytes += len(piece)
                if n_bytes > self._max_body:
                    await self._drain(request)
                pieces.append(piece)
                if not message.get("more_body", False):
                    return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _drain(self, request: Request) -> NoReturn:
        """Refuse a body; read on for a while first, as most clients look for an answer after they have sent all."""
        n_bytes = 0
        while n_bytes < _DRAINED_BODIES * self._max_body:
            message = await request.receive()
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                break
            n_bytes += len(message.get("body", b""))
        why = f"the body is larger than {self._max_body} bytes (--max-body); send less at once"
        raise RequestError(413, "too_large", why, headers={"Connection": "close"})


class _HeldBytes:
    """Bytes of a body that count as taken for as long as a `with` block lasts."""

    __slots__ = ("_n_bytes", "_reader")

    def __init__(self, reader: BodyReader, n_bytes: int) -> None:
        self._reader, self._n_bytes = reader, n_bytes

    def __enter__(self) -> None:
        self._reader.n_held += self._n_bytes

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._reader.n_held -= self._n_bytes


def check_media_type(headers: BodyHeaders, expected: bytes) -> None:
    """Refuse a body of another kind than is read here."""
    if headers.media_type == expected and not headers.encoding:
        return
    kind = headers.media_type.partition(b";")[0].strip().lower()
    if kind != expected:
        what = f"{kind.decode('latin-1')[:100]!r} was sent" if kind else "none was sent"
        raise RequestError(415, "media_type", f"the Content-Type must be {expected.decode()}; {what}")
    encoding = headers.encoding.lower().decode("latin-1")
    if encoding not in ("", "identity"):
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
