"""Inputs of a prediction, piece by piece, so that memory does not grow with them: labels, if any, are ignored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Literal

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32
from labelprism.data.directory import is_data_directory, open_directory
from labelprism.data.files import StrPath, reading, text_lines, without_byte_order_mark
from labelprism.data.matrices import read_matrix
from labelprism.data.text import json_text
from labelprism.errors import DataFormatError

_HEADER = re.compile(rb"\s*([0-9]+)\s+([0-9]+)\s+([0-9]+)\s*")

TextFormat = Literal["auto", "text", "tsv", "jsonl"]


def stream_texts(path: StrPath, format: TextFormat = "auto", text_key: str = "text") -> Iterator[str]:
    """Yield the texts of a file, one a line.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed; `labelprism.data.files.STANDARD_INPUT` is standard input. Or a directory with
        texts, as in `Dataset.open`.
    format : {"auto", "text", "tsv", "jsonl"}
        Whether a line is the text, what stands before its TAB is, or what a JSON object has under `text_key`. By
        default the first line that is not blank tells: a JSON object, or a line with a TAB.
    text_key : str
        The key of the text in JSON lines. Blank lines of JSON lines are skipped; elsewhere they are empty texts.
    """
    if is_data_directory(path):
        texts = open_directory(path).texts
        if texts is None:
            raise DataFormatError("texts are expected, but here are rows of numbers", path)
        yield from texts
        return
    lines = text_lines(path, show_progress=False)
    if format == "auto":
        begin = list(_up_to_the_first_with_text(lines))
        format = _text_format(begin[-1][1]) if begin else "text"
        lines = chain(begin, lines)
    for number, line in lines:
        if format == "jsonl":
            if line.strip():
                yield _text_in_json(line, text_key, path, number)
        else:
            yield line.partition("\t")[0] if format == "tsv" else line


def _up_to_the_first_with_text(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        yield number, line
        if line.strip():
            return


def _text_format(line: str) -> Literal["text", "tsv", "jsonl"]:
    if line.lstrip().startswith("{"):
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            pass
        else:
            return "jsonl"
    return "tsv" if "\t" in line else "text"


def _text_in_json(line: str, text_key: str, path: StrPath, number: int) -> str:
    try:
        return json_text(line, text_key)
    except DataFormatError as error:
        raise DataFormatError(error.message, path, number, error.token) from None


def stream_matrix(path: StrPath, n_features: int, rows_per_piece: int) -> Iterator[sp.csr_array | Float32]:
    """Yield the rows of a matrix file, a piece at a time; the file itself is read as a whole, a directory is not.

    Parameters
    ----------
    path : path-like
        As in `read_npz`, without labels; or a directory, as in `Dataset.open`.
    n_features : int
        The number of columns that is expected.
    rows_per_piece : int
    """
    X = open_directory(path).X if is_data_directory(path) else read_matrix(path)
    if X is None:
        raise DataFormatError("rows of numbers are expected, but here are texts", path)
    if X.shape[1] != n_features:
        raise DataFormatError(f"the matrix has {X.shape[1]} features, but {n_features} are expected", path)
    for begin in range(0, X.shape[0], rows_per_piece):
        yield X[begin : begin + rows_per_piece]


def stream_sparse_text(
    path: StrPath, n_features: int, rows_per_piece: int, zero_based: bool | None = None
) -> Iterator[sp.csr_array]:
    """Yield the rows of sparse text, a piece at a time.

    Parameters
    ----------
    path : path-like
        A file of the Extreme Classification Repository, or svmlight, plain or compressed;
        `labelprism.data.files.STANDARD_INPUT` is standard input.
    n_features : int
        The number of columns that is expected.
    rows_per_piece : int
    zero_based : bool, optional
        Whether features are numbered from 0; needed for a file without a header, whose beginning does not tell.

    Raises
    ------
    DataFormatError
        With the file, line and token, when a line is malformed or has other features.
    """
    with reading(path) as stream:
        first = without_byte_order_mark(stream.readline(), path)
        header = _HEADER.fullmatch(first)
        if header is None:
            if zero_based is None:
                message = "there is no header, so zero_based must say whether features are numbered from 0 or from 1"
                raise DataFormatError(message, path, 1)
            pieces = _pieces(chain([first] if first else [], stream), rows_per_piece)
            for n_before, piece in pieces:
                yield _parsed(piece, n_before, path, n_features, header=None, first_feature=0 if zero_based else 1)
            return
        n_rows, found_features, n_labels = (int(number) for number in header.groups())
        if found_features != n_features:
            message = f"the header says {found_features} features, but {n_features} are expected"
            raise DataFormatError(message, path, 1)
        n_left = n_rows
        for n_before, piece in _pieces(iter(stream), rows_per_piece):
            # Under a header a blank line is a row without features, so each piece gets one of its own.
            n_here = min(sum(not line.lstrip().startswith(b"#") for line in piece), n_left)
            own_header = f"{n_here} {n_features} {n_labels}\n".encode()
            yield _parsed(piece, n_before + 1, path, n_features, own_header)
            n_left -= n_here
        if n_left:
            raise DataFormatError(f"the header says {n_rows} rows, but there are {n_rows - n_left}", path, 1)


def _pieces(lines: Iterator[bytes], size: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield runs of lines, each with the number of lines before it."""
    n_before = 0
    while piece := list(islice(lines, size)):
        yield n_before, piece
        n_before += len(piece)


def _parsed(
    piece: list[bytes], n_before: int, path: StrPath, n_features: int, header: bytes | None, first_feature: int = 0
) -> sp.csr_array:
    parser = _core.SparseTextParser(header=header is not None, first_feature=first_feature, n_features=n_features)
    content = b"".join(piece) if header is None else header + b"".join(piece)
    if not (parser.feed(np.frombuffer(content, np.uint8)) and parser.finish()):
        assert parser.error is not None
        line, message, token = parser.error
        line += n_before - (header is not None)
        if "one more" in message:  # than this piece has
            message = "the header says fewer rows than there are"
        raise DataFormatError(message, path, line, token.decode("utf-8", "backslashreplace") or None)
    indptr, features, values, _, _ = parser.take()
    return sp.csr_array((values, features, indptr), shape=(indptr.size - 1, n_features))
