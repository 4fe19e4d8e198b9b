"""TSV and JSON Lines: round trips, and every malformed line told with its place."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

from labelprism.data.dataset import Dataset
from labelprism.data.files import writing
from labelprism.data.text import read_jsonl, read_tsv, write_jsonl, write_tsv
from labelprism.errors import DataFormatError

SUFFIXES = ["", ".gz", ".xz", ".zst"]


def file_with(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(data: Dataset) -> list[tuple[str, list[str]]]:
    """The data set as pairs of text and sorted label names, whatever the order of its columns."""
    assert data.texts is not None
    labels = np.split(data.Y.indices, data.Y.indptr[1:-1])
    return [(text, sorted(data.names_of(row))) for text, row in zip(data.texts, labels, strict=True)]


def same(first: Dataset, second: Dataset) -> bool:
    return (
        (first.texts, first.label_names) == (second.texts, second.label_names)
        and first.Y.shape == second.Y.shape
        and (first.Y != second.Y).nnz == 0
    )


# ---------------------------------------------------------------- round trips

characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=30)
tsv_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\0\ufeff"), max_size=30)
any_names = st.lists(st.text(characters, min_size=1, max_size=8), unique=True, min_size=1, max_size=6)
tsv_names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\0,;<>"), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool),
    unique=True,
    min_size=1,
    max_size=6,
)


@st.composite
def datasets(draw: st.DrawFn, texts: st.SearchStrategy[str], names: st.SearchStrategy[list[str]] | None) -> Dataset:
    label_names = None if names is None else draw(names)
    n_labels = draw(st.integers(1, 6)) if label_names is None else len(label_names)
    rows = draw(st.lists(st.tuples(texts, st.sets(st.integers(0, n_labels - 1))), min_size=1, max_size=6))
    Y = np.zeros((len(rows), n_labels))
    for row, (_, labels) in enumerate(rows):
        Y[row, list(labels)] = 1
    if label_names is None:  # the file of ids ends at the largest one, so that one must occur
        Y[0, n_labels - 1] = 1
    return Dataset(Y=Y, label_names=label_names, texts=[text for text, _ in rows])


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


@given(data=datasets(texts, any_names), suffix=st.sampled_from(SUFFIXES))
def test_jsonl_round_trip_of_names(data: Dataset, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.jsonl" + suffix)
        write_jsonl(data, path)
        assert same(read_jsonl(path, label_names=data.label_names), data)
        assert rows_of(read_jsonl(path)) == rows_of(data)


@given(data=datasets(texts, None))
def test_jsonl_round_trip_of_ids(data: Dataset) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.jsonl")
        write_jsonl(data, path)
        assert same(read_jsonl(path), data)


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


# ---------------------------------------------------------------- reading TSV


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
    named = read_tsv(path, label_kind="id", label_names=["p", "q", "r", "s", "t"])
    assert rows_of(named) == [("a", ["p", "s"]), ("b", []), ("c", ["s"])]
    assert named.n_labels == 5


def test_the_largest_id(tmp_path: Path) -> None:
    assert read_tsv(file_with(tmp_path, "a\t2147483646"), label_kind="id").Y.shape == (1, 2**31 - 1)
    assert read_jsonl(file_with(tmp_path, '{"text": "a", "labels": [2147483646]}')).Y.shape == (1, 2**31 - 1)


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


# ---------------------------------------------------------------- reading JSON Lines


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ('"labels": ["ship", " sea "]', [" sea ", "ship"]),
        ('"labels": ["ship", "ship"]', ["ship"]),
        ('"labels": "ship, sea"', ["sea", "ship"]),
        ('"labels": ""', []),
        ('"labels": []', []),
        ('"subjects": [{"uri": "http://x.org/1", "label": "one"}, {"label": "two"}]', ["http://x.org/1", "two"]),
        ('"subjects": [{"uri": null, "name": "three", "notation": 5}, "four"]', ["four", "three"]),
        ('"subjects": ["no"], "labels": ["yes"]', ["yes"]),
        ('"labels": ["\\ud834\\udd1e"]', ["\U0001d11e"]),
        ('"other": [[]], "labels": ["a\\u2028b"]', ["a\u2028b"]),
    ],
)
def test_the_forms_of_json_labels(tmp_path: Path, labels: str, expected: list[str]) -> None:
    path = file_with(tmp_path, f'\n{{"text": "some", {labels}}}\r\n\n')
    assert rows_of(read_jsonl(path)) == [("some", expected)]


def test_other_keys_and_separator(tmp_path: Path) -> None:
    path = file_with(tmp_path, '{"title": "t", "tags": "a;b,c", "text": 5}\n')
    assert rows_of(read_jsonl(path, text_key="title", labels_key="tags", label_sep=";")) == [("t", ["a", "b,c"])]


def test_json_ids(tmp_path: Path) -> None:
    path = file_with(tmp_path, '{"text": "a", "labels": [2, 0, 2]}\n{"text": "b", "labels": []}\n')
    data = read_jsonl(path)
    assert data.label_names is None
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0, 1], [0, 0, 0]])
    assert rows_of(read_jsonl(path, label_names=["x", "y", "z"])) == [("a", ["x", "z"]), ("b", [])]


def test_json_names_are_looked_up(tmp_path: Path) -> None:
    path = file_with(tmp_path, '{"text": "a", "labels": ["x", "new"]}\n')
    with pytest.raises(DataFormatError, match="not in label_names") as caught:
        read_jsonl(path, label_names=["y", "x"])
    assert (caught.value.line, caught.value.token) == (1, "new")
    assert rows_of(read_jsonl(path, label_names=["y", "x"], unknown_labels="ignore")) == [("a", ["x"])]


def row(labels: str) -> str:
    return f'{{"text": "a", "labels": {labels}}}'


JSON_FAULTS: list[tuple[str, str | None, str]] = [
    ('{"text": "a", "labels": [}', "}", "invalid JSON at column 26"),
    ('{"text": "a"', '{"text": "a"', "invalid JSON at column 13"),
    ("text\tlabel", "text\tlabel", "invalid JSON at column 1"),
    (row("[" + "1" * 5000 + "]"), row("[" + "1" * 5000)[:57] + "...", "invalid JSON"),
    ("[1]", "[1]", "an object is expected.*not a list"),
    ('"text"', '"text"', "an object is expected.*not a string"),
    ("null", "null", "an object is expected.*not null"),
    ('{"labels": []}', "labels", "key 'text' of the text is missing"),
    ('{"text": "a", "label": []}', "text, label", "key 'labels' of the labels is missing"),
    ('{"text": null, "labels": []}', "None", "must be a string, not null"),
    ('{"text": ["a"], "labels": []}', "['a']", "must be a string, not a list"),
    (row("null"), "None", "a list or a string, not null"),
    (row("{}"), "{}", "a list or a string, not an object"),
    (row("5"), "5", "a list or a string, not a number"),
    (row("[true]"), "True", "not true or false"),
    (row("[1.0]"), "1.0", "a string, an integer or an object, not a number"),
    (row('[["x"]]'), "['x']", "not a list"),
    (row('[{"id": "x"}]'), "{'id': 'x'}", 'string "uri", "label" or "name"'),
    (row('[{"uri": 5}]'), "{'uri': 5}", 'string "uri", "label" or "name"'),
    (row('["x", ""]'), "''", "empty label"),
    (row('"x,,y"'), "x,,y", "empty label"),
    (row("[3, -1]"), "-1", "from 0 to 2147483646"),
    (row("[2147483647]"), "2147483647", "from 0 to 2147483646"),
    (row('[1, "x"]'), "x", "mixes label names"),
    (row('["x", 1]'), "1", "mixes label names"),
    ('{"text": "\\ud800", "labels": []}', "\\ud800", "surrogate"),
    (row('["\\uDC00"]'), "\\udc00", "surrogate"),
    (row('[{"uri": "a\\udc00"}]'), "\\udc00", "surrogate"),
]


@pytest.mark.parametrize(("line", "token", "message"), JSON_FAULTS)
def test_jsonl_faults(tmp_path: Path, line: str, token: str | None, message: str) -> None:
    path = file_with(tmp_path, f'{{"text": "good", "labels": []}}\n\n{line}\n')
    with pytest.raises(DataFormatError, match=message) as caught:
        read_jsonl(path)
    assert (caught.value.path, caught.value.line, caught.value.token) == (str(path), 3, token)


@pytest.mark.parametrize("depth", [500, 900, 990, 2000, 200_000])
def test_absurd_nesting_is_no_crash(tmp_path: Path, depth: int) -> None:
    for value in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        for key in ("text", "labels"):
            record = {"text": '"a"', "labels": "[]"} | {key: value}
            path = file_with(tmp_path, f'{{"text": {record["text"]}, "labels": {record["labels"]}}}')
            with pytest.raises(DataFormatError) as caught:
                read_jsonl(path)
            assert (caught.value.path, caught.value.line) == (str(path), 1)


@pytest.mark.parametrize(
    ("first", "second", "token"), [('["x"]', "[1]", "1"), ("[1]", '["x"]', "x"), ("[1]", '"x"', "x")]
)
def test_ids_and_names_in_different_rows(tmp_path: Path, first: str, second: str, token: str) -> None:
    path = file_with(tmp_path, "\n".join([row(first), row("[]"), row(second)]))
    with pytest.raises(DataFormatError, match="mixes label names") as caught:
        read_jsonl(path)
    assert (caught.value.line, caught.value.token) == (3, token)


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


# ---------------------------------------------------------------- writing


def one_row(text: str = "text", name: str | None = "name") -> Dataset:
    return Dataset(Y=[[0], [1]], texts=["first", text], label_names=None if name is None else [name])


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


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_names_that_jsonl_cannot_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"^row 1: "):
        write_jsonl(one_row(name=name), tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_names_that_do_not_occur_do_not_matter(tmp_path: Path) -> None:
    data = Dataset(Y=[[1, 0]], texts=["a"], label_names=["x", " bad,name "])
    write_tsv(data, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "a\tx\n"


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
