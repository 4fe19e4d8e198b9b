"""What HTTP costs: a server under load on this machine, beside an endpoint that does nothing and the bare kernel.

    python benchmarks/serve.py model/ --minutes 5 [--client wrk]

Slices of two seconds alternate between what is compared, so that other work on the machine meets both alike. The
client is a few hundred lines of bytes made beforehand over plain asyncio protocols, or wrk; texts are those of the
Tate test set, so a model of texts is needed (`labelprism demo --write-data`, `labelprism train`); without one, one is
trained.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from wrk_client import WrkClient

from labelprism import PrismClassifier
from labelprism.data import load_tate
from labelprism.features import TextFeatures
from labelprism.serve.served_model import ServedModel

_SLICE = 2.0  # seconds
_MANY = 64  # texts of a large request


class Connection(asyncio.Protocol):
    """One connection of a closed loop: the next request goes out when the answer to the last is in."""

    def __init__(self, requests: Iterator[bytes], record: Callable[[int, float], None]) -> None:
        self._requests, self._record = requests, record
        self._received = b""
        self._missing = 0
        self._status = 0
        self.is_open = True
        self.is_waiting = False

    def connection_made(self, transport: Any) -> None:
        """Keep the connection."""
        self._transport = transport

    def ask(self) -> None:
        """Send the next request."""
        self.is_waiting = True
        self._begin = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer."""
        if self._missing:
            self._missing -= len(data)
        else:
            self._received += data
            head, blank, body = self._received.partition(b"\r\n\r\n")
            if not blank:
                return
            self._status = int(head[9:12])
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            self._missing = int(length[1] if length else 0) - len(body)
            self._received = b""
        if self._missing == 0:
            self.is_waiting = False
            self._record(self._status, time.perf_counter() - self._begin)

    def connection_lost(self, error: Exception | None) -> None:
        """Note an answer that will not come."""
        self.is_open = False
        if self.is_waiting:
            self._record(0, time.perf_counter() - self._begin)  # 0: no answer

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class Client:
    """Several connections to a server.

    Parameters
    ----------
    port : int
    n_connections : int
    """

    def __init__(self, port: int, n_connections: int) -> None:
        self._port, self._n_connections = port, n_connections

    async def load(self, requests: list[bytes], seconds: float) -> tuple[Counter[int], list[float]]:
        """Ask for some time; return how many answers had each status, and the latencies of those that were 200."""
        statuses: Counter[int] = Counter()
        latencies: list[float] = []
        loop = asyncio.get_running_loop()
        end = time.perf_counter() + seconds
        endless = cycle(requests)
        open_connections: set[Connection] = set()
        done = loop.create_future()
        connecting: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly

        async def connect() -> None:
            connection: Connection

            def record(status: int, latency: float) -> None:
                statuses[status] += 1
                if status == 200:
                    latencies.append(latency)
                if time.perf_counter() < end:
                    if connection.is_open:
                        loop.call_soon(connection.ask)
                    else:
                        open_connections.discard(connection)
                        connecting.add(loop.create_task(connect()))
                else:
                    open_connections.discard(connection)
                    connection.close()
                    if not open_connections and not done.done():
                        done.set_result(None)

            _, connection = await loop.create_connection(lambda: Connection(endless, record), "127.0.0.1", self._port)
            open_connections.add(connection)
            connection.ask()

        for _ in range(self._n_connections):
            await connect()
        await done
        return statuses, latencies


