"""Sparse text: one example a line, `label,label feature:value feature:value ...`.

The Extreme Classification Repository writes it with a header line `rows features labels` and features numbered from 0;
svmlight and libsvm files have no header, and most number their features from 1. The parser is native, takes the file in
pieces and stops at the first malformed line.
"""

from __future__ import annotations

import os
from typing import Literal, NoReturn

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, as_csr, check_whole, csr_parts
from labelprism._progress import ProgressBar
from labelprism.data.dataset import Dataset
from labelprism.data.files import StrPath, reading_with_bar, writing
from labelprism.errors import DataFormatError

NO_ROWS = "the file holds no rows"
"""What to say of a file without a header and without rows."""

_PIECE_BYTES = 1 << 20
_ROWS_PER_PIECE = 10_000


def read_xc(path: StrPath) -> Dataset:
    """Read a file of the Extreme Classification Repository, plain or compressed.

    Parameters
    ----------
    path : path-like
        A file with the header `rows features labels`. A line without labels starts with a blank or with its first
        feature.

    Returns
    -------
    Dataset
        With `X` (rows, features) and `Y` (rows, labels) of exactly the shapes that the header names.

    Raises
    ------
    DataFormatError
        With the file, line and token, when a line is malformed or disagrees with the header.
    """
    parser = _core.SparseTextParser(header=True)
    _parse(parser, path)
    return _dataset(parser, first_feature=0)


def read_svmlight(
    path: StrPath,
    *,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    n_labels: int | None = None,
) -> Dataset:
    """Read a multilabel svmlight or libsvm file, plain or compressed, with or without a header.

    Parameters
    ----------
    path : path-like
        The file. `#` starts a comment; without a header blank lines are skipped.
    zero_based : bool or "auto"
        Whether features are numbered from 0. "auto" takes them as numbered from 1 when there is no header and no
        feature 0. A file may number from 0 and lack feature 0 by chance, and then "auto" shifts its columns by one: for
        a file without a header that was written with `zero_based=True`, say so here too. With `n_features` a guess is
        refused.
    n_features, n_labels : int, optional
        The shapes of the training set, for a test set that must have the same columns; larger numbers in the file are
        errors then. From 0 to 2**31 - 1. Otherwise the header tells, or the largest number in the file.

    Returns
    -------
    Dataset
        With `X` (rows, features) and `Y` (rows, labels). Label ids are the columns of `Y`.

    Raises
    ------
    DataFormatError
        With the file, line and token, when a line is malformed.
    """
    options, guess = parser_options(zero_based, n_features, n_labels)
    parser = _core.SparseTextParser(header=None, **options)
    _parse(parser, path)
    if parser.n_rows == 0 and not parser.had_header:
        raise DataFormatError(NO_ROWS, path)
    from_one = guess and not parser.had_header and parser.smallest_feature > 0
    return _dataset(parser, first_feature=1 if from_one else 0)


def parser_options(
    zero_based: bool | Literal["auto"], n_features: int | None, n_labels: int | None
) -> tuple[dict[str, int], bool]:
    """Return what the parser has to know, and whether the number of the first feature is to be guessed at the end.

    Parameters
    ----------
    zero_based, n_features, n_labels
        As in `read_svmlight`.
    """
    guess = isinstance(zero_based, str) and zero_based == "auto"
    if not guess and not isinstance(zero_based, (bool, np.bool_)):
        raise ValueError(f'zero_based must be True, False or "auto", got {zero_based!r}')
    if guess and n_features is not None:
        raise ValueError("n_features was given, so zero_based must be True or False: a guess could shift the columns")
    options = {
        "first_feature": 0 if zero_based else 1,
        "n_features": _column_count("n_features", n_features),
        "n_labels": _column_count("n_labels", n_labels),
    }
    return options, guess


def write_xc(dataset: Dataset, path: StrPath) -> None:
    """Write a data set as the Extreme Classification Repository does; compressed if the name ends in .gz, .xz or .zst.

    Parameters
    ----------
    dataset : Dataset
        Its `X` and `Y` are written, values with as few digits as give the same float32 back. Names and texts are not
        part of the format.
    path : path-like
        The file; replaced only once the new one is complete.
    """
    write_svmlight(dataset, path, header=True)


