"""Reader and writer of data sets as matrix files: sparse `.npz` as scipy saves it, dense `.npy` as numpy saves it.

Nothing in such a file is believed: pickles are refused, and index arrays are checked to be in range before any
compiled code follows them.
"""

from __future__ import annotations

import errno
import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy_format

from labelprism._arrays import Float32, as_label_matrix, is_sparse
from labelprism.data.dataset import Dataset, as_features
from labelprism.data.files import COMPRESSED_SUFFIXES, StrPath, reading, text_lines, writing_together
from labelprism.errors import DataFormatError

LABEL_NAMES_FILE = "labels.txt"
"""The file beside `X` that has the names of the labels."""

_ZIP_MAGIC = b"PK\x03\x04"
_NPY_MAGIC = b"\x93NUMPY"
_INDEX_ARRAYS = ("indices", "indptr", "row", "col", "coords")


def read_npz(path: StrPath, labels_path: StrPath | None = None) -> Dataset:
    """Read features and labels from two matrix files.

    Label names are taken from a file `labels.txt` beside `X`, if there is one with a line for each label: the line
    is the name, or, where each line is `id TAB name` and the names alone are unique, what follows the TAB.

    Parameters
    ----------
    path : path-like
        `X`: a sparse matrix saved by `scipy.sparse.save_npz`, or a dense one saved by `numpy.save`; either may be
        compressed once more with gzip, xz or zstd.
    labels_path : path-like, optional
        `Y`, saved in the same way. When left out, the file beside `X` with "Y" in its name instead of "X": `Y.npz`
        for `X.npz`, `Y_trn.npz` for `X_trn.npz` and also for `X_trn.npy`.

    Returns
    -------
    Dataset
        With `X`, `Y` and, where there are any, `label_names`.
    """
    path = Path(path)
    if labels_path is None:
        labels_path = _labels_path_of(path)
        if not labels_path.exists():
            message = f"the labels that belong to {path.name} are expected here; else give labels_path"
            raise FileNotFoundError(errno.ENOENT, message, str(labels_path))
    labels_path = Path(labels_path)
    X = read_matrix(path)
    with _faults_told(labels_path):
        Y = as_label_matrix(_read_matrix(labels_path))
    if X.shape[0] != Y.shape[0]:
        message = f"Y has {Y.shape[0]} rows, but X has {X.shape[0]} in {path}; two files of one data set are expected"
        raise DataFormatError(message, labels_path)
    return Dataset(X=X, Y=Y, label_names=_read_names(path.with_name(LABEL_NAMES_FILE), Y.shape[1]))


def read_matrix(path: StrPath) -> sp.csr_array | Float32:
    """Read the matrix of one file, as `read_npz` does, without labels.

    Parameters
    ----------
    path : path-like
        A sparse matrix saved by `scipy.sparse.save_npz`, or a dense one saved by `numpy.save`, compressed or not.

    Returns
    -------
    csr_array or float32 array of shape (n, d)
    """
    path = Path(path)
    with _faults_told(path):
        return as_features(_read_matrix(path))


def write_npz(dataset: Dataset, path: StrPath, labels_path: StrPath | None = None) -> None:
    """Write features and labels as two matrix files, so that `read_npz` reads them; texts are not written.

    Label names go to a file `labels.txt` beside `X`, which the parts of a data set (training, test) share. Old files
    are replaced only once all the new ones are complete.

    Parameters
    ----------
    dataset : Dataset
        With `X`.
    path : path-like
        Where `X` goes: a name in `.npz` when it is sparse, in `.npy` when it is dense; with `.gz`, `.xz` or `.zst`
        after it, the file is compressed as a whole.
    labels_path : path-like, optional
        Where `Y` goes, another file than `X`, with a name in `.npz`; when left out, as in `read_npz`.

    Raises
    ------
    FileExistsError
        When `labels.txt` is there and has other names, which may be those of another data set.
    """
    path = Path(path)
    X = dataset.X
    if X is None:
        raise ValueError("the data set has no matrix X to write; write_jsonl writes one that has texts")
    _check_ending(path, ".npz" if is_sparse(X) else ".npy", "a sparse X" if is_sparse(X) else "a dense X")
    labels_path = _labels_path_of(path) if labels_path is None else Path(labels_path)
    _check_ending(labels_path, ".npz", "Y")
    if labels_path.resolve() == path.resolve():
        raise ValueError(f"X and Y cannot go to the same file, {path}; give another labels_path")
    names_path = path.with_name(LABEL_NAMES_FILE)
    names = None if dataset.label_names is None else _names_to_write(dataset.label_names, names_path)
    with writing_together(path, labels_path, *([] if names is None else [names_path])) as streams:
        _write_matrix(X, streams[0], path)
        _write_matrix(dataset.Y, streams[1], labels_path)
        if names is not None:
            streams[2].write(names)


