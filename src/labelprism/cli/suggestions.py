"""Suggestions on paper: written as JSON lines, TSV or a table, and read again to be measured.

JSON lines have one object a row, `{"row": 1, "labels": ["ship", "sea"], "scores": [2.5, 1.25]}`; TSV has one line for
each suggestion, `row TAB label TAB score` under a header. Rows count from 1, as lines do.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Int64
from labelprism.data.detect import detect_format
from labelprism.data.files import text_lines
from labelprism.data.matrices import read_matrix
from labelprism.errors import DataFormatError

_TSV_HEADER = "row\tlabel\tscore"
_UNTAKEN = ("\t", "\n", "\r")


class Row(NamedTuple):
    """The suggestions for one row."""

    number: int
    labels: list[str]
    scores: list[float]
    text: str | None = None
    explanation: Any = None


def written(rows: Sequence[Row], format: str) -> str:
    """Return some rows in one of the formats "jsonl", "tsv" and "table".

    Parameters
    ----------
    rows : sequence of Row
    format : str
    """
    if format == "jsonl":
        return "".join(_json_line(row) for row in rows)
    return "".join(_tsv_lines(row) if format == "tsv" else _table_lines(row) for row in rows)


def header(format: str) -> str:
    """Return what a file of a format begins with."""
    return _TSV_HEADER + "\n" if format == "tsv" else ""


def _json_line(row: Row) -> str:
    record: dict[str, Any] = {"row": row.number, "labels": row.labels, "scores": row.scores}
    if row.explanation is not None:
        record["why"] = row.explanation
    return json.dumps(record, ensure_ascii=False) + "\n"


def _tsv_lines(row: Row) -> str:
    for label in row.labels:
        if any(character in label for character in _UNTAKEN):
            raise ValueError(
                f"the label {label!r} holds a TAB or line break, which TSV cannot hold; use --format jsonl"
            )
    return "".join(f"{row.number}\t{label}\t{score!r}\n" for label, score in zip(row.labels, row.scores, strict=True))


def _table_lines(row: Row) -> str:
    width = max(shutil.get_terminal_size().columns, 40)
    title = f"{row.number}" if row.text is None else f"{row.number}  {' '.join(row.text.split())}"
    lines = [title if len(title) <= width else title[: width - 3] + "..."]
    lines += [f"{score:10.4g}  {label}" for label, score in zip(row.labels, row.scores, strict=True)]
    return "\n".join(lines) + "\n\n"


def rounded(score: float) -> float:
    """Return a score with the six digits that mean something."""
    return float(f"{score:.6g}") if math.isfinite(score) else score


# -------------------------------------------------------------------------------------------------------------- reading


def read(path: str, names: list[str], n_rows: int) -> Int64:
    """Return the suggestions in a file as numbers of labels, best first; new names are appended to `names`.

    Parameters
    ----------
    path : str
        JSON lines or TSV as written above, or a sparse matrix of scores, `.npz`, in the order of `names`.
    names : list of str
        The labels that have numbers already.
    n_rows : int
        The number of rows of the data.

    Returns
    -------
    int64 array of shape (n_rows, K)
        -1 where there are fewer than K.
    """
    column_of = {name: column for column, name in enumerate(names)}
    first = next((line for _, line in text_lines(path)), "") if not _is_matrix(path) else None
    if first is None:
        return _from_matrix(path, len(names), n_rows)
    rows: list[list[int]] = [[] for _ in range(n_rows)]
    if first == _TSV_HEADER:
        _from_tsv(path, rows, column_of)
    else:
        _from_json(path, rows, column_of)
    names += list(column_of)[len(names) :]
    return _padded(rows)


def _is_matrix(path: str) -> bool:
    try:
        return detect_format(path) == "npz"
    except DataFormatError:  # an empty file, or the header of TSV alone
        return False


def _from_json(path: str, rows: list[list[int]], column_of: dict[str, int]) -> None:
    n_read = 0
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            row, labels = record["row"], record["labels"]
            if type(row) is not int or not isinstance(labels, list) or not all(isinstance(x, str) for x in labels):
                raise ValueError("row must be a number, and labels a list of names")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = f'a line as {{"row": 1, "labels": ["ship"]}} is expected ({error!r})'
            raise DataFormatError(message, path, number, line) from None
        if row != n_read + 1:
            raise DataFormatError(f"row {n_read + 1} is expected here, found row {row}", path, number)
        if row <= len(rows):
            rows[row - 1] = [column_of.setdefault(label, len(column_of)) for label in labels]
        n_read += 1
    if n_read != len(rows):
        raise DataFormatError(f"there are suggestions for {n_read} rows, but the data has {len(rows)}", path)


def _from_tsv(path: str, rows: list[list[int]], column_of: dict[str, int]) -> None:
    """Read TSV, in which rows without suggestions do not occur: how many there were is not known."""
    last = 1
    for number, line in text_lines(path):
        if number == 1 or not line:
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not (fields[0].isascii() and fields[0].isdigit()) or len(fields[0]) > 18:
            raise DataFormatError("row TAB label TAB score is expected", path, number, line)
        row = int(fields[0])
        if not last <= row <= len(rows):
            message = f"a row from {last} to {len(rows)} is expected here: rows ascend, and the data has {len(rows)}"
            raise DataFormatError(message, path, number, fields[0])
        rows[row - 1].append(column_of.setdefault(fields[1], len(column_of)))
        last = row


def _padded(rows: list[list[int]]) -> Int64:
    width = max(1, *map(len, rows))
    return np.array([row + [-1] * (width - len(row)) for row in rows], np.int64).reshape(len(rows), width)


def _from_matrix(path: str, n_labels: int, n_rows: int) -> Int64:
    scores = sp.csr_array(read_matrix(path))
    if scores.shape[0] != n_rows or scores.shape[1] > n_labels:
        message = f"a matrix of {n_rows} rows and at most {n_labels} labels is expected, found {scores.shape}"
        raise DataFormatError(message, path)
    best = []
    for row in range(n_rows):
        part = slice(scores.indptr[row], scores.indptr[row + 1])
        best.append(scores.indices[part][np.argsort(-scores.data[part], kind="stable")].tolist())
    return _padded(best)
