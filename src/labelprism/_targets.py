"""y of any container as a CSR matrix of labels and their names, and predictions back into the container of y."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import assert_all_finite, column_or_1d

from labelprism._arrays import Int64, as_label_matrix, is_sparse

Classes = npt.NDArray[Any]

_ROW_TYPES: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_KINDS = ("classes", "sparse", "dense", "sets")
_MOST_NAMES_SHOWN = 5


@dataclass(frozen=True)
class TargetFormat:
    """How y was given, which is how `predict` answers.

    Parameters
    ----------
    kind : {"classes", "sparse", "dense", "sets"}
        One class a row; an indicator matrix, sparse or dense; or the names of the labels of each row.
    dtype : str
        That of an indicator matrix, as NumPy writes it.
    container : str
        "matrix" or "array" of scipy; or the type of a row of names.
    """

    kind: Literal["classes", "sparse", "dense", "sets"]
    dtype: str = "<i8"
    container: str = ""

    def __post_init__(self) -> None:
        containers = {"sparse": ("matrix", "array"), "sets": tuple(_ROW_TYPES)}.get(self.kind, ("",))
        if self.kind not in _KINDS or self.container not in containers or np.dtype(self.dtype).kind not in "biuf":
            raise ValueError(f"there is no target {self.kind!r} of {self.dtype!r} in {self.container!r}")

    @property
    def is_exclusive(self) -> bool:
        """Whether a row has exactly one label."""
        return self.kind == "classes"

    def decode(self, Y: sp.csr_array, classes: Classes) -> Any:
        """Return a label matrix as an indicator matrix or as rows of names; for `kind` other than "classes".

        Parameters
        ----------
        Y : csr_array of shape (n, c)
            Stored entries are the labels.
        classes : array of shape (c,)
        """
        if self.kind == "sets":
            row_type = _ROW_TYPES[self.container]
            return [row_type(names) for names in names_by_row(Y.indptr, Y.indices, classes)]
        ones = np.ones(Y.nnz, np.dtype(self.dtype))
        if self.kind == "sparse":
            make = sp.csr_matrix if self.container == "matrix" else sp.csr_array
            return make((ones, Y.indices, Y.indptr), shape=Y.shape)
        return sp.csr_array((ones, Y.indices, Y.indptr), shape=Y.shape).toarray()


class Targets(NamedTuple):
    """The labels of all rows."""

    Y: sp.csr_array
    """(n, c), ones."""
    classes: Classes
    """The names of the labels, (c,)."""
    format: TargetFormat


def encode_targets(y: Any) -> Targets:
    """Read y, whatever its container.

    Parameters
    ----------
    y : sparse or dense indicator matrix of shape (n, c), n tuples or sets of label names, or n classes
        Names and classes may be anything hashable. A matrix says 1 where the row has the label; other values of a
        sparse one count as 1 too.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, (str, bytes)):
        raise ValueError("y is a single string; give a list with the class, or a tuple of labels, of each row")
    if is_sparse(y):
        return _encode_sparse(y)
    rows = _rows_of_names(y)
    if rows is not None:
        return _encode_rows(rows)
    y = _as_array(y)
    if y.ndim == 2 and y.shape[1] != 1:
        return _encode_dense(y)
    return _encode_classes(column_or_1d(y, warn=True))


def encode_known(y: Any, classes: Classes, names: Sequence[str] | None = None) -> sp.csr_array:
    """Return the label matrix of y over labels that are known already; others are left out.

    Parameters
    ----------
    y : as in `encode_targets`
    classes : array of shape (c,)
        The labels.
    names : sequence of str, optional
        The labels of the columns, where y is a matrix; `classes` when left out.
    """
    found = encode_targets(y)
    is_matrix = found.format.kind in ("sparse", "dense")
    if is_matrix and names is None:
        if found.Y.shape[1] != classes.size:
            raise ValueError(f"y has {found.Y.shape[1]} columns, but the model was fitted with {classes.size} labels")
        return found.Y
    column_of = LabelNumbers(classes)
    columns = np.array([column_of.get(name) for name in (found.classes.tolist() if names is None else names)], np.int64)
    entries = found.Y.tocoo()
    known = columns[entries.coords[1]] >= 0 if columns.size else np.zeros(0, bool)
    rows, labels = entries.coords[0][known], columns[entries.coords[1][known]]
    return sp.csr_array((np.ones(rows.size, np.float32), (rows, labels)), shape=(found.Y.shape[0], classes.size))