def _labels_path_of(path: Path) -> Path:
    """Return where the labels that belong to the features at `path` are expected."""
    name = path.name
    if not (name.startswith("X") or name.count("X") == 1):
        raise ValueError(f"the name {name!r} has no X that could become the Y of its labels; give labels_path")
    # Labels are always sparse, whatever the features are.
    return path.with_name(name.replace("X", "Y", 1).replace(".npy", ".npz"))


# ---------------------------------------------------------------- reading


@contextmanager
def _faults_told(path: Path) -> Iterator[None]:
    """Tell whatever goes wrong while a matrix is read as a `DataFormatError` with the path.

    A damaged or forged file can make zipfile, numpy and scipy raise nearly anything, hence `Exception`. What the
    operating system or a missing package says is no fault of the file and stays.
    """
    try:
        yield
    except (DataFormatError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: forged offset in a zip
            raise
        message = f"the matrix cannot be read: {error or type(error).__name__}; if the file is damaged, copy it again"
        raise DataFormatError(message, path) from error


def _read_matrix(path: Path) -> Any:
    """Return the sparse or dense matrix in a file, in bounds but otherwise as it is there."""
    with reading(path) as stream:
        # Zip files are read from their end, so what comes out of a decompressor must be in memory as a whole.
        file = stream if stream.seekable() else io.BytesIO(stream.read())
        magic = file.read(len(_NPY_MAGIC))
        file.seek(0)
        if magic.startswith(_ZIP_MAGIC):
            _refuse_fractional_indices(file)
            return _in_bounds(sp.load_npz(file))
        if magic == _NPY_MAGIC:
            return np.load(file, allow_pickle=False)
    raise DataFormatError("a matrix file is expected, sparse (.npz) or dense (.npy); this is neither", path)


def _refuse_fractional_indices(file: Any) -> None:
    """Refuse a sparse matrix whose index arrays do not hold integers, and rewind: scipy would cut off the fractions."""
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.removesuffix(".npy") not in _INDEX_ARRAYS:
                continue
            with archive.open(name) as member:
                is_short = npy_format.read_magic(member) == (1, 0)
                header = npy_format.read_array_header_1_0 if is_short else npy_format.read_array_header_2_0
                _, _, dtype = header(member)
            if dtype.kind not in "iu":
                raise ValueError(f"the array {name!r} must hold integers, got values of type {dtype}")
    file.seek(0)


def _in_bounds(matrix: Any) -> Any:
    """Return `matrix`, made sure that its indices stay inside: scipy checks this only when told to."""
    if matrix.format not in ("csr", "csc", "coo"):
        raise ValueError(f"the sparse format is {matrix.format!r}; save it with scipy.sparse.save_npz(path, X.tocsr())")
    if matrix.format != "coo":  # which scipy always checks
        matrix.check_format(full_check=True)
    return matrix


def _read_names(path: Path, n_labels: int) -> list[str] | None:
    """Return the names of the labels; None, with a warning where there is a file, if it has no name for each."""
    if not path.is_file():
        return None
    lines = [line for _, line in text_lines(path)]
    if len(lines) != n_labels:
        reason = f"it has {len(lines)} lines, and Y has {n_labels} columns"
    elif len(set(lines)) != n_labels:
        reason = "a line occurs twice, and names must be unique"
    else:
        return _without_ids(lines)
    warnings.warn(f"{path} is not used for the names of the labels: {reason}", stacklevel=3)
    return None


def _without_ids(lines: list[str]) -> list[str]:
    """Return what follows the TAB of each line, if that is one and makes good names; else the lines."""
    if all(line.count("\t") == 1 for line in lines):
        names = [line.partition("\t")[2] for line in lines]
        if all(names) and len(set(names)) == len(names):
            return names
    return lines


# ---------------------------------------------------------------- writing


def _write_matrix(matrix: Any, stream: io.BufferedWriter, path: Path) -> None:
    if is_sparse(matrix):
        # Compressing what is compressed already costs time and gains nothing.
        sp.save_npz(stream, matrix, compressed=path.suffix not in COMPRESSED_SUFFIXES)
    else:
        np.save(stream, matrix, allow_pickle=False)


def _names_to_write(names: Sequence[str], path: Path) -> bytes | None:
    """Return what `path` has to hold; None if it is there already and has these names."""
    for name in names:
        if any(character in name for character in "\t\n\r\0") or (name == names[0] and name.startswith("\ufeff")):
            raise ValueError(f"the label name {name!r} holds a character that {LABEL_NAMES_FILE} cannot hold")
    try:
        content = "".join(f"{name}\n" for name in names).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"a label name holds half of a surrogate pair, which UTF-8 cannot hold: {error}") from error
    if not path.exists():
        return content
    if _without_ids([line for _, line in text_lines(path)]) != list(names):
        message = "this file has other label names than the data set; delete it, or write into another folder"
        raise FileExistsError(errno.EEXIST, message, str(path))
    return None


def _check_ending(path: Path, ending: str, what: str) -> None:
    name = path.with_suffix("").name if path.suffix in COMPRESSED_SUFFIXES else path.name
    if not name.endswith(ending):
        raise ValueError(f"{what} is written to a file in {ending}, got {path.name!r}")
