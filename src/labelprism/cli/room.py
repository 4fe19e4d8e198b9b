"""Where a training finds room: memory, or files for large arrays, by `--memory-limit` and `--scratch`."""

from __future__ import annotations

import logging
import tempfile
from typing import Any, NamedTuple

from labelprism._memory import Needs, memory_needs, parsed_bytes
from labelprism._threads import thread_count
from labelprism.cli.settings import UsageError
from labelprism.cli.tables import size
from labelprism.data import Dataset
from labelprism.recipe_settings import PRESETS

__all__ = ["ALL_MEMORY", "Room", "scratch_folder"]

logger = logging.getLogger("labelprism")


class Room(NamedTuple):
    """What the command line says of it."""

    memory_limit: str | None
    scratch: str | None
    checkpoint: str | None


ALL_MEMORY = Room(None, None, None)


def scratch_folder(room: Room, dataset: Dataset, model: Any, data: str) -> str | None:
    """Return where large arrays are to lie in files; None: they lie in memory.

    Parameters
    ----------
    room : Room
    dataset : Dataset
        What is learned from.
    model : PrismClassifier
        Not fitted yet.
    data : str
        The file of the data, for messages.
    """
    if room.memory_limit is None:
        return room.scratch
    try:
        limit = parsed_bytes(room.memory_limit)
    except ValueError as error:
        raise UsageError(f"--memory-limit: {error}") from error
    needs = _needs(dataset, model)
    held = 0 if dataset.path is not None else _bytes_of(dataset)
    in_memory, with_scratch = (needed + held for needed in needs)
    told = f"--memory-limit {room.memory_limit}: this training takes about {size(in_memory)} of memory"
    if in_memory <= limit:
        logger.info("%s", told)
        return None
    if with_scratch <= limit:
        folder = room.scratch or tempfile.gettempdir()
        logger.info("%s, or %s with large arrays in files, which go to %s", told, size(with_scratch), folder)
        return folder
    first = f"; convert the data first (labelprism convert {data} {data}.ds), which saves {size(held)}" if held else ""
    raise UsageError(f"{told}, or {size(with_scratch)} with large arrays in files, which is the least{first}")


def _needs(dataset: Dataset, model: Any) -> Needs:
    if dataset.X is None or not hasattr(dataset.X, "nnz") or not model._uses_recipe():
        raise UsageError(
            "--memory-limit goes with sparse rows and all presets but paper. labelprism convert --features "
            "makes rows of texts; --scratch alone goes with all data"
        )
    return memory_needs(
        dataset.X, dataset.Y, PRESETS[model.preset].for_objective(model.objective), thread_count(model.n_jobs)
    )


def _bytes_of(dataset: Dataset) -> int:
    """Return what data take that were read into memory."""
    matrices: list[Any] = [dataset.X, dataset.Y]
    return sum(part.nbytes for matrix in matrices for part in (matrix.data, matrix.indices, matrix.indptr))
