"""TSV: round trips, and every malformed line told with its place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from labelled_texts import SUFFIXES, any_names, datasets, file_with, one_row, rows_of, same, texts, tsv_names, tsv_texts

from labelprism.data.dataset import Dataset
from labelprism.data.text import read_tsv, write_tsv
from labelprism.errors import DataFormatError

# ---------------------------------------------------------------- round trips


@given(
    data=datasets(tsv_texts, tsv_names), suffix=st.sampled_from(SUFFIXES), label_sep=st.sampled_from([",", ";", ";;"])
)
def test_tsv_round_trip_of_names(data: Dataset, suffix: str, label_sep: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.tsv" + suffix)
        write_tsv(data, path, label_sep=label_sep)
        read_sep = None if label_sep == "," else label_sep
        assert same(read_tsv(path, label_names=data.label_names, label_sep=read_sep), data)
        assert rows_of(read_tsv(path, label_sep=read_sep)) == rows_of(data)


@given(data=datasets(tsv_texts, tsv_names), suffix=st.sampled_from(SUFFIXES))
def test_tsv_round_trip_in_the_layout_of_annif(data: Dataset, suffix: str) -> None:
    assert data.label_names is not None
    assume(all(name.split() == [name] for name in data.label_names))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.tsv" + suffix)
        write_tsv(data, path, label_sep="<>")
        assert same(read_tsv(path, label_names=data.label_names), data)
        assert same(read_tsv(path, label_names=data.label_names, label_sep="<>"), data)


@given(data=datasets(tsv_texts, None), label_sep=st.sampled_from([",", "<>"]))
def test_tsv_round_trip_of_ids(data: Dataset, label_sep: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.tsv")
        write_tsv(data, path, label_sep=label_sep)
        assert same(read_tsv(path, label_kind="id"), data)


@given(
    data=datasets(
        texts, any_names | st.lists(st.text(",<>; \ta\r\n", max_size=4), unique=True, min_size=1, max_size=5)
    ),
    label_sep=st.sampled_from([",", "<>", ";", ",,", ", ", " ", "a"]),
)
def test_tsv_refuses_or_round_trips(data: Dataset, label_sep: str) -> None:
    """Whatever the texts and names: what is written is read as it was, and the rest is refused with its row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.tsv")
        try:
            write_tsv(data, path, label_sep=label_sep)
        except ValueError as error:
            assert str(error).startswith("row ")  # noqa: PT017
            assert not path.exists()
        else:
            read_sep = None if label_sep in (",", "<>") else label_sep
            assert same(read_tsv(path, label_sep=read_sep, label_names=data.label_names), data)


# ---------------------------------------------------------------- reading


def test_names_are_sorted_and_repeats_taken_once(tmp_path: Path) -> None:
    path = file_with(tmp_path, "first\tship, sea ,ship\nsecond \t\nthird\tboat\n")
    data = read_tsv(path)
    assert data.X is None
    assert data.label_names == ("boat", "sea", "ship")
    assert data.texts == ["first", "second ", "third"]
    np.testing.assert_array_equal(data.Y.toarray(), [[0, 1, 1], [0, 0, 0], [1, 0, 0]])


def test_names_are_sorted_whatever_order_they_come_in(tmp_path: Path) -> None:
    path = file_with(tmp_path, "1\td,b\n2\ta,c\n3\tb\n")
    data = read_tsv(path)
    assert data.label_names == ("a", "b", "c", "d")
    assert rows_of(data) == [("1", ["b", "d"]), ("2", ["a", "c"]), ("3", ["b"])]


def test_annif_layout_needs_no_argument(tmp_path: Path) -> None:
    path = file_with(tmp_path, "a text\t <http://x.org/p1>  <http://x.org/p,2> \nnone\t\nplain\tp3,p4\n")
    data = read_tsv(path)
    assert rows_of(data) == [
        ("a text", ["http://x.org/p,2", "http://x.org/p1"]),
        ("none", []),
        ("plain", ["p3", "p4"]),
    ]
    assert rows_of(read_tsv(file_with(tmp_path, "a\t<x>;b"), label_sep=";")) == [("a", ["<x>", "b"])]


