"""Large arrays in files instead of memory, for as long as a block of code lasts; see src/core/large_memory.hpp."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labelprism import _core

_TMPFS = "tmpfs", "ramfs"


@contextmanager
def scratch_files(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Let arrays of 1 MB and more that are made in a block lie in files, which vanish with the arrays.

    Nothing else changes: neither code nor results. It holds for the native code of the whole process, and for NumPy in
    this context. Linux only.

    Parameters
    ----------
    folder : path-like or None
        Where the files lie, on a disk; None: in memory, as always.

    Raises
    ------
    ValueError
        If the system is not Linux, or the folder lies in memory.
    OSError
        If a file cannot be made, for example because the disk is full.
    """
    if folder is None:
        yield
        return
    if sys.platform != "linux":
        raise ValueError("large arrays can lie in files on Linux only; train without scratch or a memory limit")
    path = Path(folder).resolve()
    _check_folder(path)
    _core.taken_scratch_error()
    _core.use_scratch(str(path))
    before = _core.use_array_memory()
    try:
        yield
    except MemoryError as error:
        number = _core.taken_scratch_error()
        if number:
            raise OSError(number, f"no room for a large array: {os.strerror(number)}", str(path)) from error
        raise
    finally:
        _core.restore_array_memory(before)
        _core.use_scratch("")


def _check_folder(path: Path) -> None:
    with tempfile.TemporaryFile(dir=path):  # whether it is there and can be written to, in the system's words
        pass
    if _file_system(path) in _TMPFS:
        raise ValueError(f"{path} lies in memory itself (tmpfs); choose a folder on a disk for large arrays")


def _file_system(path: Path) -> str:
    """Return the kind of file system that a folder lies on; an empty string where the system does not tell."""
    device = path.stat().st_dev
    try:
        with Path("/proc/self/mountinfo").open(encoding="utf-8") as lines:
            for line in lines:
                head, _, tail = line.partition(" - ")
                major, minor = map(int, head.split()[2].split(":"))
                if os.makedev(major, minor) == device:
                    return tail.split()[0]
    except OSError:
        pass
    return ""