def request_bytes(method: str, path: str, body: Any = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + content


@contextmanager
def server(model: str, *flags: str) -> Iterator[tuple[int, int]]:
    """Start a server; give its process and its port."""
    command = [sys.executable, "-m", "labelprism", "serve", "--model", f"model={model}", "--port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"serving on http://127.0.0.1:(\d+)", line):
                break
        else:
            raise SystemExit("the server did not start")
        yield process.pid, int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def resident_bytes(pid: int) -> int:
    return int(re.search(r"Rss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())[1]) * 1024  # type: ignore[index]


def own_bytes(pid: int) -> int:
    """Memory that is not mapped from files."""
    return int(re.search(r"Anonymous:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())[1]) * 1024  # type: ignore[index]


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used, its own and the system's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare_kernel(model: ServedModel, texts: list[str], seconds: float) -> float:
    """Return the texts a second of features and kernel in a loop, without any HTTP."""
    batches = cycle([texts[begin : begin + _MANY] for begin in range(0, len(texts) - _MANY, _MANY)])
    begin, n_texts = time.perf_counter(), 0
    while time.perf_counter() < begin + seconds:
        model.rank(next(batches), 5)
        n_texts += _MANY
    return n_texts / (time.perf_counter() - begin)


def quantile(values: list[float], share: float) -> float:
    return float(np.quantile(values, share)) * 1000


async def single_texts(client: Any, pid: int, texts: list[str], seconds: float, n_connections: int) -> list[str]:
    """Ask for single texts, and for nothing, in turns; watch the memory meanwhile.

    `/v2/health/live` does nothing, and takes the same way through the server as predictions do.
    """
    asked = [request_bytes("POST", "/v1/models/model/predict", {"text": text}) for text in texts]
    nothing = [request_bytes("GET", "/v2/health/live")]
    await client.load(asked, _SLICE)
    ratios, rates, latencies, failures, memory = [], [], [], 0, [own_bytes(pid)]
    costs, n_answered = [], 0
    first = resident_bytes(pid)
    for _ in range(max(1, round(seconds / (2 * _SLICE)))):
        begin = processor_seconds(pid)
        idle, _ = await client.load(nothing, _SLICE)
        between = processor_seconds(pid)
        busy, times = await client.load(asked, _SLICE)
        costs.append(((processor_seconds(pid) - between) / busy[200], (between - begin) / idle[200]))
        ratios.append(busy[200] / idle[200])
        rates.append(busy[200] / _SLICE)
        failures += busy.total() - busy[200]
        n_answered += busy[200]
        latencies += times
        memory.append(own_bytes(pid))
    middle, late = quantile(latencies, 0.5), quantile(latencies, 0.99)
    growth = resident_bytes(pid) / first - 1
    spread = max(memory[1:]) / min(memory[1:]) - 1
    of_text, of_nothing = (1e6 * statistics.median(part) for part in zip(*costs, strict=True))
    return [
        f"| single texts, {n_connections} connections | {statistics.median(rates):,.0f} requests/s |",
        f"| of an endpoint that does nothing | {statistics.median(ratios):.0%} (quartiles {_quartiles(ratios)}) |",
        f"| processor time of a request, and of one for nothing | {of_text:.0f} us, {of_nothing:.0f} us |",
        f"| p50, p99, p99 / p50 | {middle:.2f} ms, {late:.2f} ms, {late / middle:.1f} |",
        f"| requests that failed | {failures} of {n_answered + failures:,} |",
        f"| resident memory, end against start | {growth:+.2%} of {first / 2**20:.0f} MB |",
        f"| own pages, most against least | {spread:.2%} |",
    ]


def _quartiles(values: list[float]) -> str:
    low, high = np.quantile(values, [0.25, 0.75])
    return f"{low:.0%} to {high:.0%}"


async def many_texts(port: int, model: ServedModel, texts: list[str], seconds: float) -> list[str]:
    """Ask for 64 texts at once, and compute without a server, in turns."""
    client = Client(port, 2)
    parts = [texts[begin : begin + _MANY] for begin in range(0, len(texts) - _MANY, _MANY)]
    asked = [request_bytes("POST", "/v1/models/model/predict", {"texts": part}) for part in parts]
    await client.load(asked, _SLICE)
    ratios, rates, latencies = [], [], []
    for _ in range(max(1, round(seconds / (2 * _SLICE)))):
        bare = bare_kernel(model, texts, _SLICE)
        statuses, times = await client.load(asked, _SLICE)
        ratios.append(statuses[200] * _MANY / _SLICE / bare)
        rates.append(statuses[200] * _MANY / _SLICE)
        latencies += times
    return [
        f"| requests of {_MANY} texts, 2 connections | {statistics.median(rates):,.0f} texts/s |",
        f"| of the bare kernel in a loop | {statistics.median(ratios):.0%} (quartiles {_quartiles(ratios)}) |",
        f"| p50, p99 | {quantile(latencies, 0.5):.2f} ms, {quantile(latencies, 0.99):.2f} ms |",
    ]


async def overload(port: int, texts: list[str]) -> list[str]:
    """Ask for more than fits the queue, and then for little again."""
    large = request_bytes("POST", "/v1/models/model/predict", {"texts": texts[:256]})
    statuses, _ = await Client(port, 64).load([large], 2 * _SLICE)
    after, _ = await Client(port, 2).load([request_bytes("POST", "/v1/models/model/predict", {"text": texts[0]})], 1)
    told = ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))
    return [
        f"| overload: 64 connections of 256 texts, --max-queue 2048 | {told} |",
        f"| right after it, single texts | {after[200]:,} x 200, {after.total() - after[200]} others |",
    ]


async def killed_worker(port: int, pid: int, texts: list[str]) -> list[str]:
    """Kill one of two workers under load with SIGKILL: the one that holds more connections."""
    asked = [request_bytes("POST", "/v1/models/model/predict", {"text": text}) for text in texts]
    n_connections = 16
    while not all("forest_blocks" in Path(f"/proc/{worker}/maps").read_text() for worker in workers_of(pid)):
        await asyncio.sleep(0.1)
    await Client(port, 4).load(asked, _SLICE)

    held = {}

    def kill() -> None:
        time.sleep(1)
        workers = workers_of(pid)
        held.update({worker: n_sockets(worker) for worker in workers})
        os.kill(max(workers, key=n_sockets), signal.SIGKILL)

    (statuses, _), _ = await asyncio.gather(Client(port, n_connections).load(asked, 4), asyncio.to_thread(kill))
    others = statuses.total() - statuses[200] - statuses[0]
    what = f"kill -9 of the busier of two workers, with {_and(held.values())} of {n_connections} connections"
    return [f"| {what} | {statuses[200]:,} x 200, {statuses[0]} without an answer, {others} others |"]


def workers_of(pid: int) -> list[int]:
    """Return the processes of the workers."""
    return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def n_sockets(pid: int) -> int:
    """Return how many connections a process holds; the socket that listens and the event loop's own pair are more."""
    links = (link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir())
    return sum(str(link).startswith("socket:") for link in links) - 3


def _and(numbers: Iterable[int]) -> str:
    return " and ".join(map(str, numbers))


async def run(model_path: str, minutes: float, n_connections: int, client: type[Any]) -> list[str]:
    model = ServedModel("model", model_path, 1)
    _, test = load_tate()
    assert test.texts is not None
    texts = test.texts[:2048]
    lines = ["| what | measured |", "|---|---|"]
    with server(model_path) as (pid, port):
        lines += await single_texts(client(port, n_connections), pid, texts, 60 * minutes, n_connections)
        lines += await many_texts(port, model, texts, min(60.0, 20 * minutes))
    with server(model_path, "--max-queue", "2048") as (_, port):
        lines += await overload(port, texts)
    with server(model_path, "--workers", "2") as (pid, port):
        lines += await killed_worker(port, pid, texts)
    return lines


def train(folder: str) -> str:
    path = str(Path(folder) / "tate.model")
    training, _ = load_tate()
    PrismClassifier(features=TextFeatures(), n_jobs=-1, random_state=0).fit(training).save(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="the folder of a model of texts; without it, one is trained")
    parser.add_argument("--minutes", type=float, default=0.2, help="of single texts; 5 for the table in the docs (0.2)")
    parser.add_argument("--connections", type=int, default=32, help="of single texts (32)")
    parser.add_argument("--client", choices=("python", "wrk"), default="python", help="of single texts (python)")
    arguments = parser.parse_args()
    client = WrkClient if arguments.client == "wrk" else Client
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model or train(folder)
        print("\n".join(asyncio.run(run(path, arguments.minutes, arguments.connections, client))))


if __name__ == "__main__":
    main()
