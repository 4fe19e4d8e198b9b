"""The server as a process: limits, signals, replaced models, workers that die."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from serve_corpus import corpus, train_texts

from labelprism.cli import main
from labelprism.serve import ServeSettings
from labelprism.serve.tickets import Tickets

TEXTS, _ = corpus(100, 11)
PREDICT = "/v1/models/texts/predict"
TOKEN = {"Authorization": "Bearer s3cret"}
ORIGIN = {"Origin": "https://catalogue.example"}


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def value_of(page: str, name: str) -> float:
    """Return a number of a page of metrics; one that is not there is 0."""
    lines = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(lines[0].rpartition(" ")[2]) if lines else 0.0


def metric(client: httpx.Client, name: str) -> float:
    return value_of(client.get("/metrics").text, name)


@contextmanager
def under_load(server: Any, n_clients: int, body: dict[str, Any]) -> Iterator[Counter[Any]]:
    """Ask all the time, each client over a connection of its own; count statuses and broken connections."""
    statuses: Counter[Any] = Counter()
    lock, stop = threading.Lock(), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            with server.client() as client:
                while not stop.is_set():
                    try:
                        answer = client.post(PREDICT, json=body)
                        told: Any = answer.status_code
                        if told == 200:
                            assert answer.json()["predictions"]
                    except httpx.TransportError as error:
                        told = type(error).__name__
                    with lock:
                        statuses[told] += 1
                    if not isinstance(told, int):
                        break  # a new connection

    threads = [threading.Thread(target=ask) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ------------------------------------------------------------------------------------------- what operators rely on


@pytest.fixture(scope="module")
def guarded(start: Any, models: dict[str, Path]) -> Iterator[Any]:
    """A server with a token, which one other origin may ask too."""
    flags = [str(models["texts"]), "--cors-origin", ORIGIN["Origin"]]
    with start(*flags, env={"LABELPRISM_TOKEN": "s3cret"}) as server:
        yield server


def test_token(guarded: Any) -> None:
    with guarded.client() as client:
        for path in ("/", "/page/page.js", "/docs", "/openapi.json", "/v2/health/live", "/v2/health/ready"):
            assert client.get(path).status_code == 200, path
        for path in ("/v1/models", "/v2/models/texts", "/v1/projects", "/metrics", "/explore/texts", "/nothing"):
            for header in ({}, {"Authorization": "Bearer s3cre"}, {"Authorization": "s3cret"}):
                refused = client.get(path, headers=header)
                assert refused.status_code == 401, path
                assert refused.headers["www-authenticate"] == "Bearer"
                assert "Authorization: Bearer" in refused.json()["error"]
        assert client.get("/v1/models", headers=TOKEN).status_code == 200
        assert client.post(PREDICT, json={"text": "boat"}, headers=TOKEN).status_code == 200
        assert client.post(PREDICT, json={"text": "boat"}).status_code == 401


def test_tickets_open_one_page_for_a_while(guarded: Any) -> None:
    page = "/explore/texts"
    pytest.importorskip("plotly", reason="the explorer needs plotly: pip install 'labelprism[explore]'")
    with guarded.client() as client:
        assert client.post(f"{page}/ticket").status_code == 401
        assert client.post("/explore/none/ticket", headers=TOKEN).status_code == 404
        ticket = client.post(f"{page}/ticket", headers=TOKEN).json()["ticket"]
        assert client.get(f"{page}?ticket={ticket}").status_code == 200
        end, _, signature = ticket.partition("-")
        wrong = ["", "-", f"{int(end) + 1}-{signature}", f"{end}-{'0' * 64}", f"-{signature}", "٣-x", f"{end}-ü"]
        assert [client.get(f"{page}?ticket={each}").status_code for each in wrong] == [401] * len(wrong)
        for path in ("/v1/models", "/v1/models/texts", "/metrics"):
            assert client.get(f"{path}?ticket={ticket}").status_code == 401
        assert client.post(f"{page}/explain?ticket={ticket}", json={"text": "boat"}).status_code == 401
        assert client.get(f"/v1/models?ticket={ticket}", headers=TOKEN).status_code == 200
    tickets = Tickets("s3cret")
    assert tickets.is_valid(page, tickets._signed(page, int(time.time()) + 5))
    assert not tickets.is_valid(page, tickets._signed(page, int(time.time()) - 5))


def test_cors_is_off_unless_asked_for(client: Any, guarded: Any) -> None:
    preflight = {**ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert "access-control-allow-origin" not in client.get("/v1/models", headers=ORIGIN).headers
    assert client.options(PREDICT, headers=preflight).status_code == 405
    with guarded.client() as other:
        allowed = other.options(PREDICT, headers=preflight)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == ORIGIN["Origin"]
        strange = other.options(PREDICT, headers={**preflight, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in strange.headers


def test_metrics_and_access_log(guarded: Any) -> None:
    with guarded.client(headers=TOKEN) as client:
        before = client.get("/metrics").text
        # Lines come a little later; those of earlier requests must be there before others are counted.
        until(lambda: guarded.access and json.loads(guarded.access[-1])["path"] == "/metrics")
        begin = len(guarded.access)
        assert client.post(PREDICT, json={"text": "harbour of my secret diary"}).status_code == 200
        client.post(PREDICT, json={"texts": TEXTS})
        client.post(PREDICT, json={"k": 1})
        client.get("/v1/secret?text=diary")
        version = client.get("/v1/models/texts").json()["version"]
        page = client.get("/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=")
        route = 'route="/v1/models/{name}/predict"'
        for line, more in {
            f'labelprism_requests_total{{method="POST",{route},status="200"}}': 2,
            f'labelprism_requests_total{{method="POST",{route},status="422"}}': 1,
            'labelprism_requests_total{method="GET",route="other",status="404"}': 1,
            f'labelprism_request_seconds_bucket{{le="10.0",{route}}}': 3,
            'labelprism_batch_rows_sum{model="texts"}': 101,
            f'labelprism_model_info{{model="texts",version="{version}"}}': 0,
            "labelprism_queue_rows": 0,
        }.items():
            assert value_of(page.text, line) - value_of(before, line) == more, line
        assert value_of(page.text, f'labelprism_model_info{{model="texts",version="{version}"}}') == 1
        assert "process_resident_memory_bytes" in page.text
        until(lambda: len(guarded.access) >= begin + 6)
    entries = [json.loads(line) for line in guarded.access[-6:]]
    assert [entry["status"] for entry in entries] == [200, 200, 422, 404, 200, 200]
    assert entries[1] | {"path": PREDICT, "rows": 100, "model": "texts", "method": "POST"} == entries[1]
    assert all(entry["ms"] > 0 and entry["client"] == "127.0.0.1" for entry in entries)
    said = "\n".join(guarded.access + guarded.log)
    assert "diary" not in said
    assert "s3cret" not in said


def test_mistakes_on_the_command_line(models: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    texts = str(models["texts"])
    taken = socket.create_server(("127.0.0.1", 0))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "meta.json").write_text("{}")
    for arguments, code, told in [
        ([], 2, "needs the folder of a model"),
        ([texts, texts], 2, "two models have the name texts"),
        (["--model", "x"], 2, "expected NAME=FOLDER"),
        (["--model", f"a/b={texts}"], 2, "cannot be part of an address"),
        ([texts, "--token", "ü"], 2, "printable ASCII"),
        ([texts, "--max-body", "5"], 2, "max_body"),
        ([str(tmp_path / "none")], 4, "there is no model here"),
        ([str(tmp_path / "damaged"), "--workers", "2"], 4, "not the description of a model"),
        ([texts, "--port", str(taken.getsockname()[1])], 5, "in use"),
    ]:
        port = [] if "--port" in arguments else ["--port", "0"]
        handler = signal.getsignal(signal.SIGTERM)
        try:
            assert main(["serve", *port, *arguments]) == code, arguments
        finally:
            signal.signal(signal.SIGTERM, handler)
        assert told in capsys.readouterr().err
    taken.close()


# ------------------------------------------------------------------------------------------------------------- limits


def test_overload_then_recovery_then_shutdown(start: Any, models: dict[str, Path]) -> None:
    """Too much is refused with a time to come back; when told to end, the server finishes what it has accepted."""
    flags = ["--max-queue", "3000", "--deadline-ms", "60000"]
    body = {"texts": TEXTS * 5, "k": 8, "probabilities": True}
    with start(str(models["texts"]), *flags) as server, server.client() as client:
        with under_load(server, 12, body) as statuses:
            until(lambda: statuses[429] > 30 and statuses[200] > 5)
            asked = (client.post(PREDICT, json=body) for _ in range(1000))
            refused = next(answer for answer in asked if answer.status_code == 429)
        assert refused.headers["retry-after"] == "1"
        assert "rows wait already" in refused.json()["error"]
        assert set(statuses) == {200, 429}
        assert [client.post(PREDICT, json={"text": text}).status_code for text in TEXTS[:20]] == [200] * 20
        assert metric(client, "labelprism_queue_rows") == 0

        def ask() -> Any:
            with server.client() as another:
                return another.post(PREDICT, json=body)

        with ThreadPoolExecutor(5) as threads:
            waiting = [threads.submit(ask) for _ in range(5)]
            # All must have been accepted: a connection that has sent nothing yet is closed. A fast machine may be done.
            until(lambda: metric(client, "labelprism_queue_rows") >= 500 * sum(not each.done() for each in waiting))
            assert server.stop() == 0
            answers = [each.result() for each in waiting]
        assert [answer.status_code for answer in answers] == [200] * 5
        assert all(len(answer.json()["predictions"]) == 500 for answer in answers)
        assert "requests at hand were finished" in server.log[-1]


def test_slow_bodies_and_too_many_connections(start: Any, models: dict[str, Path]) -> None:
    with start(str(models["texts"]), "--timeout", "0.5", "--max-connections", "5") as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port)) as slow:
            slow.sendall(b"POST /v1/models/texts/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            slow.sendall(b"Content-Length: 100\r\n\r\n{")
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not arrive in time" in answer
        clients = [server.client() for _ in range(8)]
        try:
            found = [client.get("/v2/health/live") for client in clients]
            assert [answer.status_code for answer in found] == [200] * 5 + [503] * 3
            assert found[5].json()["code"] == "too_many_connections"
            assert "--max-connections" in found[5].json()["error"]
            assert (found[5].headers["retry-after"], found[5].headers["connection"]) == ("1", "close")
            assert [client.get("/v2/health/live").status_code for client in clients[:5]] == [200] * 5
            clients[0].close()
            until(lambda: clients[5].get("/v2/health/live").status_code == 200)
        finally:
            for client in clients:
                client.close()


# ------------------------------------------------------------------------------------------------------- new models


def test_a_model_that_is_replaced_is_taken_over_without_a_lost_request(start: Any, tmp_path: Path) -> None:
    train_texts(tmp_path / "texts", seed=0)
    with start(str(tmp_path / "texts"), "--reload-seconds", "0.1") as server, server.client() as client:

        def version() -> str:
            found: str = client.get("/v1/models/texts").json()["version"]
            return found

        seen = [version()]
        with under_load(server, 4, {"text": TEXTS[0]}) as statuses:
            for seed in (1, 2, 3):
                train_texts(tmp_path / "texts", seed=seed)
                until(lambda: version() != seen[-1])
                seen.append(version())
        assert len(set(seen)) == 4
        assert set(statuses) == {200}
        for file in (tmp_path / "texts").iterdir():  # a damaged model: the one at hand goes on
            if file.name == "meta.json":
                file.write_text("{}")
        until(lambda: any("the old one goes on" in line for line in server.log))
        assert version() == seen[-1]
        assert client.post(PREDICT, json={"text": TEXTS[0]}).status_code == 200
        page = client.get("/metrics").text
        assert 'labelprism_model_reloads_total{model="texts",result="loaded"} 3.0' in page
        assert 'labelprism_model_reloads_total{model="texts",result="failed"} 1.0' in page
        assert f'labelprism_model_info{{model="texts",version="{seen[0]}"}} 0.0' in page
        assert f'labelprism_model_info{{model="texts",version="{seen[3]}"}} 1.0' in page


# ------------------------------------------------------------------------------------------------------------ workers


def workers_of(server: Any) -> list[int]:
    pid = server.process.pid
    return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc, which is Linux's")
def test_workers_share_the_model_and_are_replaced(start: Any, models: dict[str, Path]) -> None:
    with start(str(models["texts"]), "--workers", "2") as server, server.client() as client:
        assert client.post(PREDICT, json={"text": TEXTS[0]}).status_code == 200
        mapped = f"{models['texts']}/label_pairs.npy"
        until(lambda: all(mapped in Path(f"/proc/{pid}/maps").read_text() for pid in workers_of(server)))
        before = workers_of(server)
        assert len(before) == 2
        with under_load(server, 6, {"text": TEXTS[0]}) as statuses:
            until(lambda: statuses[200] > 50)
            os.kill(before[0], signal.SIGKILL)
            at_death = statuses[200]
            # The dead one counts among the children until it is waited for: that there are two says nothing.
            until(lambda: statuses[200] > at_death + 100 and len(set(workers_of(server)) - {before[0]}) == 2)
        broken = sum(count for told, count in statuses.items() if told != 200)
        assert broken <= 6  # a request for each connection at most, and no answer that is not 200
        assert {told for told in statuses if isinstance(told, int)} == {200}
        assert any("another takes its place" in line for line in server.log)
        count = metric(
            client, 'labelprism_requests_total{method="POST",route="/v1/models/{name}/predict",status="200"}'
        )
        assert count > at_death  # of all workers together, the dead one too
        now = workers_of(server)
        assert server.stop() == 0
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in now))


def test_a_worker_ends_with_its_supervisor(models: dict[str, Path]) -> None:
    """The pipe that settings come by stays open as long as the supervisor lives."""
    listening = socket.create_server(("127.0.0.1", 0))
    settings = ServeSettings(models={"texts": str(models["texts"])}, workers=2)
    worker = subprocess.Popen(
        [sys.executable, "-m", "labelprism.serve.worker", str(listening.fileno()), "20"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[listening.fileno()],
    )  # fmt: skip
    try:
        assert worker.stdin is not None
        worker.stdin.write(settings.to_json().encode() + b"\n")
        worker.stdin.flush()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{PREDICT}"
        assert httpx.post(url, json={"text": TEXTS[0]}, timeout=60).status_code == 200
        _, told = worker.communicate(timeout=30)  # closes the pipe
        assert (worker.returncode, b"requests at hand were finished" in told) == (0, True)
    finally:
        worker.kill()
        listening.close()


def test_workers_are_refused_where_they_cannot_share_a_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from labelprism.serve.run import run
    from labelprism.serve.settings import ServeSettings

    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ValueError, match="workers cannot share a socket on Windows"):
        run(ServeSettings(models={"texts": str(tmp_path)}, workers=2))
