"""Directories of arrays: `meta.json` and one `.npy` file for each array, mapped on reading, nothing ever executed.

Models and data sets are such directories. One is written beside its target and takes the target's place in one step, so
that the target is the old one or the new one at any moment. `meta.json` lists every file with dtype, shape and SHA-256,
and files are checked against it before anything of their size is allocated.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import labelprism
from labelprism._progress import ProgressBar
from labelprism.errors import CheckpointError, DataFormatError, ModelFormatError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT_VERSION = 1
Arrays = dict[str, npt.NDArray[Any]]
StrPath = str | os.PathLike[str]

ALWAYS_VERIFIED = 64 << 20  # bytes; larger directories are hashed on reading only when asked
_LARGEST_META = 1 << 24
_NAME = re.compile(r"[a-z][a-z0-9_]{0,80}")
_DTYPES = {"|b1", "|i1", "|u1", "<u2", "<u4", "<i4", "<i8", "<f2", "<f4", "<f8"}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2(2)


class Kind(NamedTuple):
    """What a directory holds."""

    key: str
    """Where `meta.json` has the description of it."""
    noun: str
    error: type[ModelFormatError | DataFormatError | CheckpointError]
    """What is raised when something is wrong; takes a message and a path."""


MODEL = Kind("model", "model", ModelFormatError)
DATASET = Kind("dataset", "data set", DataFormatError)
STAGE = Kind("stage", "stage of a training", CheckpointError)


def is_of_kind(path: StrPath, kind: Kind) -> bool:
    """Tell whether a directory says that it holds a model, or a data set; what it holds may still be damaged.

    Parameters
    ----------
    path : path-like
        Anything, there or not.
    kind : Kind
    """
    file = Path(path) / "meta.json"
    try:
        if not file.is_file() or file.is_symlink() or file.stat().st_size > _LARGEST_META:
            return False
        meta = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(meta, dict) and kind.key in meta


# ------------------------------------------------------------------------------------------------------------- writing


@contextmanager
def filling(path: StrPath, kind: Kind) -> Iterator[Path]:
    """Give a new directory that takes the place of `path` at the end of the block; after an exception, nothing changes.

    Parameters
    ----------
    path : path-like
        Where the directory goes; one of the same kind that is there already is replaced in one step.
    kind : Kind
    """
    target = Path(path).resolve()  # what a link points to is replaced, not the link
    others = {MODEL, DATASET, STAGE} - {kind}
    is_other = not (target / "meta.json").is_file() or any(is_of_kind(target, other) for other in others)
    if target.exists() and is_other:
        raise FileExistsError(f"{target} is there and is no {kind.noun}; choose another path or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    _recover(target)
    _sweep(target)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}.new")
    fresh.mkdir()
    lock = locked(fresh)
    try:
        yield fresh
        _sync_directory(fresh)
        _take_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # what failed, or what was there before
        os.close(lock)
    _sync_directory(target.parent)


def write_array(path: Path, array: npt.NDArray[Any]) -> dict[str, Any]:
    """Write an array to a file of its own, and return its entry in `meta.json`.

    Parameters
    ----------
    path : Path
        The file, whose name is that of the array and `.npy`.
    array : array of one or two dimensions
    """
    array = np.ascontiguousarray(array)
    if not _NAME.fullmatch(path.stem) or array.dtype.str not in _DTYPES:
        raise ValueError(f"cannot store the array {path.stem} of type {array.dtype}")
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return entry_of(path, array.dtype, array.shape)


def entry_of(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the entry in `meta.json` of a file that is complete.

    Parameters
    ----------
    path : Path
    dtype, shape
        Of the array in it.
    """
    return {"dtype": dtype.str, "shape": list(shape), "sha256": _digest(path)}


def write_meta(directory: Path, kind: Kind, description: Mapping[str, Any], files: Mapping[str, Any]) -> None:
    """Write `meta.json`.

    Parameters
    ----------
    directory : Path
        Has all the arrays.
    kind : Kind
    description : dict
        What is to be kept beside the arrays; fit for JSON.
    files : dict of str to dict
        The entries of all arrays.
    """
    header = {"format": FORMAT_VERSION, "labelprism": labelprism.__version__}
    meta = {**header, kind.key: description, "arrays": files}
    with (directory / "meta.json").open("wb") as file:
        file.write(json.dumps(meta, indent=1).encode())
        file.flush()
        os.fsync(file.fileno())


