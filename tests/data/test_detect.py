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
        (b"1984\tplaces\n", "tsv"),
        (b"1984\t\n", "tsv"),
        (b"1,2\tplaces, people\n", "tsv"),
        (b"1 4:5\tplaces\n", "tsv"),
        (b"1 4:5\tplaces 4:5\n", "tsv"),
        (b"1 2\t3\n", "tsv"),
        (b"1984 # a novel\tplaces\n", "tsv"),
        (b"1 4:5 # a novel\tplaces\n", "tsv"),
        (b"1984\t#tag\n", "tsv"),
        (b"words\t4:5\n", "tsv"),
        (b"1 4:5\t\n", "sparse text"),
        (b"1 4:5\t# row 1\n", "sparse text"),
        (b"\t4:5 6:7\n", "sparse text"),
        (b"1 4:5\t6:7\t8:9\n", "sparse text"),
        (b"3\t4\t5\n", "sparse text"),
        (b'\n{"text": "a", "labels": []}\n', "jsonl"),
        (b'{"text":\t"a", "labels": []}\n', "jsonl"),
        (b'{"text": "a\tb", "labels": []}\n', "jsonl"),
        (b'{"text": "a", "labels": [}\n', "jsonl"),
        (b"{untitled}\tx\n", "tsv"),
        (b"{}x\t" + b"[" * 50_000 + b"\n", "tsv"),
        (b"#metoo\tprotest\n", "tsv"),
        (b"#one\n#two\tprotest\n", "tsv"),
        (b"#metoo\tprotest\n1984\tplaces\n", "tsv"),
        (b"# made by\ta program\n1 4:5\n", "sparse text"),
        (b"\t\n \t\n", "tsv"),
        (b"\n\t\n\n", "tsv"),
    ],
)
def test_first_lines(tmp_path: Path, content: bytes, format_name: str) -> None:
    for name, packed in (("plain", content), ("gz", gzip.compress(content)), ("xz", lzma.compress(content))):
        path = tmp_path / name
        path.write_bytes(packed)
        assert detect_format(path) == format_name


@pytest.mark.parametrize(
    ("line", "format_name"),
    [
        (b"1 " + b" ".join(b"%d:0.25" % i for i in range(20_000)), "sparse text"),
        (b",".join(b"%d" % i for i in range(20_000)) + b" 1:1", "sparse text"),
        (b"1984 " + b"a long text " * 10 + b"\t" + b"label," * 20_000 + b"label", "tsv"),
        (b'{"text": "' + b"a long text " * 10_000 + b'", "labels": []}', "jsonl"),
    ],
)
def test_a_line_that_the_head_cuts_anywhere(tmp_path: Path, line: bytes, format_name: str) -> None:
    """Whichever line it is, and wherever in a token it is cut."""
    path = tmp_path / "data"
    for before in (b"", b"\xef\xbb\xbf", b"\n", b"# a comment\n" * 20):
        for blanks in range(10):
            path.write_bytes(before + b"\n" * blanks + line + b"\n")
            assert detect_format(path) == format_name


def test_a_line_that_just_fits_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "data"
    features = b"1 2:3\n".rjust(1 << 16, b"\n")
    path.write_bytes(features)
    assert detect_format(path) == "sparse text"
    path.write_bytes(features[1:-1] + b"\t")
    assert detect_format(path) == "sparse text"
    path.write_bytes(b"text\t3".rjust(1 << 16, b"\n"))
    assert detect_format(path) == "tsv"


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_jsonl(DATA, path)
    names = ["places", "people", "more"]
    assert load(path, label_names=names).label_names == read_jsonl(path, label_names=names).label_names
    write_svmlight(DATA, path)
    assert load(path, n_features=9, zero_based=False).n_features == 9


@pytest.mark.parametrize(("content", "message"), [(b"", "no data"), (b"\n \n", "no data"), (b"words\n", "unknown")])
def test_unknown_formats(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=message) as caught:
        load(path)
    assert caught.value.path == str(path)


def test_the_line_that_was_judged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for content, line in ((b"words\n", 1), (b"\n\nwords\nmore\tx", 3), (b"\xef\xbb\xbf# comment\r\n\r\nwords", 3)):
        path.write_bytes(content)
        with pytest.raises(DataFormatError, match="unknown") as caught:
            load(path)
        assert (caught.value.line, caught.value.token) == (line, "words")


@pytest.mark.parametrize("content", ["1 4:5\n", "old man\tpeople\n", '{"text": "a", "labels": []}\n'])
def test_utf_16_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "data"
    for encoding, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        path.write_bytes(mark + content.encode(encoding))
        with pytest.raises(DataFormatError, match="the file is UTF-16, but UTF-8 is expected") as caught:
            load(path)
        assert (caught.value.path, caught.value.line) == (str(path), 1)
        path.write_bytes(content.encode(encoding))
        with pytest.raises(DataFormatError, match=r"NUL.*UTF-8 text file is expected, not a binary or UTF-16 one"):
            load(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
