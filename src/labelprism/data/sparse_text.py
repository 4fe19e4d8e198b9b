"""Sparse text: one example a line, `label,label feature:value feature:value ...`.

The Extreme Classification Repository writes it with a header line `rows features labels` and features numbered from 0;
svmlight and libsvm files have no header, and most number their features from 1. The parser is native, takes the file in
pieces and stops at the first malformed line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import as_csr, csr_parts
from labelprism._progress import ProgressBar
from labelprism.data.dataset import Dataset
from labelprism.data.files import StrPath, reading, writing
from labelprism.errors import DataFormatError

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
        feature 0. A test set may lack feature 0 by chance, so say which it is when giving `n_features`.
    n_features, n_labels : int, optional
        The shapes of the training set, for a test set that must have the same columns; larger numbers in the file are
        errors then. Otherwise the header tells, or the largest number in the file.

    Returns
    -------
    Dataset
        With `X` (rows, features) and `Y` (rows, labels). Label ids are the columns of `Y`.

    Raises
    ------
    DataFormatError
        With the file, line and token, when a line is malformed.
    """
    if zero_based == "auto" and n_features is not None:
        raise ValueError("n_features was given, so zero_based must be True or False: a guess could shift the columns")
    first_feature = 1 if zero_based is False else 0
    parser = _core.SparseTextParser(
        first_feature=first_feature,
        n_features=-1 if n_features is None else n_features,
        n_labels=-1 if n_labels is None else n_labels,
    )
    _parse(parser, path)
    if parser.n_rows == 0 and not parser.had_header:
        raise DataFormatError("the file holds no rows", path)
    guess_one = zero_based == "auto" and not parser.had_header and parser.smallest_feature > 0
    return _dataset(parser, first_feature=1 if guess_one else 0)


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
    write_svmlight(dataset, path, zero_based=True, header=True)


def write_svmlight(dataset: Dataset, path: StrPath, *, zero_based: bool = True, header: bool = False) -> None:
    """Write a data set as multilabel svmlight text.

    Parameters
    ----------
    dataset : Dataset
        Its `X` and `Y` are written.
    path : path-like
        The file; replaced only once the new one is complete. Compressed if the name ends in .gz, .xz or .zst.
    zero_based : bool
        Whether features are numbered from 0.
    header : bool
        Whether the first line says `rows features labels`. Without it a row that has neither labels nor features would
        be a blank line, which readers skip, and is refused.
    """
    if dataset.X is None:
        raise ValueError("the data set has no X; make features of its texts first, or write TSV or JSONL")
    X, Y = as_csr(dataset.X), dataset.Y
    if not header:
        _refuse_empty_rows(X, Y)
    with writing(path) as stream, ProgressBar(X.shape[0], f"writing {os.fspath(path)}", "rows") as bar:
        if header:
            stream.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n".encode())
        for begin in range(0, X.shape[0], _ROWS_PER_PIECE):
            rows = slice(begin, begin + _ROWS_PER_PIECE)
            x, y = csr_parts(X[rows]), csr_parts(Y[rows])
            stream.write(_core.format_sparse_text(y.indptr, y.indices, *x, 0 if zero_based else 1))
            bar.advance(x.indptr.size - 1)


def _refuse_empty_rows(X: sp.csr_array, Y: sp.csr_array) -> None:
    empty = np.flatnonzero((np.diff(X.indptr) == 0) & (np.diff(Y.indptr) == 0))
    if empty.size:
        raise ValueError(f"row {empty[0]} has neither labels nor features and would be lost; write with header=True")


def _parse(parser: _core.SparseTextParser, path: StrPath) -> None:
    buffer = bytearray(_PIECE_BYTES)
    piece = np.frombuffer(buffer, np.uint8)
    size = Path(path).stat().st_size
    try:
        with reading(path) as stream, ProgressBar(size, f"reading {os.fspath(path)}", "B") as bar:
            while count := stream.readinto1(buffer):  # as much as there is before any damage
                if not parser.feed(piece[:count]):
                    break
                bar.advance(count)
    except DataFormatError as error:  # a damaged compressed file
        raise DataFormatError(error.message, path, parser.line + 1) from error
    if not parser.finish():
        _raise_error(parser, path)


def _raise_error(parser: _core.SparseTextParser, path: StrPath) -> None:
    assert parser.error is not None
    line, message, token = parser.error
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
