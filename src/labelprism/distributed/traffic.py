"""Which bytes travel between workers, phase by phase."""

from __future__ import annotations

from typing import Any

from distributed import WorkerPlugin

PHASES = ("chunks", "split", "spread-growth", "subtree-growth", "centroids", "candidates", "head", "prediction")
"""The phases of a training, and prediction; the names of tasks begin with "labelprism-" and one of these."""

INPUT = "input"
"""The phase of the blocks of X and y themselves, where they have to move before training begins."""


def task_name(phase: str, step: str, token: str, number: int) -> str:
    """Return the name of a task, which the dashboard shows up to the token.

    Parameters
    ----------
    phase : str
        One of `PHASES`.
    step : str
        What it does, in letters and dashes.
    token : str
        Names the training.
    number : int
    """
    return f"labelprism-{phase}-{step}-{token}-{number}"


def phase_of(key: object, token: str) -> str | None:
    """Return the phase of a task of a training; None for tasks of others."""
    name = str(key)
    if f"-{token}-" not in name:
        return None
    return next((phase for phase in PHASES if name.startswith(f"labelprism-{phase}-")), None)


class TrafficCounter(WorkerPlugin):  # type: ignore[misc]
    """Counts what a worker receives from others, by the phase that made it.

    Parameters
    ----------
    token : str
        Names the training whose tasks are counted.
    inputs : frozenset of str
        The names of the blocks of X and y.
    """

    def __init__(self, token: str, inputs: frozenset[str]) -> None:
        self.name = f"labelprism-traffic-{token}"
        self.token, self.inputs = token, inputs
        self.received: dict[str, int] = {}

    def setup(self, worker: Any) -> None:
        """Remember the worker, whose tasks know their sizes."""
        self.worker = worker

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        """Count a result that has come from another worker."""
        if start != "flight" or finish != "memory":
            return
        phase = INPUT if str(key) in self.inputs else phase_of(key, self.token)
        if phase is not None:
            size = int(self.worker.state.tasks[key].get_nbytes())
            self.received[phase] = self.received.get(phase, 0) + size


def received_bytes(name: str, dask_worker: Any = None) -> dict[str, int]:
    """Return what a worker's counter has counted; nothing where it has none. For `Client.run`."""
    counter = dask_worker.plugins.get(name)
    return {} if counter is None else dict(counter.received)
