"""One `load` for all formats: the content tells which it is, never the name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from labelprism.data.dataset import Dataset
from labelprism.data.directory import is_data_directory, open_directory
from labelprism.data.files import NUL_FOUND, StrPath, reading, without_byte_order_mark
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
    "directory": open_directory,
}

_LABELS = re.compile(rb"[0-9]+(,[0-9]+)*")
_FEATURE = re.compile(rb"-?[0-9]+:.*")  # a bad value is for the parser to name


def load(path: StrPath, **options: Any) -> Dataset:
    """Read a data set, whatever its format, plain or compressed.

    The first line that is neither blank nor a comment tells the format; `labelprism.data.detect.detect_format` has the
    rules.

    Parameters
    ----------
    path : path-like
        Sparse text (`read_xc`, `read_svmlight`), TSV or JSONL of texts and labels (`read_tsv`, `read_jsonl`), or the
        features of a pair of scipy `.npz` files (`read_npz`); or a directory of arrays (`Dataset.open`), which is not
        read but opened.
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
    """Tell the format of a file by the first line in its first 64 KiB that is neither blank nor a comment.

    - An object in JSON, or what starts with "{" and has no TAB, is JSONL.
    - A line with exactly one TAB is TSV, also where the text is a number or looks like sparse text, unless what stands
      behind the TAB is made of `feature:value`, or is empty or a comment while features stand before it.
    - Three whole numbers, or labels and features, are sparse text.
    - Any other line with a TAB is TSV.

    A line that starts with "#" is taken for a comment, which only sparse text has, as long as another line follows:
    that one decides. Where all lines start with "#", those that have a TAB are texts with labels.

    A directory is one of arrays, if its `meta.json` says so.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed, or the directory.

    Returns
    -------
    {"npz", "sparse text", "jsonl", "tsv", "directory"}
    """
    if is_data_directory(path):
        return "directory"
    with reading(path) as stream:
        head = stream.read(_HEAD_BYTES + 1)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")):
        return "npz"
    lines = without_byte_order_mark(head, path).split(b"\n")
    if len(head) > _HEAD_BYTES:
        lines[-1] = _without_cut_token(lines[-1])
    number, line = _telling_line(lines, path)
    if b"\0" in line:
        raise DataFormatError(NUL_FOUND, path, number, _shown(line))
    if _is_json(line):
        return "jsonl"
    if _is_sparse_text(line):
        return "sparse text"
    if b"\t" in line:
        return "tsv"
    message = (
        "the format is unknown: expected lines `labels feature:value ...`, lines `text TAB labels`, lines of JSON "
        "objects, or a scipy .npz file; if it is one of these, call its reader to see what is wrong"
    )
    raise DataFormatError(message, path, number, _shown(line))


def _without_cut_token(line: bytes) -> bytes:
    """Return an unfinished line without its last token or label, which may be cut and look like something else."""
    return re.sub(rb"(?<=[ \t,])[^ \t,]*$", b"", line).rstrip(b",")


def _telling_line(lines: list[bytes], path: StrPath) -> tuple[int, bytes]:
    """Return the line that is judged, with its number from 1: the first that is neither blank nor a comment.

    Only sparse text has comments. So where all lines start with "#", one with a TAB is a text with its labels; where
    all are blank, one with a TAB is an empty text without labels.
    """
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    for number, line in numbered:
        if not line.lstrip().startswith(b"#"):
            return number, line
    for number, line in numbered or enumerate(lines, start=1):
        if b"\t" in line:
            return number, line
    raise DataFormatError("the file holds no data", path)


def _is_json(line: bytes) -> bool:
    """Tell whether a line is a JSON object, or could be but for a fault; a text in braces has a TAB behind it."""
    if not line.lstrip().startswith(b"{"):
        return False
    if b"\t" not in line:
        return True
    try:
        json.loads(line, strict=False)  # a TAB inside a string is a fault that the reader names
    except (ValueError, RecursionError):
        return False
    return True


def _is_sparse_text(line: bytes) -> bool:
    """Tell whether a line is `rows features labels`, or labels, if any, and features."""
    tokens = line.split(b"#")[0].split()
    if not tokens or _is_text_and_labels(line):
        return False
    if len(tokens) == 3 and all(token.isdigit() for token in tokens):
        return True
    return all(_FEATURE.fullmatch(token) for token in _without_labels(tokens))


def _is_text_and_labels(line: bytes) -> bool:
    """Tell whether a line that may look like sparse text is TSV after all: its one TAB has no features behind it."""
    text, tab, field = line.partition(b"\t")
    if not tab or b"\t" in field:
        return False
    behind = field.split(b"#")[0].split()
    if behind:
        return not all(_FEATURE.fullmatch(token) for token in behind)
    # Sparse text may have blanks or a comment at its end, where TSV has a text without labels or one with a "#" label.
    features = _without_labels(text.split())
    return not features or not all(_FEATURE.fullmatch(token) for token in features)


def _without_labels(tokens: list[bytes]) -> list[bytes]:
    return tokens[1:] if tokens and _LABELS.fullmatch(tokens[0]) else tokens


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
