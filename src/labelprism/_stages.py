"""What a long training has done so far, stage by stage: kept in a folder, or not at all.

A checkpoint is a folder with a directory of arrays for each stage that is done, written as models are: beside its
place, and then put there in one step. Whoever is killed leaves the last stage whole. The stage `training` has no
arrays; it tells of what training they all are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import labelprism
from labelprism._array_directory import (
    STAGE,
    filling,
    locked,
    read_directory,
    write_array,
    write_meta,
)
from labelprism.errors import CheckpointError

__all__ = ["Checkpoint", "NoStages", "Stages", "digest"]

Arrays = Mapping[str, npt.NDArray[Any]]

_DESCRIPTION = "training"
_BLOCK = 1 << 24  # bytes that are hashed at once


class Stages(Protocol):
    """Where stages of a training are kept."""

    is_kept: bool

    def load(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return the arrays of a stage that was saved, or None."""

    def save(self, name: str, arrays: Arrays) -> None:
        """Keep the arrays of a stage, in the place of those that were there before."""


class NoStages:
    """A training that keeps nothing."""

    is_kept = False

    def load(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return None."""
        return None

    def save(self, name: str, arrays: Arrays) -> None:
        """Do nothing."""


class Checkpoint:
    """A folder that keeps the stages of one training.

    Parameters
    ----------
    path : path-like
        Made if it is not there. It must hold a checkpoint or nothing.
    """

    is_kept = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.path.mkdir(parents=True, exist_ok=True)
        is_begun = (self.path / _DESCRIPTION).is_dir()
        # Whoever was killed as he began left the description half-written, under another name.
        others = (path for path in self.path.iterdir() if not path.name.startswith(f".{_DESCRIPTION}."))
        if not is_begun and any(others):
            raise CheckpointError("something is there that is no checkpoint; choose another folder", self.path)
        try:
            self._lock: int | None = locked(self.path)
        except OSError as error:
            raise CheckpointError("another training uses this checkpoint; choose another", self.path) from error
        for left in self.path.glob(".*.new"):  # by a process that was killed; this one alone writes here now
            shutil.rmtree(left, ignore_errors=True)
        self._known = _known(self.path / _DESCRIPTION) if is_begun else None

    @property
    def seed(self) -> int | None:
        """The seed of the training that was begun, if one was."""
        return None if self._known is None else int(self._known["parameters"]["random_state"])

    def begin(self, parameters: Mapping[str, Any], data: Mapping[str, str]) -> None:
        """Make sure that this is a checkpoint of the training at hand, or make it one.

        Parameters
        ----------
        parameters : dict
            All that decides about the result, fit for JSON; among them `random_state`, a number.
        data : dict of str to str
            The digests of all that is learned from.

        Raises
        ------
        CheckpointError
            If it is one of another training; the message names what differs.
        """
        wanted = {"parameters": dict(parameters), "data": dict(data), "labelprism": labelprism.__version__}
        wanted = json.loads(json.dumps(wanted))  # as it will be read: tuples become lists
        if self._known is None:
            self._write(_DESCRIPTION, wanted, {})
            self._known = wanted
        elif self._known != wanted:
            differs = ", ".join(_differences(self._known, wanted))
            raise CheckpointError(
                f"a checkpoint of another training: {differs}. Remove the folder, or choose another", self.path
            )

    def load(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return the arrays of a stage that was saved, mapped into memory, or None."""
        folder = self.path / name
        return read_directory(folder, STAGE)[1] if folder.is_dir() else None

    def save(self, name: str, arrays: Arrays) -> None:
        """Keep the arrays of a stage, in the place of those that were there before."""
        self._write(name, {}, arrays)

    def _write(self, name: str, description: Mapping[str, Any], arrays: Arrays) -> None:
        with filling(self.path / name, STAGE) as fresh:
            files = {key: write_array(fresh / f"{key}.npy", array) for key, array in arrays.items()}
            write_meta(fresh, STAGE, description, files)

    def close(self) -> None:
        """Let others use the checkpoint."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Delete the checkpoint, whose training has come to its end."""
        self.close()
        shutil.rmtree(self.path)


def digest(*arrays: npt.NDArray[Any] | None) -> str:
    """Return a sum that tells arrays from others; made block by block, as they may lie in files."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            total.update(b"none")
            continue
        total.update(f"{array.dtype.str}{array.shape}".encode())
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for begin in range(0, content.size, _BLOCK):
            total.update(content[begin : begin + _BLOCK].data)
    return total.hexdigest()


def _known(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint tells of its training."""
    found, _ = read_directory(folder, STAGE)
    try:
        return {
            "parameters": {**found["parameters"], "random_state": int(found["parameters"]["random_state"])},
            "data": dict(found["data"]),
            "labelprism": str(found["labelprism"]),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"not the description of a training ({error!r}); remove it", folder) from error


def _differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in words what differs between two descriptions."""
    found = []
    if known["labelprism"] != wanted["labelprism"]:
        found.append(f"it is of labelprism {known['labelprism']}, this is {wanted['labelprism']}")
    for name in sorted({*known["parameters"], *wanted["parameters"]}):
        old, new = known["parameters"].get(name), wanted["parameters"].get(name)
        if old != new:
            found.append(f"{name} was {old!r} and is {new!r}")
    for name in sorted({*known["data"], *wanted["data"]}):
        if known["data"].get(name) != wanted["data"].get(name):
            found.append(f"{name} is not the same")
    return found
