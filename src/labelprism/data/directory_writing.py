"""Writing of data sets as directories of arrays, in bounded memory: arrays grow in their files as the rows come.

The memory is that of one piece, some 20 MB, and of the names of the labels; one line of a file is always held as a
whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numpy.lib import format as npy_format

from labelprism._array_directory import DATASET, entry_of, filling, write_meta
from labelprism._progress import ProgressBar
from labelprism._string_arrays import packed_strings
from labelprism.data.dataset import Dataset
from labelprism.data.detect import detect_format
from labelprism.data.directory import open_directory
from labelprism.data.files import StrPath
from labelprism.data.matrices import read_npz
from labelprism.data.pieces import Columns, Piece, jsonl_pieces, sparse_text_pieces, tsv_pieces

_NUMBERS_PER_STEP = 1 << 20
_ROWS_PER_STEP = 1 << 13

_PIECES: dict[str, Callable[..., Columns]] = {
    "sparse text": sparse_text_pieces,
    "tsv": tsv_pieces,
    "jsonl": jsonl_pieces,
}


def convert_to_directory(source: StrPath, target: StrPath, **options: Any) -> None:
    """Write any data set that `load` reads as a directory that `Dataset.open` opens, in one pass over it.

    Text files are read piece by piece, in memory that does not grow with them but for the names of the labels; matrix
    files are loaded. What is opened is equal to what `load` reads.

    Parameters
    ----------
    source : path-like
        The file.
    target : path-like
        The directory; an older data set there is replaced in one step, once the new one is whole.
    **options
        As for the reader of the format of the source.
    """
    format = detect_format(source)
    if format in _PIECES:
        with _writing(target) as writer:
            writer.finish(_PIECES[format](source, writer.add, **options))
    else:
        reader = read_npz if format == "npz" else open_directory
        write_directory(reader(source, **options), target)


def write_directory(dataset: Dataset, path: StrPath) -> None:
    """Write a data set as a directory that `Dataset.open` opens.

    Parameters
    ----------
    dataset : Dataset
    path : path-like
        The directory; an older data set there is replaced in one step, once the new one is whole.
    """
    X: Any = dataset.X
    Y = dataset.Y
    with _writing(path) as writer:
        if sp.issparse(X):
            writer.array("x_indptr", np.int64).append(X.indptr)
            writer.array("x_indices", np.int32).append(X.indices)
            writer.array("x_data", np.float32).append(X.data)
        elif X is not None:
            writer.array("x", np.float32, X.shape[1]).append(X)
        writer.array("y_indptr", np.int64).append(Y.indptr)
        writer.array("y_indices", np.int32).append(Y.indices)
        if dataset.texts is not None:
            writer.begin_strings("texts")
            for begin in range(0, dataset.n_rows, _ROWS_PER_STEP):
                writer.add_strings("texts", dataset.texts[begin : begin + _ROWS_PER_STEP])
        writer.finish(Columns(dataset.n_features, dataset.n_labels, dataset.label_names))


class GrowingArray:
    """An array in a `.npy` file whose length is known only at the end.

    Parameters
    ----------
    path : Path
        A new file.
    dtype : type
    width : int, optional
        The number of columns, for an array of two dimensions.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self._row_shape = () if width is None else (width,)
        self._file = path.open("w+b")
        self.size = 0  # in rows
        self._write_header()
        self._begin = self._file.tell()

    def append(self, numbers: npt.NDArray[Any]) -> None:
        """Add numbers at the end; a step at a time where they must become another type, or lie in a file."""
        step = max(1, _NUMBERS_PER_STEP // max(1, *self._row_shape, 1))
        for begin in range(0, len(numbers), step):
            part = np.ascontiguousarray(numbers[begin : begin + step], dtype=self.dtype)
            self._file.write(part.data if part.size else b"")
        self.size += len(numbers)

    def part(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return some of the numbers of an array of one dimension."""
        self._file.seek(self._begin + begin * self.dtype.itemsize)
        return np.frombuffer(self._file.read((end - begin) * self.dtype.itemsize), self.dtype)

    def overwrite(self, begin: int, numbers: npt.NDArray[Any]) -> None:
        """Put other numbers in the place of those from `begin` on; nothing can be appended after it."""
        self._file.seek(self._begin + begin * self.dtype.itemsize)
        self._file.write(np.ascontiguousarray(numbers, dtype=self.dtype).data)

    def finish(self) -> dict[str, Any]:
        """Write the header once more, now with the length, and return the entry of the file in `meta.json`."""
        self._file.seek(0)
        self._write_header()
        if self._file.tell() != self._begin:
            raise RuntimeError("NumPy wrote a header of another length, over the first numbers")
        self._file.flush()
        os.fsync(self._file.fileno())
        return entry_of(self.path, self.dtype, self._shape)

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()

    @property
    def n_bytes(self) -> int:
        """The size of the numbers."""
        return self.dtype.itemsize * int(np.prod(self._shape, dtype=object))

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.size, *self._row_shape)

    def _write_header(self) -> None:
        # NumPy leaves room in it, so that its length is the same whatever the number of rows.
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self._shape}
        npy_format.write_array_header_1_0(self._file, header)


@contextmanager
def _writing(path: StrPath) -> Iterator[_Writer]:
    """Give a writer of a data set, which is there at the end of the block, and not before."""
    with filling(path, DATASET) as fresh:
        writer = _Writer(fresh, f"finishing {os.fspath(path)}")
        try:
            yield writer
        finally:
            writer.close()


class _Writer:
    """Gathers a data set in the files of a new directory."""

    def __init__(self, directory: Path, title: str) -> None:
        self._directory = directory
        self._title = title
        self._arrays: dict[str, GrowingArray] = {}

    def array(self, name: str, dtype: npt.DTypeLike, width: int | None = None) -> GrowingArray:
        """Return the array of a name; a new one, the first time."""
        if name not in self._arrays:
            self._arrays[name] = GrowingArray(self._directory / f"{name}.npy", dtype, width)
        return self._arrays[name]

    def add(self, piece: Piece) -> None:
        """Add rows."""
        if piece.x is not None:
            self._add_pointers("x_indptr", piece.x.indptr, self.array("x_indices", np.int32).size)
            self.array("x_indices", np.int32).append(piece.x.indices)
            self.array("x_data", np.float32).append(piece.x.data)
        self._add_pointers("y_indptr", piece.y_indptr, self.array("y_indices", np.int32).size)
        self.array("y_indices", np.int32).append(piece.y_indices)
        if piece.texts is not None:
            self.begin_strings("texts")
            self.add_strings("texts", piece.texts)

    def begin_strings(self, name: str) -> None:
        """Make the arrays of strings, if they are not there yet: there may be none to add."""
        self.array(f"{name}_text", np.uint8)
        if not self.array(f"{name}_offsets", np.int64).size:
            self.array(f"{name}_offsets", np.int64).append(np.zeros(1, np.int64))

    def add_strings(self, name: str, strings: Sequence[str]) -> None:
        """Add strings to those of a name."""
        text, offsets = packed_strings(strings)
        self._add_pointers(f"{name}_offsets", offsets, self.array(f"{name}_text", np.uint8).size)
        self.array(f"{name}_text", np.uint8).append(text)

    def finish(self, columns: Columns) -> None:
        """Give features and labels the numbers that they have in the end, and write what is left."""
        if columns.label_names is not None:
            self.begin_strings("label_names")
            for begin in range(0, columns.n_labels, _ROWS_PER_STEP):
                self.add_strings("label_names", columns.label_names[begin : begin + _ROWS_PER_STEP])
        if columns.first_feature:
            self._shift_features(columns.first_feature)
        if columns.new_label is not None:
            self._renumber_labels(columns.new_label)
        files = {}
        with ProgressBar(sum(array.n_bytes for array in self._arrays.values()), self._title, "B") as bar:
            for name, array in self._arrays.items():
                files[name] = array.finish()
                bar.advance(array.n_bytes)
        description = {
            "rows": self._arrays["y_indptr"].size - 1,
            "features": columns.n_features,
            "labels": columns.n_labels,
        }
        write_meta(self._directory, DATASET, description, files)

    def close(self) -> None:
        """Close all files."""
        for array in self._arrays.values():
            array.close()

    def _add_pointers(self, name: str, pointers: npt.NDArray[np.int64], n_before: int) -> None:
        array = self.array(name, np.int64)
        array.append(pointers[1:] + n_before if array.size else pointers)

    def _shift_features(self, first_feature: int) -> None:
        indices = self._arrays["x_indices"]
        for begin in range(0, indices.size, _NUMBERS_PER_STEP):
            part = indices.part(begin, min(begin + _NUMBERS_PER_STEP, indices.size))
            indices.overwrite(begin, part - np.int32(first_feature))

    def _renumber_labels(self, new_label: npt.NDArray[np.int32]) -> None:
        """Give each label its column, and sort the rows again."""
        indptr, indices = self._arrays["y_indptr"], self._arrays["y_indices"]
        for begin in range(0, indptr.size - 1, _ROWS_PER_STEP):
            pointers = indptr.part(begin, min(begin + _ROWS_PER_STEP, indptr.size - 1) + 1)
            labels = new_label[indices.part(int(pointers[0]), int(pointers[-1]))]
            shape = (pointers.size - 1, new_label.size)
            rows = sp.csr_array((np.ones(labels.size, np.int8), labels, pointers - pointers[0]), shape=shape)
            rows.sort_indices()
            indices.overwrite(int(pointers[0]), rows.indices)
