"""What a server is started with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from labelprism._arrays import check_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST = 2**31 - 1


@dataclass(frozen=True)
class ServeSettings:
    """Models, address and limits of a server.

    Parameters
    ----------
    models : mapping of str to str
        The folder of each model, by the name that requests call it; the first is the one that the page opens with.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    workers : int
        Processes. They share the pages of the models, which are mapped from the files.
    threads : int
        Threads of the native code in each worker, for requests of many rows.
    max_queue : int
        Rows that may wait for a model in each worker; requests beyond are answered with 429.
    deadline_ms : int
        Requests that waited for so long are answered with 503 in place of being computed.
    max_body : int
        Bytes of a request. All requests of a worker together may hold 8 times as many.
    max_rows, max_features, max_k : int
        Texts or rows of a request, entries of a row, and labels asked for.
    max_connections : int
        Connections of a worker; those beyond get 503.
    timeout_s : float
        Seconds that a request may take to arrive, and again to be answered.
    shutdown_s : int
        Seconds that requests at hand are given when the server is told to end.
    token : str, optional
        What requests must bring as `Authorization: Bearer TOKEN`.
    cors_origins : tuple of str
        Origins whose pages may ask; none by default.
    reload : bool
        Whether a model is loaded anew when its folder was replaced.
    reload_s : float
        Seconds between two looks at the folders.
    access_log : bool
        Whether every request is a line of JSON on standard output.
    """

    models: Mapping[str, str]
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 1
    max_queue: int = 4096
    deadline_ms: int = 2000
    max_body: int = 8 << 20
    max_rows: int = 1024
    max_features: int = 100_000
    max_k: int = 1000
    max_connections: int = 1000
    timeout_s: float = 30.0
    shutdown_s: int = 30
    token: str | None = field(default=None, repr=False)
    cors_origins: tuple[str, ...] = ()
    reload: bool = True
    reload_s: float = 2.0
    access_log: bool = True

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("there is no model to serve")
        for name in self.models:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"the name {name!r} cannot be part of an address; take letters, digits, '.', '_' and '-', "
                    "as in --model subjects=path"
                )
        check_whole("port", self.port, 0, 65535)
        for limit in ("workers", "threads", "max_queue", "deadline_ms", "max_rows", "max_features", "max_k"):
            check_whole(limit, getattr(self, limit), 1, _MOST)
        check_whole("max_body", self.max_body, 1024, _MOST)
        check_whole("max_connections", self.max_connections, 1, _MOST)
        check_whole("shutdown_s", self.shutdown_s, 0, _MOST)
        for seconds in ("timeout_s", "reload_s"):
            if not 0 < getattr(self, seconds) < _MOST:
                raise ValueError(f"{seconds} must be a number of seconds above 0, got {getattr(self, seconds)!r}")
        # A header holds no other characters, so that nobody could ever send such a token.
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise ValueError("the token must be printable ASCII characters, and at least one")

    @property
    def default_model(self) -> str:
        """The name of the first model."""
        return next(iter(self.models))

    def to_json(self) -> str:
        """Return all of it, for a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServeSettings:
        """Return what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["cors_origins"] = tuple(values["cors_origins"])
        return cls(**{each.name: values[each.name] for each in fields(cls)})