class LabelNumbers:
    """From the names of labels to their numbers.

    Parameters
    ----------
    classes : array of shape (c,)
        The names.
    """

    def __init__(self, classes: Classes) -> None:
        self._number_of = {name: number for number, name in enumerate(classes.tolist())}

    def get(self, name: Any) -> int:
        """Return the number of a label, -1 if there is none of this name."""
        try:
            return self._number_of.get(name, -1)
        except TypeError as error:
            raise ValueError(f"labels must be hashable, got {name!r}") from error

    def numbers(self, names: Iterable[Any], what: str) -> Int64:
        """Return the numbers of labels, all of which must be known.

        Parameters
        ----------
        names : iterable
        what : str
            How error messages call them.
        """
        if isinstance(names, (str, bytes)):
            raise ValueError(f"{what} must be several labels, got the single string {names!r}; put it into a list")
        listed = names.tolist() if isinstance(names, np.ndarray) else list(names)
        found = np.array([self.get(name) for name in listed], np.int64)
        unknown = [listed[place] for place in np.flatnonzero(found < 0)[:_MOST_NAMES_SHOWN].tolist()]
        if unknown:
            raise ValueError(f"{what} holds labels that the model does not know: {', '.join(map(repr, unknown))}")
        return found


def names_by_row(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], classes: Classes) -> list[list[Any]]:
    """Return the names of the labels of every row.

    Parameters
    ----------
    indptr, indices : int arrays
        Of a label matrix.
    classes : array of shape (c,)
    """
    names, ends = classes[indices].tolist(), indptr.tolist()
    return [names[begin:end] for begin, end in pairwise(ends)]


# ----------------------------------------------------------------------------------------------------------- containers


def _encode_sparse(y: Any) -> Targets:
    Y = as_label_matrix(y, "y")
    if y.dtype.kind in "if" and y.nnz and y.tocsr().data.min() < 0:
        raise ValueError("y holds negative values; an indicator matrix has 1 where the row has the label")
    dtype = y.dtype.newbyteorder("=").str
    container = "matrix" if isinstance(y, sp.spmatrix) else "array"
    return Targets(Y, np.arange(Y.shape[1]), TargetFormat("sparse", dtype, container))


def _encode_dense(y: npt.NDArray[Any]) -> Targets:
    if y.ndim != 2:
        raise ValueError(f"y has {y.ndim} dimensions; expected classes (1) or an indicator matrix (2)")
    if y.dtype.kind not in "biuf":
        raise ValueError(
            f"y is a matrix of {y.dtype}; give an indicator matrix, or a tuple of label names for each row"
        )
    assert_all_finite(y, input_name="y")
    if not ((y == 0) | (y == 1)).all():
        raise ValueError("Unknown label type: y has several columns, but holds other values than 0 and 1")
    return Targets(as_label_matrix(y, "y"), np.arange(y.shape[1]), TargetFormat("dense", y.dtype.newbyteorder("=").str))


def _encode_classes(y: npt.NDArray[Any]) -> Targets:
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
        if (y != np.floor(y)).any():
            raise ValueError("Unknown label type: continuous. y holds fractions; a classifier needs classes")
    if y.dtype == object:
        classes, numbers = _unique_objects(y.tolist())
    else:
        if y.dtype.kind in "mM" and np.isnat(y).any():
            raise ValueError("y holds dates that are missing (NaT); leave such rows out")
        classes, numbers = np.unique(y, return_inverse=True)
    ends = np.arange(numbers.size + 1)
    Y = sp.csr_array((np.ones(numbers.size, np.float32), numbers, ends), shape=(numbers.size, classes.size))
    return Targets(Y, classes, TargetFormat("classes"))