def locked(directory: Path) -> int:
    """Return a descriptor that holds a lock while its process lives: who writes here is not to be swept away."""
    if sys.platform == "win32":  # directories cannot be opened there: a file beside it, which vanishes when closed
        name = directory.with_name(f"{directory.name}.lock")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TEMPORARY)
    else:
        descriptor = os.open(directory, os.O_RDONLY)
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(target: Path) -> None:
    """Remove what processes left that were killed while they wrote the target."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.new"):
        try:
            lock = locked(left)
        except OSError:  # its writer lives, or has just ended
            continue
        shutil.rmtree(left, ignore_errors=True)
        os.close(lock)


def _recover(target: Path) -> None:
    """Bring back a directory that was moved aside by a process that was killed before the new one took its place."""
    if target.exists():
        return
    aside = _moved_aside(target)
    if aside is not None:
        aside.rename(target)


def _moved_aside(target: Path) -> Path | None:
    """Return where a directory is while a new one takes its place, on systems that cannot exchange the two."""
    aside = target.parent.glob(f".{glob.escape(target.name)}.*.old")
    found = [path for path in aside if (path / "meta.json").is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _sync_directory(path: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(fresh: Path, target: Path) -> None:
    """Put a finished directory where the target is; the old one is left where the finished one was."""
    if not target.exists():
        fresh.rename(target)
    elif not _exchanged(fresh, target):  # an old system: for a moment the target is under another name
        aside = fresh.with_suffix(".old")
        target.rename(aside)
        try:
            fresh.rename(target)
        except BaseException:
            aside.rename(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _exchanged(fresh: Path, target: Path) -> bool:
    if sys.platform != "linux":
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(fresh), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE)
    return bool(result == 0)


# ------------------------------------------------------------------------------------------------------------ reading


def read_directory(path: StrPath, kind: Kind, verify: bool | None = None) -> tuple[dict[str, Any], Arrays]:
    """Read a directory; arrays are mapped into memory, not read.

    Parameters
    ----------
    path : path-like
        The directory.
    kind : Kind
    verify : bool, optional
        Whether files are compared with their SHA-256. By default those of directories under 64 MB are.

    Returns
    -------
    description : dict
    arrays : dict of str to array

    Raises
    ------
    ModelFormatError or DataFormatError
        If something is missing, damaged or not what it says it is.
    """
    root = Path(path)
    if not root.exists():
        root = _moved_aside(root) or root
    meta = _read_meta(root / "meta.json", kind)
    files = {name: _checked_file(root, name, entry, kind) for name, entry in meta["arrays"].items()}
    n_bytes = sum(file.stat().st_size for file in files.values())
    if verify or (verify is None and n_bytes < ALWAYS_VERIFIED):
        with ProgressBar(n_bytes, f"checking {os.fspath(path)}", "B") as bar:
            for name, file in files.items():
                if _digest(file) != meta["arrays"][name]["sha256"]:
                    raise kind.error("the content is not what was saved (SHA-256 differs)", file)
                bar.advance(file.stat().st_size)
    arrays = {name: _read_array(file, meta["arrays"][name], kind) for name, file in files.items()}
    return meta[kind.key], arrays


def _read_meta(path: Path, kind: Kind) -> dict[str, Any]:
    if not path.is_file() or path.is_symlink():
        raise kind.error(f"there is no {kind.noun} here: the file is missing, or a link", path)
    if path.stat().st_size > _LARGEST_META:
        raise kind.error(f"larger than {_LARGEST_META} bytes, which no {kind.noun} needs", path)
    try:
        meta = json.loads(path.read_bytes())
        version = meta["format"]
        parts = meta[kind.key], meta["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise kind.error(f"not the description of a {kind.noun} ({error!r})", path) from error
    if version != FORMAT_VERSION:
        raise kind.error(f"format {version!r}; this version reads {FORMAT_VERSION}: update labelprism", path)
    if not all(isinstance(part, dict) for part in parts):
        raise kind.error(f"not the description of a {kind.noun}", path)
    return dict(meta)


def _checked_file(root: Path, name: str, entry: Any, kind: Kind) -> Path:
    """Return the file of an array, whose size is that of its dtype and shape."""
    if not _NAME.fullmatch(name):
        raise kind.error(f"an array has the name {name!r}", root / "meta.json")
    path = root / f"{name}.npy"
    try:
        dtype, shape = entry["dtype"], entry["shape"]
        # type() and not isinstance(): True is no extent
        is_shape = isinstance(shape, list) and len(shape) <= 2 and all(type(n) is int and n >= 0 for n in shape)
        if dtype not in _DTYPES or not is_shape or not isinstance(entry["sha256"], str):
            raise ValueError(f"dtype {dtype!r}, shape {shape!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise kind.error(f"the entry of {name} is damaged: {error}", root / "meta.json") from error
    try:
        status = path.lstat()
    except OSError as error:
        raise kind.error("the file is missing", path) from error
    if not stat.S_ISREG(status.st_mode):
        raise kind.error("not a plain file", path)
    bytes_of_array = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    if not bytes_of_array < status.st_size <= bytes_of_array + 4096:
        raise kind.error(f"the file has {status.st_size} bytes, not those of {dtype} {shape}: cut off?", path)
    return path


def _read_array(path: Path, entry: dict[str, Any], kind: Kind) -> npt.NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r" if np.prod(entry["shape"]) else None, allow_pickle=False)
    except Exception as error:  # NumPy promises no kind: headers are tokenised as Python source
        raise kind.error(f"not an array: {error}", path) from error
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"] or not array.flags.c_contiguous:
        raise kind.error(f"holds {array.dtype.str} {list(array.shape)}, not {entry['dtype']} {entry['shape']}", path)
    if not array.flags.aligned:  # the core reads whole numbers, which must begin where such numbers can
        raise kind.error("the header is of a length that NumPy does not write", path)
    return np.asarray(array)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _old_digest(file)


def _old_digest(file: Any) -> str:  # before Python 3.11
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()
