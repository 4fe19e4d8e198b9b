"""Tiny models, and real servers in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serve_corpus import corpus, train_texts

from labelprism import PrismClassifier
from labelprism.features import TextFeatures

pytest.importorskip("fastapi", reason="the server needs the extra: pip install 'labelprism[serve]'")
httpx = pytest.importorskip("httpx", reason="the tests of the server need httpx")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a model of texts, one of rows, and one of the paper's, of classes."""
    folder = tmp_path_factory.mktemp("models")
    train_texts(folder / "texts")
    texts, labels = corpus(1000, 0)
    X = TextFeatures(n_bits=8).fit_transform(texts)
    PrismClassifier(n_jobs=1, random_state=0).fit(X, labels).save(folder / "rows")
    PrismClassifier(preset="paper", n_jobs=1, random_state=0).fit(X, [each[0] for each in labels]).save(
        folder / "paper"
    )
    return {name: folder / name for name in ("texts", "rows", "paper")}


class Server:
    """A running server: its process, its address, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.log: list[str] = []
        self.access: list[str] = []
        self._is_up = threading.Event()
        self.url = ""
        self._readers = [
            threading.Thread(target=self._read, args=(process.stderr, self.log), daemon=True),
            threading.Thread(target=self._read, args=(process.stdout, self.access), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        if not self._is_up.wait(60) or not self.url:
            process.kill()
            pytest.fail("the server did not start:\n" + "\n".join(self.log))

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line.decode().rstrip("\n"))
            if found := re.search(r"serving on (http://\S+:\d+)", lines[-1]):
                self.url = found[1]
                self._is_up.set()
        self._is_up.set()

    def client(self, **options: Any) -> Any:
        return httpx.Client(base_url=self.url, timeout=30, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it as a supervisor would, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        for reader in self._readers:
            reader.join(10)
        return code


@contextmanager
def started(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Server]:
    command = [sys.executable, "-m", "labelprism", "serve", "--port", "0", *arguments]
    environment = {**os.environ, **(env or {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    server = Server(process)
    try:
        yield server
    finally:
        server.stop()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="session")
def start() -> Callable[..., Any]:
    """A function that starts a server with some flags, for a `with` statement."""
    return started


@pytest.fixture(scope="session")
def server(models: dict[str, Path]) -> Iterator[Server]:
    """A server of three models with the usual settings, for all tests that only ask."""
    flags = [f"--model={name}={path}" for name, path in models.items()]
    with started(*flags, "--max-k", "50", "--max-rows", "100", "--max-features", "60", "--max-body", "200000") as up:
        yield up


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with server.client() as opened:
        yield opened
