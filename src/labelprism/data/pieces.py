"""Files with labels, piece by piece: the same rows as the readers give, in memory that does not grow with the file.

What is known only at the end of a file, as the order of label names or the number of the first feature, is told at the
end, for whoever keeps the rows to apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import CSRParts, Int32, Int64, as_label_matrix
from labelprism.data.files import StrPath, reading_with_bar, without_byte_order_mark
from labelprism.data.label_rows import LabelRows, UnknownLabels
from labelprism.data.sparse_text import NO_ROWS, parser_options, raise_malformed
from labelprism.data.text import NO_ROWS as NO_TEXTS
from labelprism.data.text import jsonl_texts, tsv_labels, tsv_texts
from labelprism.errors import DataFormatError

_READ_BYTES = 1 << 20
_PIECE_BYTES = 1 << 21  # of sparse text; parsed, they are at most five times as many
_PIECE_CHARACTERS = 1 << 20
_PIECE_LABELS = 1 << 18
_PIECE_ROWS = 1 << 13


class Piece(NamedTuple):
    """Rows that follow each other; those of `Y` are sorted and without duplicates."""

    x: CSRParts | None
    y_indptr: Int64
    y_indices: Int32
    texts: Sequence[str] | None


class Columns(NamedTuple):
    """What the columns of all pieces are."""

    n_features: int | None
    n_labels: int
    label_names: Sequence[str] | None = None
    first_feature: int = 0
    """What is to be taken off every feature number."""
    new_label: Int32 | None = None
    """The column of each label number, shape (c,); None where labels stay."""


Take = Callable[[Piece], object]

# -------------------------------------------------------------------------------------------------------------- texts


def tsv_pieces(
    path: StrPath,
    take: Take,
    *,
    label_sep: str | None = None,
    label_kind: Literal["name", "id"] = "name",
    label_names: Sequence[str] | None = None,
    unknown_labels: UnknownLabels = "error",
    n_labels: int | None = None,
) -> Columns:
    """Give the rows of TSV to `take`, a piece at a time.

    Parameters
    ----------
    path : path-like
    take : callable
        Called with each `Piece`.
    label_sep, label_kind, label_names, unknown_labels, n_labels
        As in `labelprism.data.read_tsv`.
    """
    rows = tsv_labels(label_kind, label_names, unknown_labels, n_labels)
    return _text_pieces(tsv_texts(path, rows, label_sep, label_kind), rows, path, take)


def jsonl_pieces(
    path: StrPath,
    take: Take,
    *,
    text_key: str = "text",
    labels_key: str | None = None,
    label_sep: str | None = None,
    label_names: Sequence[str] | None = None,
    unknown_labels: UnknownLabels = "error",
    n_labels: int | None = None,
) -> Columns:
    """Give the rows of JSON Lines to `take`, a piece at a time.

    Parameters
    ----------
    path : path-like
    take : callable
        Called with each `Piece`.
    text_key, labels_key, label_sep, label_names, unknown_labels, n_labels
        As in `labelprism.data.read_jsonl`.
    """
    rows = LabelRows(label_names, unknown_labels, n_labels)
    return _text_pieces(jsonl_texts(path, rows, text_key, labels_key, label_sep), rows, path, take)


def _text_pieces(texts: Iterator[str], rows: LabelRows, path: StrPath, take: Take) -> Columns:
    piece: list[str] = []
    n_characters, is_empty = 0, True
    for text in texts:
        piece.append(text)
        n_characters += len(text)
        is_full = n_characters >= _PIECE_CHARACTERS or rows.n_waiting >= _PIECE_LABELS or len(piece) >= _PIECE_ROWS
        if is_full:
            take(_text_piece(piece, rows))
            piece, n_characters, is_empty = [], 0, False
    if piece:
        take(_text_piece(piece, rows))
    elif is_empty:
        raise DataFormatError(NO_TEXTS, path)
    columns = rows.columns()
    return Columns(None, columns.n_labels, columns.names, new_label=columns.new_column)


def _text_piece(texts: list[str], rows: LabelRows) -> Piece:
    indptr, indices = rows.take()
    shape = (len(texts), int(indices.max(initial=-1)) + 1)
    Y = as_label_matrix(sp.csr_array((np.ones(indices.size, np.float32), indices, indptr), shape=shape))
    return Piece(None, Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False), texts)


# --------------------------------------------------------------------------------------------------------- sparse text


def sparse_text_pieces(
    path: StrPath,
    take: Take,
    *,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    n_labels: int | None = None,
) -> Columns:
    """Give the rows of sparse text to `take`, a piece at a time.

    Parameters
    ----------
    path : path-like
    take : callable
        Called with each `Piece`.
    zero_based, n_features, n_labels
        As in `labelprism.data.read_svmlight`.
    """
    options, guess = parser_options(zero_based, n_features, n_labels)
    parts = _SparseTextParts(path, options)
    for n_before, block in _blocks(path):
        take(parts.parsed(n_before, block))
    parts.check_count()
    from_one = guess and not parts.had_header and parts.smallest_feature > 0
    return Columns(parts.n_features - from_one, parts.n_labels, first_feature=int(from_one))


def _blocks(path: StrPath) -> Iterator[tuple[int, bytes]]:
    """Yield runs of whole lines, each with the number of lines before it; the last line gets its end if it has none."""
    held, end, n_before = bytearray(), 0, 0  # up to `end` there are whole lines
    damage = None
    with reading_with_bar(path) as stream:
        while True:
            try:
                part = stream.read1(_READ_BYTES)  # as much as there is before any damage
            except DataFormatError as error:  # a damaged compressed file
                damage = error
                break
            if not part:
                break
            if (last := part.rfind(b"\n")) >= 0:
                end = len(held) + last + 1
            held += part
            if end >= _PIECE_BYTES or (end and len(held) >= _PIECE_BYTES):
                block = bytes(memoryview(held)[:end])
                yield n_before, block
                n_before += block.count(b"\n")
                del held[:end]
                end = 0
    rest = bytes(held) if damage is None else bytes(held[:end])
    if rest:
        yield n_before, rest if rest.endswith(b"\n") else rest + b"\n"
    if damage is not None:
        raise DataFormatError(damage.message, path, n_before + rest.count(b"\n") + 1) from damage


class _SparseTextParts:
    """Parses runs of lines of one file, each with a parser of its own that is told what the first line said."""

    def __init__(self, path: StrPath, options: dict[str, int]) -> None:
        self._path = path
        self._options = options
        self._is_first = True
        self._n_lines = self._n_rows = 0
        self._declared_rows = 0
        self.had_header = False
        self.n_features = max(options["n_features"], 0)
        self.n_labels = max(options["n_labels"], 0)
        self.smallest_feature = -1

    def parsed(self, n_before: int, block: bytes) -> Piece:
        """Return the rows of whole lines, which have `n_before` lines before them."""
        n_left = self._declared_rows - self._n_rows
        # A line of our own stands where the first line of a file would be looked at as such.
        own_line = b"" if self._is_first else b"#\n"
        if self.had_header:
            own_line = b"%d %d %d\n" % (n_left, self.n_features, self.n_labels)
        parser = _core.SparseTextParser(header=None if self._is_first else self.had_header, **self._options)
        if not (parser.feed(np.frombuffer(own_line, np.uint8)) and parser.feed(np.frombuffer(block, np.uint8))):
            assert parser.error is not None
            line, message, token = parser.error
            if not self._is_first:
                line -= 1
                message = message.replace(f"says {n_left} rows", f"says {self._declared_rows} rows")
            raise_malformed(n_before + line, message, token, self._path)
        self._note(parser, block)
        indptr, features, values, y_indptr, y_indices = parser.take()
        return Piece(CSRParts(indptr, features, values), y_indptr, y_indices, None)

    def _note(self, parser: Any, block: bytes) -> None:
        self._n_lines += block.count(b"\n")
        self._n_rows += parser.n_rows
        self.n_features = max(self.n_features, parser.n_features)
        self.n_labels = max(self.n_labels, parser.n_labels)
        if parser.smallest_feature >= 0:
            others = parser.smallest_feature if self.smallest_feature < 0 else self.smallest_feature
            self.smallest_feature = min(others, parser.smallest_feature)
        if self._is_first and parser.had_header:
            self.had_header = True
            first_line = without_byte_order_mark(block[: block.index(b"\n")], self._path)
            self._declared_rows = int(first_line.split()[0])
        self._is_first = False

    def check_count(self) -> None:
        """Make sure that there were as many rows as the header said."""
        if not self.had_header:
            if not self._n_rows:
                raise DataFormatError(NO_ROWS, self._path)
        elif self._n_rows != self._declared_rows:
            message = (
                f"the header says {self._declared_rows} rows, but the file holds {self._n_rows}; "
                "it is truncated or the header is wrong"
            )
            raise DataFormatError(message, self._path, self._n_lines)
