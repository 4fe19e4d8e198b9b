"""What `/metrics` tells Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector

if TYPE_CHECKING:
    from labelprism.serve.served_model import ServedModel

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client learns, when it is imported, where workers put their numbers together."""

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class ServerMetrics:
    """Counters of one worker, in a registry of their own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "labelprism_requests", "Requests by route and status.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "labelprism_request_seconds",
            "From the first byte of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._batch_rows = Histogram(
            "labelprism_batch_rows", "Rows that were computed together.", ["model"], buckets=_ROWS, registry=registry
        )
        self._queue = Gauge(
            "labelprism_queue_rows", "Rows that wait or are computed.", registry=registry, multiprocess_mode="livesum"
        )
        self._version = Gauge(
            "labelprism_model_info",
            "1 for the version of each model that is served, 0 for those before it.",
            ["model", "version"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._reloads = Counter(
            "labelprism_model_reloads", "Models that were loaded anew.", ["model", "result"], registry=registry
        )
        self._is_alone = MULTIPROCESS_FOLDER not in os.environ
        self._queued: Callable[[], int] = lambda: 0
        self._finished: dict[tuple[str, str, int], tuple[Any, Any]] = {}
        if self._is_alone:
            ProcessCollector(registry=registry)

    def finished(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; methods and routes are few, whatever clients send."""
        key = method, route, status
        found = self._finished.get(key)
        if found is None:
            found = self._requests.labels(method, route, str(status)), self._seconds.labels(route)
            self._finished[key] = found
        found[0].inc()
        found[1].observe(seconds)

    def batch_observer(self, model: str) -> Callable[[int], None]:
        """Return a function that counts the rows of a batch."""
        observe: Callable[[int], None] = self._batch_rows.labels(model).observe
        return observe

    def watch_queue(self, n_rows: Callable[[], int]) -> None:
        """Say how to find the length of the queue."""
        self._queued = n_rows

    def note_queue(self) -> None:
        """Write down the length of the queue; the other workers know only what was written."""
        self._queue.set(self._queued())

    def model_changed(self, model: ServedModel, old: ServedModel | None) -> None:
        """Note a model that was loaded."""
        if old is not None:
            self._reloads.labels(model.name, "loaded").inc()
            self._version.labels(old.name, old.version).set(0)
        self._version.labels(model.name, model.version).set(1)

    def reload_failed(self, name: str) -> None:
        """Note a model that could not be loaded anew."""
        self._reloads.labels(name, "failed").inc()

    def page(self) -> bytes:
        """Return everything in the format of Prometheus, of all workers together."""
        self.note_queue()
        if self._is_alone:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
