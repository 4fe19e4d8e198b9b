"""The model directory: `meta.json` and one `.npy` file for each array, memory-mapped on load, nothing ever executed.

A model is written beside its target and takes the target's place in one step, so that the target is the old model or
the new one at any moment. `meta.json` lists every file with dtype, shape and SHA-256, and files are checked against it
before anything of their size is allocated.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import labelprism
from labelprism.errors import ModelFormatError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

FORMAT_VERSION = 1
Arrays = dict[str, npt.NDArray[Any]]
StrPath = str | os.PathLike[str]

_ALWAYS_VERIFIED = 64 << 20  # bytes; larger models are hashed on load only when asked
_LARGEST_META = 1 << 24
_NAME = re.compile(r"[a-z][a-z0-9_]{0,80}")
_DTYPES = {"|b1", "|i1", "|u1", "<u2", "<u4", "<i4", "<i8", "<f2", "<f4", "<f8"}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2(2)


# ------------------------------------------------------------------------------------------------------------- saving


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
    target = Path(path).resolve()  # what a link points to is replaced, not the link
    if target.exists() and not (target / "meta.json").is_file():
        raise FileExistsError(f"{target} is there and is no model; choose another path or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    _recover(target)
    _sweep(target)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}.new")
    fresh.mkdir()
    lock = _locked(fresh)
    try:
        files = {name: _write_array(fresh / f"{name}.npy", array) for name, array in arrays.items()}
        header = {"format": FORMAT_VERSION, "labelprism": labelprism.__version__}
        _write(fresh / "meta.json", json.dumps({**header, "model": meta, "arrays": files}, indent=1).encode())
        _sync_directory(fresh)
        _take_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # what failed, or the old model
        os.close(lock)
    _sync_directory(target.parent)


def _locked(directory: Path) -> int:
    """Return a descriptor that holds a lock while its process lives: who writes here is not to be swept away."""
    descriptor = os.open(directory, os.O_RDONLY)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _sweep(target: Path) -> None:
    """Remove what processes left that were killed while they saved to the target."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.new"):
        try:
            lock = _locked(left)
        except OSError:  # its writer lives, or has just ended
            continue
        shutil.rmtree(left, ignore_errors=True)
        os.close(lock)


def _recover(target: Path) -> None:
    """Bring back a model that was moved aside by a process that was killed before the new one took its place."""
    if target.exists():
        return
    aside = _moved_aside(target)
    if aside is not None:
        aside.rename(target)


def _moved_aside(target: Path) -> Path | None:
    """Return where the model is while a new one takes its place, on systems that cannot exchange the two."""
    aside = target.parent.glob(f".{glob.escape(target.name)}.*.old")
    found = [path for path in aside if (path / "meta.json").is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _write_array(path: Path, array: npt.NDArray[Any]) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    if not _NAME.fullmatch(path.stem) or array.dtype.str not in _DTYPES:
        raise ValueError(f"cannot store the array {path.stem} of type {array.dtype}")
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": _digest(path)}


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
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
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(fresh), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE)
    return bool(result == 0)


# ------------------------------------------------------------------------------------------------------------ loading


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
    root = Path(path)
    if not root.exists():
        root = _moved_aside(root) or root
    meta = _read_meta(root / "meta.json")
    files = {name: _checked_file(root, name, entry) for name, entry in meta["arrays"].items()}
    if verify is None:
        verify = sum(file.stat().st_size for file in files.values()) < _ALWAYS_VERIFIED
    arrays = {name: _read_array(file, meta["arrays"][name], verify) for name, file in files.items()}
    return meta["model"], arrays


def _read_meta(path: Path) -> dict[str, Any]:
    if not path.is_file() or path.is_symlink():
        raise ModelFormatError("there is no model here: the file is missing, or a link", path)
    if path.stat().st_size > _LARGEST_META:
        raise ModelFormatError(f"larger than {_LARGEST_META} bytes, which no model needs", path)
    try:
        meta = json.loads(path.read_bytes())
        version = meta["format"]
        parts = meta["model"], meta["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"not the description of a model ({error!r})", path) from error
    if version != FORMAT_VERSION:
        raise ModelFormatError(f"format {version!r}; this version reads {FORMAT_VERSION}: update labelprism", path)
    if not all(isinstance(part, dict) for part in parts):
        raise ModelFormatError("not the description of a model", path)
    return dict(meta)


def _checked_file(root: Path, name: str, entry: Any) -> Path:
    """Return the file of an array, whose size is that of its dtype and shape."""
    if not _NAME.fullmatch(name):
        raise ModelFormatError(f"an array has the name {name!r}", root / "meta.json")
    path = root / f"{name}.npy"
    try:
        dtype, shape = entry["dtype"], entry["shape"]
        # type() and not isinstance(): True is no extent
        is_shape = isinstance(shape, list) and len(shape) <= 2 and all(type(n) is int and n >= 0 for n in shape)
        if dtype not in _DTYPES or not is_shape or not isinstance(entry["sha256"], str):
            raise ValueError(f"dtype {dtype!r}, shape {shape!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFormatError(f"the entry of {name} is damaged: {error}", root / "meta.json") from error
    try:
        status = path.lstat()
    except OSError as error:
        raise ModelFormatError("the file is missing", path) from error
    if not stat.S_ISREG(status.st_mode):
        raise ModelFormatError("not a plain file", path)
    bytes_of_array = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    if not bytes_of_array < status.st_size <= bytes_of_array + 4096:
        raise ModelFormatError(f"the file has {status.st_size} bytes, not those of {dtype} {shape}: cut off?", path)
    return path


def _read_array(path: Path, entry: dict[str, Any], verify: bool) -> npt.NDArray[Any]:
    if verify and _digest(path) != entry["sha256"]:
        raise ModelFormatError("the content is not what was saved (SHA-256 differs)", path)
    try:
        array = np.load(path, mmap_mode="r" if np.prod(entry["shape"]) else None, allow_pickle=False)
    except Exception as error:  # NumPy promises no kind: headers are tokenised as Python source
        raise ModelFormatError(f"not an array: {error}", path) from error
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"] or not array.flags.c_contiguous:
        raise ModelFormatError(
            f"holds {array.dtype.str} {list(array.shape)}, not {entry['dtype']} {entry['shape']}", path
        )
    return np.asarray(array)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _old_digest(file)


def _old_digest(file: Any) -> str:  # before Python 3.11
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()
