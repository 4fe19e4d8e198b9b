"""What TSV and JSON Lines have in common: sizes, encodings, damaged files, arguments."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from labelled_texts import SUFFIXES, file_with, one_row

from labelprism.data.dataset import Dataset
from labelprism.data.files import writing
from labelprism.data.text import read_jsonl, read_tsv, write_jsonl, write_tsv
from labelprism.errors import DataFormatError


def test_the_largest_id(tmp_path: Path) -> None:
    assert read_tsv(file_with(tmp_path, "a\t2147483646"), label_kind="id").Y.shape == (1, 2**31 - 1)
    assert read_jsonl(file_with(tmp_path, '{"text": "a", "labels": [2147483646]}')).Y.shape == (1, 2**31 - 1)


@pytest.mark.parametrize("content", ["", "\n", "\ufeff"])
def test_a_file_without_rows_is_refused(tmp_path: Path, content: str) -> None:
    path = file_with(tmp_path, content)
    for reader in (read_tsv, read_jsonl):
        with pytest.raises(DataFormatError, match="no rows") as caught:
            reader(path)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("reader", [read_tsv, read_jsonl])
@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_a_truncated_file_is_told_with_path_and_line(tmp_path: Path, reader: Any, suffix: str) -> None:
    line = "{}\tx\n" if reader is read_tsv else '{{"text": "{}", "labels": []}}\n'
    path = tmp_path / f"file{suffix}"
    with writing(path) as stream:
        for number in range(3000):
            stream.write(line.format(number**9).encode())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFormatError, match="truncated") as caught:
        reader(path)
    assert caught.value.path == str(path)
    assert caught.value.line is not None


@pytest.mark.parametrize("reader", [read_tsv, read_jsonl])
def test_wrong_encodings_are_told_by_readers_too(tmp_path: Path, reader: Any) -> None:
    good = "a\tx\n" if reader is read_tsv else '{"text": "a", "labels": []}\n'
    path = file_with(tmp_path, good.encode() + "café\tx\n".encode("latin-1"))
    with pytest.raises(DataFormatError, match="UTF-8 is expected") as caught:
        reader(path)
    assert (caught.value.line, caught.value.token) == (2, "0xe9")
    with pytest.raises(DataFormatError, match="UTF-16"):
        reader(file_with(tmp_path, good.encode("utf-16")))
    with pytest.raises(DataFormatError, match="NUL"):
        reader(file_with(tmp_path, good.encode("utf-16-le")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_sep": ""}, "label_sep must be"),
        ({"label_sep": "a\tb"}, "label_sep must be"),
        ({"label_sep": "\n"}, "label_sep must be"),
        ({"label_sep": "\0"}, "label_sep must be"),
        ({"label_sep": 5}, "label_sep must be.*got 5"),
        ({"label_sep": b","}, "label_sep must be.*got b','"),
        ({"label_kind": "number"}, "label_kind must be"),
        ({"unknown_labels": "drop"}, "unknown_labels must be"),
        ({"label_names": ["x", "x"]}, "must be unique"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_tsv(tmp_path / "there is no such file", **options)
    if "label_kind" not in options:
        with pytest.raises(ValueError, match=message):
            read_jsonl(tmp_path / "there is no such file", **options)
    if "label_sep" in options:
        with pytest.raises(ValueError, match=message):
            write_tsv(one_row(), tmp_path / "file", **options)


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_readers_never_fail_otherwise(content: str | bytes) -> None:
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        path = file_with(Path(folder), raw)
        for reader in (read_tsv, read_jsonl):
            try:
                reader(path)
            except DataFormatError as error:
                assert error.path == str(path)  # noqa: PT017


def test_what_is_written(tmp_path: Path) -> None:
    data = Dataset(Y=[[1, 1], [0, 0]], texts=["café", "b"], label_names=["http://x.org/1", "y"])
    write_tsv(data, tmp_path / "tsv", label_sep="<>")
    assert (tmp_path / "tsv").read_bytes() == "café\t<http://x.org/1> <y>\nb\t\n".encode()
    write_jsonl(data, tmp_path / "jsonl")
    first, second = (tmp_path / "jsonl").read_bytes().splitlines()
    assert first == '{"text": "café", "labels": ["http://x.org/1", "y"]}'.encode()
    assert json.loads(second) == {"text": "b", "labels": []}
    write_jsonl(Dataset(Y=[[0, 1]], texts=["a"]), tmp_path / "ids")
    assert json.loads((tmp_path / "ids").read_text()) == {"text": "a", "labels": [1]}


@pytest.mark.parametrize("writer", [write_tsv, write_jsonl])
def test_a_data_set_without_texts_is_refused(tmp_path: Path, writer: Any) -> None:
    with pytest.raises(ValueError, match="no texts"):
        writer(Dataset(X=sp.csr_array((1, 1)), Y=sp.csr_array((1, 1))), tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reader", "content"),
    [(read_tsv, "a\t\nb\t\n"), (read_jsonl, '{"text": "a", "labels": []}\n{"text": "b", "labels": ""}\n')],
)
def test_number_of_labels_where_no_row_has_any(tmp_path: Path, reader: Any, content: str) -> None:
    path = file_with(tmp_path, content)
    data = reader(path, n_labels=7)
    assert (data.Y.shape, data.label_names) == ((2, 7), None)
    assert reader(path, label_names=["x", "y"]).label_names == ("x", "y")
    assert reader(path).label_names == ()


@pytest.mark.parametrize("n_labels", [0, -1, 2.5, 2**31, "7", True])
def test_wrong_numbers_of_labels_are_refused(tmp_path: Path, n_labels: Any) -> None:
    for reader in (read_tsv, read_jsonl):
        with pytest.raises(ValueError, match="n_labels must be a whole number from 1 to 2147483647"):
            reader(tmp_path / "there is no such file", n_labels=n_labels)
