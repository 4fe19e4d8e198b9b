"""One `load` for all formats: the content tells which it is, never the name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from labelprism.data.dataset import Dataset
from labelprism.data.files import StrPath, reading
from labelprism.data.matrices import read_npz
from labelprism.data.sparse_text import read_svmlight
from labelprism.data.text import read_jsonl, read_tsv
from labelprism.errors import DataFormatError

_HEAD_BYTES = 1 << 16

_READERS: dict[str, Callable[..., Dataset]] = {
    "npz": read_npz,
    "sparse text": read_svmlight,
    "jsonl": read_jsonl,
    "tsv": read_tsv,
}

_LABELS = re.compile(rb"[0-9]+(,[0-9]+)*")
_FEATURE = re.compile(rb"-?[0-9]+:.*")  # a bad value is for the parser to name


def load(path: StrPath, **options: Any) -> Dataset:
    """Read a data set, whatever its format, plain or compressed.

    Parameters
    ----------
    path : path-like
        Sparse text (`read_xc`, `read_svmlight`), TSV or JSONL of texts and labels (`read_tsv`, `read_jsonl`), or the
        features of a pair of scipy `.npz` files (`read_npz`).
    **options
        Passed to the reader of the format; see there.

    Returns
    -------
    Dataset

    Raises
    ------
    DataFormatError
        When the content is of no known format, or malformed.
    """
    return _READERS[detect_format(path)](path, **options)


def detect_format(path: StrPath) -> str:
    """Tell the format of a file by its first 64 KiB.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed.

    Returns
    -------
    {"npz", "sparse text", "jsonl", "tsv"}
    """
    with reading(path) as stream:
        head = stream.read(_HEAD_BYTES)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")):
        return "npz"
    line = _first_line(head)
    if not line:
        raise DataFormatError("the file holds no data", path)
    if line.lstrip().startswith(b"{"):
        return "jsonl"
    if _is_sparse_text(line):
        return "sparse text"
    if b"\t" in line:
        return "tsv"
    message = (
        "the format is unknown: expected lines `labels feature:value ...`, lines `text TAB labels`, lines of JSON "
        "objects, or a scipy .npz file; if it is one of these, call its reader to see what is wrong"
    )
    raise DataFormatError(message, path, 1, line.decode("utf-8", "backslashreplace"))


def _is_sparse_text(line: bytes) -> bool:
    """Tell whether a line is `rows features labels`, or labels, if any, and features."""
    tokens = line.split(b"#")[0].split()
    if len(tokens) == 3 and all(token.isdigit() for token in tokens):
        return True
    features = tokens[1:] if _LABELS.fullmatch(tokens[0]) else tokens
    return all(_FEATURE.fullmatch(token) for token in features)


def _first_line(head: bytes) -> bytes:
    """Return the first line that is neither blank nor a comment; the last one may be cut off by the end of `head`."""
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if len(head) == _HEAD_BYTES and len(lines) == 1:
        lines[0] = re.split(rb"[ \t](?=[^ \t]*$)", lines[0])[0]
    return next((line for line in lines if line.strip() and not line.lstrip().startswith(b"#")), b"")
