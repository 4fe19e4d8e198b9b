"""`load`: the format is told by the content."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

from labelprism.data import (
    DataFormatError,
    Dataset,
    load,
    read_jsonl,
    write_jsonl,
    write_npz,
    write_svmlight,
    write_tsv,
    write_xc,
)
from labelprism.data.detect import detect_format

DATA = Dataset(
    X=np.array([[0.5, 0, 1], [0, 2, 0]]),
    Y=np.array([[1, 0], [1, 1]]),
    texts=["old man", "new town"],
    label_names=["people", "places"],
)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize(
    ("writer", "format_name"),
    [
        (write_xc, "sparse text"),
        (write_svmlight, "sparse text"),
        (write_tsv, "tsv"),
        (write_jsonl, "jsonl"),
        (write_npz, "npz"),
    ],
)
def test_all_formats_under_any_name(tmp_path: Path, writer: object, format_name: str, suffix: str) -> None:
    path = tmp_path / f"X.npy{suffix}"
    writer(DATA, path)  # type: ignore[operator]
    assert detect_format(path) == format_name
    data = load(path)
    np.testing.assert_array_equal(data.Y.toarray(), DATA.Y.toarray())
    if format_name in ("tsv", "jsonl"):
        assert data.texts == DATA.texts
    else:
        np.testing.assert_array_equal(data.X.toarray() if hasattr(data.X, "toarray") else data.X, DATA.X)


@pytest.mark.parametrize(
    ("content", "format_name"),
    [
        (b"3 4 5\n0 1:1\n", "sparse text"),
        (b"1,2,3 4:5 6:7\n", "sparse text"),
        (b" 4:5 6:7\n", "sparse text"),
        (b"7\n", "sparse text"),
        (b"# comment\n\n1\t4:5\r\n", "sparse text"),
        (b"1 4:oops\n", "sparse text"),
        (b"\xef\xbb\xbf1 4:5\n", "sparse text"),
        (b"1 " + b" ".join(b"%d:0.25" % i for i in range(20_000)), "sparse text"),
        (b"at 5:30\tplaces\n", "tsv"),
        (b"2001\t2002\n", "tsv"),
        (b"some text\t<http://example.org/1> <http://example.org/2>\n", "tsv"),
        (b'\n{"text": "a", "labels": []}\n', "jsonl"),
    ],
)
def test_first_lines(tmp_path: Path, content: bytes, format_name: str) -> None:
    for name, packed in (("plain", content), ("gz", gzip.compress(content)), ("xz", lzma.compress(content))):
        path = tmp_path / name
        path.write_bytes(packed)
        assert detect_format(path) == format_name


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_jsonl(DATA, path)
    names = ["places", "people", "more"]
    assert load(path, label_names=names).label_names == read_jsonl(path, label_names=names).label_names
    write_svmlight(DATA, path)
    assert load(path, n_features=9, zero_based=True).n_features == 9


@pytest.mark.parametrize(("content", "message"), [(b"", "no data"), (b"\n \n", "no data"), (b"words\n", "unknown")])
def test_unknown_formats(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=message) as caught:
        load(path)
    assert caught.value.path == str(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
