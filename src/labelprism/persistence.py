"""Models on the disk, as directories of arrays; `labelprism._array_directory` says how these are written and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from labelprism._array_directory import (
    FORMAT_VERSION,
    MODEL,
    Arrays,
    StrPath,
    filling,
    read_directory,
    write_array,
    write_meta,
)

__all__ = ["FORMAT_VERSION", "Arrays", "StrPath", "load_arrays", "save_arrays"]


def save_arrays(path: StrPath, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a model directory; one that is there already is replaced in one step.

    Parameters
    ----------
    path : path-like
        The directory.
    meta : dict
        What is to be kept beside the arrays; fit for JSON.
    arrays : dict of str to array
    """
    with filling(path, MODEL) as fresh:
        files = {name: write_array(fresh / f"{name}.npy", array) for name, array in arrays.items()}
        write_meta(fresh, MODEL, meta, files)


def load_arrays(path: StrPath, verify: bool | None = None) -> tuple[dict[str, Any], Arrays]:
    """Read a model directory; arrays are mapped into memory, not read.

    Parameters
    ----------
    path : path-like
        The directory.
    verify : bool, optional
        Whether files are compared with their SHA-256. By default those of models under 64 MB are.

    Returns
    -------
    meta : dict
    arrays : dict of str to array

    Raises
    ------
    ModelFormatError
        If something is missing, damaged or not what it says it is.
    """
    return read_directory(path, MODEL, verify)