@pytest.mark.parametrize(
    "content", ["a\tx\r\nb\ty\r\n", "a\tx\nb\ty", "\ufeffa\tx\nb\ty\n\n", "a\tx\r\nb\ty\r\n\r\n", "a\tx\nb\ty\n "]
)
def test_line_ends_and_a_blank_last_line(tmp_path: Path, content: str) -> None:
    assert rows_of(read_tsv(file_with(tmp_path, content))) == [("a", ["x"]), ("b", ["y"])]


def test_a_row_may_be_empty_but_for_its_tab(tmp_path: Path) -> None:
    assert rows_of(read_tsv(file_with(tmp_path, "\t\n\tx\n"))) == [("", []), ("", ["x"])]


def test_ids(tmp_path: Path) -> None:
    path = file_with(tmp_path, "a\t3, 0\nb\t\nc\t3,3\n")
    data = read_tsv(path, label_kind="id")
    assert data.label_names is None
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]])
    without = read_tsv(file_with(tmp_path, "a\t\n", "without"), label_kind="id")
    assert (without.Y.shape, without.label_names) == ((1, 0), None), "ids have no names, not even none at all"
    named = read_tsv(path, label_kind="id", label_names=["p", "q", "r", "s", "t"])
    assert rows_of(named) == [("a", ["p", "s"]), ("b", []), ("c", ["s"])]
    assert named.n_labels == 5


def test_number_of_labels_for_ids(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("a\t2,0\n")
    assert read_tsv(path, label_kind="id").n_labels == 3
    assert read_tsv(path, label_kind="id", n_labels=7).n_labels == 7
    with pytest.raises(DataFormatError, match="from 0 to 1"):
        read_tsv(path, label_kind="id", n_labels=2)
    with pytest.raises(DataFormatError, match="n_labels is for label ids"):
        read_tsv(path, n_labels=7)
    with pytest.raises(ValueError, match="n_labels must be"):
        read_tsv(path, n_labels=7, label_names=["a"])


def test_given_names_fix_the_columns(tmp_path: Path) -> None:
    path = file_with(tmp_path, "a\tz,x\nb\tx,new\n")
    with pytest.raises(DataFormatError, match="not in label_names") as caught:
        read_tsv(path, label_names=["z", "y", "x"])
    assert (caught.value.path, caught.value.line, caught.value.token) == (str(path), 2, "new")
    data = read_tsv(path, label_names=["z", "y", "x"], unknown_labels="ignore")
    assert data.label_names == ("z", "y", "x")
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0, 1], [0, 0, 1]])
    assert read_tsv(path, unknown_labels="ignore").label_names == ("new", "x", "z"), "no names given, none unknown"


