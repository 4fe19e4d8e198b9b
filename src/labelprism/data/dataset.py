"""`Dataset`: the rows, features, labels and texts that readers return and writers take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Float32, Int64, as_csr, as_label_matrix, gathered_rows, is_sparse


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """Examples with their labels; every part is checked when it is made.

    Parameters
    ----------
    Y : sparse matrix or array-like of shape (n, c)
        Non-zero where the row has the label; kept as a `csr_array` of ones.
    X : sparse matrix or array-like of shape (n, d), optional
        The features; kept as a float32 `csr_array`, or a float32 array when it is dense.
    label_names : sequence of c str, optional
        The name of each column of `Y`, each another one; kept as a tuple.
    texts : sequence of n str, optional
        The text of each row; kept as a list. `X` or `texts` must be there.
    """

    Y: sp.csr_array
    X: sp.csr_array | Float32 | None = None
    label_names: Sequence[str] | None = None
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the way past `frozen`, for this method only
        set_field(self, "Y", as_label_matrix(self.Y))
        if self.X is None and self.texts is None:
            raise ValueError("a Dataset needs X, texts or both; neither was given")
        if self.X is not None:
            set_field(self, "X", as_features(self.X))
            _check_length("X", self.X.shape[0], "rows", self.n_rows)
        if self.texts is not None:
            set_field(self, "texts", _strings("texts", self.texts))
            _check_length("texts", len(self.texts), "rows", self.n_rows)
        if self.label_names is not None:
            set_field(self, "label_names", as_label_names(self.label_names))
            _check_length("label_names", len(self.label_names), "columns", self.n_labels)

    @classmethod
    def open(cls, path: str | PathLike[str], *, verify: bool | None = None) -> Dataset:
        """Open a directory that `labelprism convert` or `write_directory` wrote, without reading it.

        `X`, `Y`, names and texts stay in their files and are read where they are used, so that they may be larger than
        the memory. They are read-only.

        Parameters
        ----------
        path : path-like
            The directory.
        verify : bool, optional
            Whether to call `verify`. By default that is done where the directory has less than 64 MB.
        """
        from labelprism.data.directory import open_directory  # which needs this class

        return open_directory(path, verify)

    @classmethod
    def _of_files(cls, path: Path, **fields: Any) -> Dataset:
        """Return a data set of files, whose parts fit together but were not read."""
        dataset = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(dataset, name, value)
        object.__setattr__(dataset, "_path", path)
        return dataset

    @property
    def path(self) -> Path | None:
        """The directory that the data set was opened from; None where it is in memory."""
        return self.__dict__.get("_path")

    def verify(self) -> None:
        """Read all of an opened data set, in bounded memory, and make sure that it is what was written.

        A data set in memory was checked when it was made; there is nothing to do for it.

        Raises
        ------
        DataFormatError
            When a file has other bytes than were written, or holds what no data set may hold.
        """
        if self.path is not None:
            from labelprism.data.directory import verify_directory

            verify_directory(self)

    @property
    def n_rows(self) -> int:
        """The number of examples."""
        return int(self.Y.shape[0])

    @property
    def n_features(self) -> int | None:
        """The number of columns of `X`, or None without `X`."""
        return None if self.X is None else int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """The number of columns of `Y`."""
        return int(self.Y.shape[1])

    def take(self, rows: npt.ArrayLike) -> Dataset:
        """Return the data set of some of the rows.

        Parameters
        ----------
        rows : array-like of int, or of n bool
            The rows, in the order wanted; or whether to take each row.
        """
        index = self._row_index(rows)
        return Dataset(
            X=self._rows(self.X, index),
            Y=self._rows(self.Y, index),
            label_names=self.label_names,
            texts=None if self.texts is None else [self.texts[row] for row in index.tolist()],
        )

    def with_names_as_rows(self, names: Sequence[str] | None = None) -> Dataset:
        """Return the data set with a row more for each label: what it is called, as a text that has this label alone.

        Where names tell what labels are, that helps those of few examples most, and finds those of none.

        Parameters
        ----------
        names : sequence of c str, optional
            A name or a description of each label; an empty one makes no row. By default `label_names`.
        """
        if self.texts is None or self.X is not None:
            raise ValueError("names become rows of texts; this data set has features, so stack features of the names")
        if names is None and self.label_names is None:
            raise ValueError("this data set has no label_names; give the names of its labels")
        rows = _strings("names", self.label_names if names is None else names)  # type: ignore[arg-type]
        _check_length("names", len(rows), "columns", self.n_labels)
        named = np.flatnonzero([bool(row.strip()) for row in rows])
        own = sp.csr_array((np.ones(named.size), named, np.arange(named.size + 1)), shape=(named.size, self.n_labels))
        return Dataset(
            Y=sp.vstack([self.Y, own], format="csr"),
            label_names=self.label_names,
            texts=[*self.texts, *(rows[label] for label in named.tolist())],
        )

    def names_of(self, label_ids: Iterable[int]) -> list[str]:
        """Return the names of labels; without `label_names`, their column numbers as text.

        Parameters
        ----------
        label_ids : iterable of int
            Columns of `Y`.
        """
        columns = [int(label) for label in label_ids]
        for column in columns:
            if not 0 <= column < self.n_labels:
                raise IndexError(f"there is no label {column}; labels go from 0 to {self.n_labels - 1}")
        if self.label_names is None:
            return [str(column) for column in columns]
        return [self.label_names[column] for column in columns]

    def __repr__(self) -> str:
        per_row = self.Y.nnz / self.n_rows if self.n_rows else 0.0
        parts = [f"{self.n_rows:,} rows" + ("" if self.texts is None else " with texts")]
        if self.X is not None:
            parts.append(f"{self.n_features:,} {'sparse' if is_sparse(self.X) else 'dense'} features")
        parts.append(f"{self.n_labels:,} {'labels' if self.label_names is None else 'named labels'}")
        parts.append(f"{per_row:.2f} labels per row")
        return f"<Dataset: {', '.join(parts)}>"

    def _rows(self, matrix: Any, index: Int64) -> Any:
        if matrix is None or self.path is None or not is_sparse(matrix):
            return None if matrix is None else matrix[index]
        # scipy would copy the whole matrix where its arrays are not all of one kind.
        return gathered_rows(matrix, index)

    def _row_index(self, rows: npt.ArrayLike) -> Int64:
        index = np.asarray(rows)
        if index.ndim != 1:
            raise ValueError(f"rows must be a list or array of one dimension, got {index.ndim}")
        if index.size == 0 and index.dtype != np.bool_:
            index = index.astype(np.int64)  # numpy makes [] an array of floats
        chosen: Int64 = np.arange(self.n_rows)[index]
        return chosen


def as_features(X: Any) -> sp.csr_array | Float32:
    """Return `X` as a float32 `csr_array` when sparse, else as a C-contiguous float32 array; two-dimensional, finite.

    Parameters
    ----------
    X : sparse matrix or array-like of shape (n, d)
        Left unchanged; its memory is shared where it already fits.
    """
    if is_sparse(X):
        return as_csr(X)
    dense = np.asarray(X)
    if dense.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {dense.ndim}")
    if dense.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers, got values of type {dense.dtype}")
    # float32 overflow gives inf, which the check below names; numpy need not warn about it too.
    with np.errstate(over="ignore"):
        dense = np.ascontiguousarray(dense, dtype=np.float32)
    finite_rows = np.isfinite(dense).all(axis=1)
    if not finite_rows.all():
        row = int(np.argmin(finite_rows))
        raise ValueError(f"X holds NaN, infinity or a value beyond float32 in row {row}; clean it before")
    return dense


def as_features_of(estimator: Any, X: Any) -> sp.csr_array | Float32:
    """Return `X` as `as_features` does, made sure to have the features that an estimator was fitted with.

    Parameters
    ----------
    estimator : object
        Fitted; has `n_features_in_`.
    X : sparse matrix or array-like of shape (n, d)
    """
    X = as_features(X)
    if X.shape[1] != estimator.n_features_in_:
        name = type(estimator).__name__
        raise ValueError(f"X has {X.shape[1]} features, but {name} was fitted with {estimator.n_features_in_}")
    return X


def as_label_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return label names as a tuple, made sure to be strings, each another one.

    Parameters
    ----------
    names : iterable of str
        The name of each label.
    """
    names = tuple(_strings("label_names", names))
    column_of = {name: column for column, name in enumerate(names)}
    if len(column_of) != len(names):
        column, name = next((column, name) for column, name in enumerate(names) if column_of[name] != column)
        raise ValueError(
            f"label_names must be unique, but {name!r} names column {column} and column {column_of[name]}; "
            "tell them apart, for example by their ids in brackets"
        )
    return names


def _strings(field: str, values: Iterable[str]) -> list[str]:
    """Return `values` as a list, made sure to hold nothing but strings."""
    if isinstance(values, str):
        raise ValueError(f"{field} must be a list of strings, got one string")
    strings = list(values)
    for position, value in enumerate(strings):
        if not isinstance(value, str):
            raise ValueError(f"{field} must hold strings only; entry {position} is of type {type(value).__name__}")
    return strings


def _check_length(field: str, length: int, axis: str, expected: int) -> None:
    if length != expected:
        raise ValueError(f"{field} has length {length}, but Y has {expected} {axis}; they must agree")