def _encode_rows(rows: list[Any]) -> Targets:
    kind = type(rows[0]) if type(rows[0]) in _ROW_TYPES.values() else tuple
    for place, row in enumerate(rows):
        if not isinstance(row, tuple(_ROW_TYPES.values())):
            hint = "() is a row without labels" if row is None else "rows must be tuples or sets of label names"
            raise ValueError(f"row {place} of y is {_short(row)}, while others are tuples or sets; {hint}")
    # A label that a tuple names twice is named once; sorted, so that the order of a set, which is random, is lost.
    lengths = [len(row) for row in rows]
    classes, numbers = _unique_objects([name for row in rows for name in row], np.repeat(np.arange(len(rows)), lengths))
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    Y = sp.csr_array((np.ones(numbers.size, np.float32), numbers, indptr), shape=(len(rows), classes.size))
    return Targets(as_label_matrix(Y), classes, TargetFormat("sets", container=kind.__name__))


def _unique_objects(names: list[Any], row_of_name: Int64 | None = None) -> tuple[Classes, Int64]:
    """Return the different names, sorted where they can be, and for each name its number among them."""
    number_of: dict[Any, int] = {}
    numbers = np.empty(len(names), np.int64)

    def row_of(place: int) -> int:
        return place if row_of_name is None else int(row_of_name[place])

    for place, name in enumerate(names):
        try:
            numbers[place] = number_of.setdefault(name, len(number_of))
        except TypeError as error:
            raise ValueError(f"row {row_of(place)} of y has a label that is not hashable: {_short(name)}") from error
    unique = list(number_of)
    missing = next((number for number, name in enumerate(unique) if _is_missing(name)), None)
    if missing is not None:
        row = row_of(int(np.argmax(numbers == missing)))
        raise ValueError(
            f"row {row} of y has the label {unique[missing]!r}, which says that it is missing; leave it out"
        )
    try:
        order = sorted(range(len(unique)), key=unique.__getitem__)
    except TypeError:  # of types that cannot be compared: by their first appearance
        order = list(range(len(unique)))
    place_of = np.empty(len(unique), np.int64)
    place_of[order] = np.arange(len(unique))
    classes = np.fromiter((unique[place] for place in order), object, len(unique))
    return classes, place_of[numbers] if len(unique) else numbers


def _is_missing(name: Any) -> bool:
    """Tell whether a name is None, NaN, which is unlike itself, or NA of pandas, which will not say what it is like."""
    try:
        return name is None or bool(name != name)  # noqa: PLR0124
    except TypeError:
        return True


def _rows_of_names(y: Any) -> list[Any] | None:
    """Return y as a list if its rows are tuples or sets, else None."""
    if isinstance(y, (list, tuple)) or (getattr(y, "dtype", None) == object and getattr(y, "ndim", 0) == 1):
        rows = list(y)
    else:
        return None
    return rows if any(isinstance(row, (tuple, set, frozenset)) for row in rows) else None


def _as_array(y: Any) -> npt.NDArray[Any]:
    if isinstance(y, (list, tuple)) and any(isinstance(name, str) for name in y):
        if all(isinstance(name, str) for name in y):
            return np.asarray(y)
        return np.fromiter(y, object, len(y))  # NumPy would make strings of the others too
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise ValueError(
            "the rows of y differ in length; give each row as a tuple or a set of label names, or y as a matrix"
        ) from error
    if array.ndim not in (1, 2):
        raise ValueError(f"y should be a 1d array, or an indicator matrix; got an array of shape {array.shape}")
    return array


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
