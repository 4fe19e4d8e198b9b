"""Data sets that stay in their files: a directory of arrays, opened without reading it.

`x_indptr`, `x_indices` and `x_data` are the features, or `x` where they are dense; `y_indptr` and `y_indices` are the
labels; `label_names_*` and `texts_*` are strings, as bytes and offsets. The values of `Y` are all 1 and in no file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._array_directory import ALWAYS_VERIFIED, DATASET, Arrays, is_of_kind, read_directory
from labelprism._arrays import MAX_COLUMNS, Float32, Int32, Int64
from labelprism._progress import ProgressBar
from labelprism._string_arrays import PackedStrings
from labelprism.data.dataset import Dataset, as_label_names
from labelprism.data.files import StrPath
from labelprism.errors import DataFormatError

_NUMBERS_PER_STEP = 1 << 20
_SMALL_INDEX = 2**31 - 1  # the largest index that scipy keeps in 32 bits

_DTYPES = {
    "x": "<f4",
    "x_indptr": "<i8",
    "x_indices": "<i4",
    "x_data": "<f4",
    "y_indptr": "<i8",
    "y_indices": "<i4",
    "label_names_text": "|u1",
    "label_names_offsets": "<i8",
    "texts_text": "|u1",
    "texts_offsets": "<i8",
}


def is_data_directory(path: StrPath) -> bool:
    """Tell whether a path is a directory that says it holds a data set.

    Parameters
    ----------
    path : path-like
    """
    return is_of_kind(path, DATASET)


def open_directory(path: StrPath, verify: bool | None = None) -> Dataset:
    """Open a data set without reading it: what `Dataset.open` does.

    Sizes, types and shapes of all files are compared, and the index pointers are read, 8 bytes a row; all else stays on
    the disk.

    Parameters
    ----------
    path : path-like
        The directory.
    verify : bool, optional
        Whether to call `Dataset.verify`; by default where the directory has less than 64 MB.
    """
    description, arrays = read_directory(path, DATASET, verify=False)
    try:
        dataset = _dataset(Path(path), description, arrays)
    except (ValueError, KeyError, TypeError) as error:
        raise DataFormatError(f"the parts of the data set do not fit together: {error}", path) from error
    if verify or (verify is None and sum(array.nbytes for array in arrays.values()) < ALWAYS_VERIFIED):
        verify_directory(dataset)
    return dataset


def _dataset(path: Path, description: dict[str, Any], arrays: Arrays) -> Dataset:
    n, d, c = (description[name] for name in ("rows", "features", "labels"))
    for name, count in (("rows", n), ("features", d), ("labels", c)):
        limit = 2**62 if name == "rows" else MAX_COLUMNS
        if not (type(count) is int and 0 <= count <= limit) and not (name == "features" and count is None):
            raise ValueError(f"there cannot be {count!r} {name}")
    for name, array in arrays.items():
        if array.dtype.str != _DTYPES.get(name) or array.ndim != (2 if name == "x" else 1):
            raise ValueError(f"there is an array {name} of {array.dtype.str} with {array.ndim} dimensions")
    Y = _csr(arrays["y_indptr"], arrays["y_indices"], _ones(arrays["y_indices"].size), (n, c))
    X = None if d is None else _features(arrays, (n, d))
    names, texts = _strings(arrays, "label_names", c), _strings(arrays, "texts", n)
    if X is None and texts is None:
        raise ValueError("there are neither features nor texts")
    return Dataset._of_files(path, X=X, Y=Y, label_names=names, texts=texts)


def _features(arrays: Arrays, shape: tuple[int, int]) -> sp.csr_array | Float32:
    if "x" not in arrays:
        return _csr(arrays["x_indptr"], arrays["x_indices"], arrays["x_data"], shape)
    if arrays["x"].shape != shape:
        raise ValueError(f"x has shape {arrays['x'].shape}, expected {shape}")
    return arrays["x"]


def _ones(count: int) -> Float32:
    """Return as many ones, in the memory of a single one."""
    return np.broadcast_to(np.float32(1), count)


def _strings(arrays: Arrays, name: str, count: int) -> PackedStrings | None:
    if f"{name}_text" not in arrays:
        return None
    strings = PackedStrings(arrays[f"{name}_text"], arrays[f"{name}_offsets"])
    if len(strings) != count:
        raise ValueError(f"{name} has {len(strings)} strings, expected {count}")
    return strings


def _csr(
    indptr: npt.NDArray[Any], indices: npt.NDArray[Any], data: npt.NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """Return a matrix over files: `indices` and `data` are not copied; scipy alone would make the indices as wide."""
    if indptr.size != shape[0] + 1 or indptr[0] != 0 or indptr[-1] != indices.size or data.size != indices.size:
        raise ValueError(f"{indptr.size} index pointers, {indices.size} indices and {data.size} values for {shape}")
    for begin in range(0, indptr.size, _NUMBERS_PER_STEP):  # scipy's compiled code believes them
        pointers = indptr[begin : begin + _NUMBERS_PER_STEP + 1]
        if (pointers[1:] < pointers[:-1]).any():
            raise ValueError("the index pointers descend")
    if indices.size <= _SMALL_INDEX and max(shape) <= _SMALL_INDEX:
        return sp.csr_array((data, indices, indptr.astype(np.int32)), shape=shape)
    matrix = sp.csr_array(shape, dtype=data.dtype)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, data
    return matrix


# ----------------------------------------------------------------------------------------------------------- verifying


def verify_directory(dataset: Dataset) -> None:
    """Read all files of an opened data set and check what they hold: what `Dataset.verify` does.

    Parameters
    ----------
    dataset : Dataset
        From `open_directory`.
    """
    path = dataset.path
    assert path is not None
    read_directory(path, DATASET, verify=True)
    try:
        X: Any = dataset.X
        if sp.issparse(X):
            _check_csr("X", X.indptr, X.indices, X.data, X.shape[1])
        elif X is not None:
            for begin in range(0, X.shape[0], step := max(1, _NUMBERS_PER_STEP // max(1, X.shape[1]))):
                _check_finite("X", X[begin : begin + step])
        _check_csr("Y", dataset.Y.indptr, dataset.Y.indices, None, dataset.n_labels)
        if dataset.label_names is not None:
            as_label_names(dataset.label_names)
        for _ in dataset.texts or ():  # decodes it
            pass
    except ValueError as error:
        raise DataFormatError(f"{error}; the directory was not written by labelprism", path) from error


def _check_csr(name: str, indptr: Int64 | Int32, indices: Int32, data: Float32 | None, n_columns: int) -> None:
    """Make sure that indices are in range and ascend in each row, and that values are finite; a step at a time."""
    with ProgressBar(indices.size, f"checking {name}", "numbers") as bar:
        for begin in range(0, indices.size, _NUMBERS_PER_STEP):
            end = min(begin + _NUMBERS_PER_STEP, indices.size)
            columns = np.asarray(indices[begin : end + 1])  # one more, to compare across the steps
            if columns.min() < 0 or columns.max() >= n_columns:
                raise ValueError(f"{name} has an index that is not from 0 to {n_columns - 1}")
            first, last = np.searchsorted(indptr, [begin + 1, begin + columns.size])
            starts = np.asarray(indptr[first:last]) - begin
            ascends = np.diff(columns) > 0
            ascends[starts - 1] = True  # where a row begins
            if not ascends.all():
                position = begin + int(np.argmin(ascends))
                row = int(np.searchsorted(indptr, position, side="right")) - 1
                raise ValueError(f"the indices of {name} do not ascend in row {row}")
            if data is not None:
                _check_finite(name, data[begin:end])
            bar.advance(end - begin)


def _check_finite(name: str, values: Float32) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds NaN or infinity")
