"""JSON Lines: round trips, and every malformed line told with its place."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled_texts import SUFFIXES, any_names, datasets, file_with, one_row, rows_of, same, texts

from labelprism.data.dataset import Dataset
from labelprism.data.text import read_jsonl, write_jsonl
from labelprism.errors import DataFormatError

# ---------------------------------------------------------------- round trips


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


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ('"labels": ["ship", " sea "]', [" sea ", "ship"]),
        ('"labels": ["ship", "ship"]', ["ship"]),
        ('"labels": "ship, sea"', ["sea", "ship"]),
        ('"labels": "<http://x.org/p1> <http://x.org/p,2>"', ["http://x.org/p,2", "http://x.org/p1"]),
        ('"subjects": " <http://x.org/p1>"', ["http://x.org/p1"]),
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
    brackets = file_with(tmp_path, row('"<x>,y"'))
    assert rows_of(read_jsonl(brackets, label_sep=",")) == [("a", ["<x>", "y"])]


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
    (row('"<x> y"'), "y", "malformed label"),
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


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_names_that_jsonl_cannot_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"^row 1: "):
        write_jsonl(one_row(name=name), tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