TSV_FAULTS: list[tuple[str, dict[str, Any], int, str | None, str]] = [
    ("a\tx\nno tab\n", {}, 2, "no tab", "one TAB is expected.*found none"),
    ("a\tx\ty\n", {}, 1, "a\tx\ty", "one TAB is expected.*found 2"),
    ("a\tx\n\t\t\n", {}, 2, "\t\t", "one TAB is expected.*found 2"),
    ("a\tx\n\nb\ty\n", {}, 2, None, "blank"),
    ("a\tx\n\n\n", {}, 2, None, "blank"),
    ("\na\tx\n", {}, 1, None, "blank"),
    ("a\tx\nb\tx,,y\n", {}, 2, "x,,y", "empty label"),
    ("a\tx,\n", {}, 1, "x,", "empty label"),
    ("a\t, ,\n", {}, 1, ", ,", "empty label"),
    ("a\tx;;y\n", {"label_sep": ";"}, 1, "x;;y", "empty label.*';'"),
    ("a\t<x> <y\n", {}, 1, "<y", "malformed label"),
    ("a\t<x> y\n", {}, 1, "y", "malformed label"),
    ("a\t<x><y>\n", {}, 1, "<x><y>", "malformed label"),
    ("a\t<x> <>\n", {}, 1, "<>", "malformed label"),
    ("a\t<x y>\n", {}, 1, "<x", "malformed label"),
    ("a\t<\n", {}, 1, "<", "malformed label"),
    ("a\tx y\n", {"label_sep": "<>"}, 1, "x", "malformed label"),
    ("a\t1\nb\t2,-3\n", {"label_kind": "id"}, 2, "-3", "non-negative integer"),
    ("a\tship\n", {"label_kind": "id"}, 1, "ship", "non-negative integer.*label_kind"),
    ("a\t1.0\n", {"label_kind": "id"}, 1, "1.0", "non-negative integer"),
    ("a\t1_0\n", {"label_kind": "id"}, 1, "1_0", "non-negative integer"),
    ("a\t+1\n", {"label_kind": "id"}, 1, "+1", "non-negative integer"),
    ("a\t\u0663\n", {"label_kind": "id"}, 1, "\u0663", "non-negative integer"),
    ("a\t1,2147483647\n", {"label_kind": "id"}, 1, "2147483647", "from 0 to 2147483646"),
    ("a\t" + "9" * 5000, {"label_kind": "id"}, 1, "9" * 57 + "...", "from 0 to 2147483646"),
    ("a\t0,2\n", {"label_kind": "id", "label_names": ["x", "y"]}, 1, "2", "from 0 to 1, as there are 2 label_names"),
    ("a\t2\n", {"label_kind": "id", "label_names": ["x", "y"], "unknown_labels": "ignore"}, 1, "2", "from 0 to 1"),
]


@pytest.mark.parametrize(("content", "options", "line", "token", "message"), TSV_FAULTS)
def test_tsv_faults(
    tmp_path: Path, content: str, options: dict[str, Any], line: int, token: str | None, message: str
) -> None:
    path = file_with(tmp_path, content)
    with pytest.raises(DataFormatError, match=message) as caught:
        read_tsv(path, **options)
    assert (caught.value.path, caught.value.line, caught.value.token) == (str(path), line, token)


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\r\nb", "a\0b", "\ud800"])
def test_texts_that_tsv_cannot_hold(tmp_path: Path, text: str) -> None:
    path = file_with(tmp_path, "old")
    with pytest.raises(ValueError, match=r"^row 1: "):
        write_tsv(one_row(text), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("label_sep", [",", "<>"])
@pytest.mark.parametrize("name", ["", " a", "a\r", "<a", "a\tb", "a\nb", "a\0b", "\xa0", "\udfff"])
def test_names_that_tsv_cannot_hold(tmp_path: Path, name: str, label_sep: str) -> None:
    path = file_with(tmp_path, "old")
    with pytest.raises(ValueError, match=r"^row 1: "):
        write_tsv(one_row(name=name), path, label_sep=label_sep)
    assert path.read_text() == "old"


def test_names_that_hold_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match=r"'Blake, William'.*another label_sep, or write_jsonl"):
        write_tsv(one_row(name="Blake, William"), path)
    write_tsv(one_row(name="Blake, William"), path, label_sep="|")
    assert path.read_text() == "first\t\ntext\tBlake, William\n"
    with pytest.raises(ValueError, match="row 1: the label 'a b'"):
        write_tsv(one_row(name="a b"), path, label_sep="<>")
    with pytest.raises(ValueError, match=r"row 1: the label 'a\|'"):
        write_tsv(one_row(name="a|"), path, label_sep="||")


def test_a_byte_order_mark_would_be_lost_in_the_first_row_only(tmp_path: Path) -> None:
    data = Dataset(Y=[[1], [0]], texts=["\ufeffa", "b"])
    with pytest.raises(ValueError, match=r"^row 0: .*byte order mark"):
        write_tsv(data, tmp_path / "file")
    turned = data.take([1, 0])
    write_tsv(turned, tmp_path / "file")
    assert same(read_tsv(tmp_path / "file", label_kind="id"), turned)


def test_names_that_do_not_occur_do_not_matter(tmp_path: Path) -> None:
    data = Dataset(Y=[[1, 0]], texts=["a"], label_names=["x", " bad,name "])
    write_tsv(data, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "a\tx\n"