def write_svmlight(dataset: Dataset, path: StrPath, *, zero_based: bool | None = None, header: bool = False) -> None:
    """Write a data set as multilabel svmlight text.

    `load` and `read_svmlight` give the columns back where they were, but for empty ones at the end when there is no
    header.

    Parameters
    ----------
    dataset : Dataset
        Its `X` and `Y` are written.
    path : path-like
        The file; replaced only once the new one is complete. Compressed if the name ends in .gz, .xz or .zst.
    zero_based : bool, optional
        Whether features are numbered from 0; when left out, from 0 with a header and from 1 without, as svmlight and
        libsvm do. A header always means 0. Without one, a file numbered from 0 must also be read with
        `zero_based=True`: a reader that guesses shifts the columns where feature 0 does not occur.
    header : bool
        Whether the first line says `rows features labels`. Without it a row that has neither labels nor features would
        be a blank line, which readers skip, and is refused.
    """
    if dataset.X is None:
        raise ValueError("the data set has no X; make features of its texts first, or write TSV or JSONL")
    first_feature = _first_feature_to_write(zero_based, header)
    X, Y = as_csr(dataset.X), dataset.Y
    if not header:
        _refuse_empty_rows(X, Y)
    with writing(path) as stream, ProgressBar(X.shape[0], f"writing {os.fspath(path)}", "rows") as bar:
        if header:
            stream.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n".encode())
        for begin in range(0, X.shape[0], _ROWS_PER_PIECE):
            rows = slice(begin, begin + _ROWS_PER_PIECE)
            x, y = csr_parts(X[rows]), csr_parts(Y[rows])
            stream.write(_core.format_sparse_text(y.indptr, y.indices, *x, first_feature))
            bar.advance(x.indptr.size - 1)


def _column_count(name: str, count: int | None) -> int:
    """Return the number of columns as the parser takes it: -1 for unknown."""
    if count is None:
        return -1
    check_whole(name, count, 0, MAX_COLUMNS)
    return int(count)


def _first_feature_to_write(zero_based: bool | None, header: bool) -> int:
    if zero_based is None:
        return 0 if header else 1
    if not isinstance(zero_based, (bool, np.bool_)):
        raise ValueError(f"zero_based must be True, False or None, got {zero_based!r}")
    if header and not zero_based:
        raise ValueError("zero_based=False does not go with header=True: a header means numbers from 0; leave out one")
    return 0 if zero_based else 1


def _refuse_empty_rows(X: sp.csr_array, Y: sp.csr_array) -> None:
    empty = np.flatnonzero((np.diff(X.indptr) == 0) & (np.diff(Y.indptr) == 0))
    if empty.size:
        raise ValueError(f"row {empty[0]} has neither labels nor features and would be lost; write with header=True")


def _parse(parser: _core.SparseTextParser, path: StrPath) -> None:
    buffer = bytearray(_PIECE_BYTES)
    piece = np.frombuffer(buffer, np.uint8)
    try:
        with reading_with_bar(path) as stream:
            while count := stream.readinto1(buffer):  # as much as there is before any damage
                if not parser.feed(piece[:count]):
                    break
    except DataFormatError as error:  # a damaged compressed file
        raise DataFormatError(error.message, path, parser.line + 1) from error
    if not parser.finish():
        assert parser.error is not None
        raise_malformed(*parser.error, path)


def raise_malformed(line: int, message: str, token: bytes, path: StrPath) -> NoReturn:
    """Raise what a parser says of a line.

    Parameters
    ----------
    line : int
        From 1.
    message : str
    token : bytes
        The piece of the line at fault.
    path : path-like
        The file.
    """
    if any(byte >= 0x80 or byte == 0 for byte in token):
        message += "; the file is binary, or text in an encoding that is not ASCII or UTF-8"
    raise DataFormatError(message, path, line, token.decode("utf-8", "backslashreplace") or None)


def _dataset(parser: _core.SparseTextParser, first_feature: int) -> Dataset:
    n_features, n_labels = parser.n_features, parser.n_labels
    indptr, features, values, label_indptr, labels = parser.take()
    if first_feature:
        features -= np.int32(first_feature)
        n_features -= first_feature
    n = indptr.size - 1
    X = sp.csr_array((values, features, indptr), shape=(n, n_features))
    Y = sp.csr_array((np.ones(labels.size, np.float32), labels, label_indptr), shape=(n, n_labels))
    return Dataset(X=X, Y=Y)
