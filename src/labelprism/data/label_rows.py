"""The labels of one row after the other, by name or by number, gathered into the arrays of a CSR matrix."""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import MAX_COLUMNS, Int32, Int64, check_whole
from labelprism.data.dataset import as_label_names
from labelprism.errors import DataFormatError

UnknownLabels = Literal["error", "ignore"]


class LabelColumns(NamedTuple):
    """What the columns of a label matrix are."""

    n_labels: int
    names: Sequence[str] | None
    new_column: Int32 | None
    """Where each column of the rows goes, shape (c,); None where they stay."""


class LabelRows:
    """Gathers the labels of one row after the other, in the flat arrays of a CSR matrix.

    The first label decides whether they are names or ids, unless `kind` says it. Faults are raised without file and
    line, which the reader adds.

    Parameters
    ----------
    label_names, unknown_labels, n_labels
        As in `labelprism.data.read_tsv`.
    kind : {"name", "id"}, optional
    """

    def __init__(
        self,
        label_names: Sequence[str] | None,
        unknown_labels: UnknownLabels,
        n_labels: int | None,
        kind: Literal["name", "id"] | None = None,
    ) -> None:
        if unknown_labels not in ("error", "ignore"):
            raise ValueError(f'unknown_labels must be "error" or "ignore", got {unknown_labels!r}')
        if n_labels is not None:
            check_whole("n_labels", n_labels, 1, MAX_COLUMNS)
            if label_names is not None:
                raise ValueError("n_labels must be left out where label_names are given, which tell it")
        self._n_labels = n_labels
        self._label_names = None if label_names is None else as_label_names(label_names)
        self._ignore_unknown = unknown_labels == "ignore" and label_names is not None
        self._column_of: dict[str, int]
        if self._label_names is None:
            self._column_of = defaultdict(itertools.count().__next__)  # a new name gets the next column
        else:
            self._column_of = {name: column for column, name in enumerate(self._label_names)}
        self._kind = kind
        self._max_id = -1
        self._indices = array("i")
        self._indptr = array("q", [0])

    def add(self, labels: list[Any]) -> None:
        """Add a row of labels, all of them names or all of them ids."""
        if all(isinstance(label, str) for label in labels):
            self.add_names(labels)
        elif all(isinstance(label, int) for label in labels):
            self.add_ids(labels)
        else:
            _refuse_mix(next(label for label in labels if type(label) is not type(labels[0])))

    def add_names(self, names: list[str]) -> None:
        """Add a row of labels by name."""
        if names and self._kind != "name":
            self._settle_kind("name", names[0])
        if self._ignore_unknown:
            names = [name for name in names if name in self._column_of]
        try:
            self._indices.extend(map(self._column_of.__getitem__, names))
        except KeyError as error:
            message = 'the label is not in label_names; unknown_labels="ignore" leaves such labels out'
            raise DataFormatError(message, token=error.args[0]) from None
        self._indptr.append(len(self._indices))

    def add_ids(self, ids: list[int]) -> None:
        """Add a row of labels by column number."""
        if ids:
            if self._kind != "id":
                self._settle_kind("id", ids[0])
            self._check_ids(ids)
            self._max_id = max(self._max_id, max(ids))
            self._indices.extend(ids)
        self._indptr.append(len(self._indices))

    @property
    def n_waiting(self) -> int:
        """How many labels were added since the last `take`."""
        return len(self._indices)

    def take(self) -> tuple[Int64, Int32]:
        """Return the rows added since the last call, as the index pointers and indices of a CSR, and forget them.

        Rows are as they came, with columns in order of first appearance; `columns` says which they are in the end.
        """
        indptr, indices = np.array(self._indptr, dtype=np.int64), np.array(self._indices, dtype=np.int32)
        self._indices, self._indptr = array("i"), array("q", [0])
        return indptr, indices

    def columns(self) -> LabelColumns:
        """Return what the columns are, once all rows were added."""
        names: Sequence[str] | None = self._label_names
        new_column: Int32 | None = None
        if names is None and self._kind != "id" and self._n_labels is None:
            names = sorted(self._column_of)
            new_column = np.empty(len(names), dtype=np.int32)
            new_column[[self._column_of[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        n_labels = (self._n_labels or self._max_id + 1) if names is None else len(names)
        return LabelColumns(n_labels, names, new_column)

    def finish(self) -> tuple[sp.csr_array, Sequence[str] | None]:
        """Return the label matrix of all rows added, and the names of its columns where there are any.

        Rows are as they came; `Dataset` sorts them and takes a repeated label once.
        """
        indptr, indices = self.take()
        columns = self.columns()
        if columns.new_column is not None:
            indices = columns.new_column[indices]
        ones = np.ones(len(indices), dtype=np.float32)
        Y = sp.csr_array((ones, indices, indptr), shape=(len(indptr) - 1, columns.n_labels))
        return Y, columns.names

    def _check_ids(self, ids: list[int]) -> None:
        limit = (self._n_labels or MAX_COLUMNS) if self._label_names is None else len(self._label_names)
        if min(ids) < 0 or max(ids) >= limit:
            message = f"a label id must be an integer from 0 to {limit - 1}"
            if self._label_names is not None:
                message += f", as there are {limit} label_names"
            raise DataFormatError(message, token=str(next(label for label in ids if not 0 <= label < limit)))

    def _settle_kind(self, kind: Literal["name", "id"], label: str | int) -> None:
        if kind == "name" and self._n_labels is not None:
            raise DataFormatError(
                "n_labels is for label ids, but here is a name; give label_names instead", token=str(label)
            )
        if self._kind is not None:
            _refuse_mix(label)
        self._kind = kind


def _refuse_mix(label: str | int) -> NoReturn:
    message = "the file mixes label names (strings) and label ids (integers); one kind is expected"
    raise DataFormatError(message, token=str(label))
