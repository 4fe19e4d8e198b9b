"""y of every container, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism._targets import LabelNumbers, TargetFormat, encode_known, encode_targets

INDICATOR = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    "y",
    [
        sp.csr_array(INDICATOR),
        sp.csc_matrix(INDICATOR, dtype=np.float32),
        sp.coo_array(INDICATOR, dtype=bool),
        sp.csr_matrix(INDICATOR * 7),
    ],
)
def test_sparse_indicator(y: Any) -> None:
    found = encode_targets(y)
    np.testing.assert_array_equal(found.Y.toarray(), INDICATOR)
    np.testing.assert_array_equal(found.classes, [0, 1, 2])
    back = found.format.decode(found.Y, found.classes)
    assert back.format == "csr"
    assert back.dtype == y.dtype
    assert isinstance(back, sp.spmatrix) == isinstance(y, sp.spmatrix)
    np.testing.assert_array_equal(back.toarray(), INDICATOR)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, bool, ">i4"])
def test_dense_indicator(dtype: Any) -> None:
    y = INDICATOR.astype(dtype)
    for given_y in (y, y.tolist(), list(y), pd.DataFrame(y), np.asfortranarray(y)):
        found = encode_targets(given_y)
        np.testing.assert_array_equal(found.Y.toarray(), INDICATOR)
    back = encode_targets(y).format.decode(found.Y, found.classes)
    assert back.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(back, y)


@pytest.mark.parametrize(
    "y",
    [
        [("b", "a"), (), ("c", "c")],
        [{"a", "b"}, set(), {"c"}],
        [frozenset("ab"), frozenset(), frozenset("c")],
        pd.Series([("a", "b"), (), ("c",)]),
        (("a", "b"), (), ("c",)),
    ],
)
def test_rows_of_names(y: Any) -> None:
    found = encode_targets(y)
    assert found.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.Y.toarray(), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    back = found.format.decode(found.Y, found.classes)
    assert [set(row) for row in back] == [{"a", "b"}, set(), {"c"}]
    assert type(back[0]) is type(next(iter(y)))


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["sea", "land", "sea"], ["land", "sea"]),
        (np.array(["sea", "land", "sea"]), ["land", "sea"]),
        (np.array(["sea", "land", "sea"], object), ["land", "sea"]),
        (pd.Series(["sea", "land", "sea"]), ["land", "sea"]),
        (pd.Categorical(["sea", "land", "sea"]), ["land", "sea"]),
        ([3, -1, 3], [-1, 3]),
        ([True, False, True], [False, True]),
        ([2.0, 1.0, 2.0], [1.0, 2.0]),
        (["b", 1, "b"], ["b", 1]),  # cannot be sorted: by first appearance
        (np.array(["2020-01-02", "2020-01-01", "2020-01-02"], "M8[D]"), None),
    ],
)
def test_classes(y: Any, classes: list[Any] | None) -> None:
    found = encode_targets(y)
    assert found.format.is_exclusive
    assert classes is None or found.classes.tolist() == classes
    assert np.diff(found.Y.indptr).tolist() == [1, 1, 1]
    np.testing.assert_array_equal(found.classes[found.Y.indices], np.asarray(y, found.classes.dtype))


def test_names_that_only_hash() -> None:
    found = encode_targets([{("a", 1), None.__class__}, {("a", 1)}])
    assert set(found.classes.tolist()) == {("a", 1), type(None)}
    assert found.Y.nnz == 3


def test_a_column_is_classes() -> None:
    with pytest.warns(UserWarning, match="column-vector"):
        assert encode_targets(np.array([[1], [0], [2]])).classes.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "target y is None"),
        ("sea", "single string"),
        ([[1, 2], [3]], "differ in length"),
        ([["a", "b"], ["c", "d"]], "matrix of <U1"),
        ([("a",), None], "row 1 of y is None"),
        ([("a",), "b"], "row 1 of y is 'b'"),
        ([("a", None)], "row 0 of y has the label None"),
        ([(), (float("nan"),)], "row 1 of y has the label nan"),
        ([([1],)], "row 0 of y has a label that is not hashable"),
        (np.array(["a", None], object), "row 1 of y has the label None"),
        (pd.Series(["a", "b", None], dtype="string"), "row 2 of y has the label <NA>"),
        ([1.5, 2.0], "Unknown label type: continuous"),
        ([1.0, np.nan], "Input y contains NaN"),
        ([1.0, np.inf], "Input y contains infinity"),
        (np.array([1j, 2j]), "Complex data"),
        (np.zeros((2, 2, 2)), "1d array"),
        (np.array(["2020-01-01", "NaT"], "M8[D]"), "NaT"),
        (np.array([[0, 2], [1, 0]]), "other values than 0 and 1"),
        (np.array([[0, np.nan], [1, 0]]), "NaN"),
        (sp.csr_array([[0, -1.0]]), "negative"),
        (sp.csr_array([[0, np.nan]]), "NaN"),
    ],
)
def test_what_is_no_target(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_targets(y)


def test_known_labels() -> None:
    classes = np.array(["a", "b", "c"], object)
    found = encode_known([("c", "z"), (), ("a",)], classes)
    np.testing.assert_array_equal(found.toarray(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(encode_known(["b", "z"], classes).toarray(), [[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(encode_known(sp.csr_array(INDICATOR), classes).toarray(), INDICATOR)
    renamed = encode_known(sp.csr_array(INDICATOR), classes, ("c", "a", "z"))
    np.testing.assert_array_equal(renamed.toarray(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    with pytest.raises(ValueError, match="y has 2 columns"):
        encode_known(INDICATOR[:, :2], classes)


def test_label_numbers() -> None:
    numbers = LabelNumbers(np.array(["a", "b"], object))
    assert numbers.numbers(["b", "a", "b"], "allowed").tolist() == [1, 0, 1]
    for names, message in ((["z"], "does not know: 'z'"), ("ab", "single string"), ([["a"]], "hashable")):
        with pytest.raises(ValueError, match=message):
            numbers.numbers(names, "allowed")


@pytest.mark.parametrize("values", [("wrong",), ("sparse", "<f4", "list"), ("sets", "<i8", "list"), ("dense", "|O")])
def test_damaged_formats_are_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="there is no target"):
        TargetFormat(*values)  # type: ignore[arg-type]


@given(st.lists(st.lists(st.sampled_from("abcdefgh")).map(tuple), min_size=1))
def test_rows_come_back(rows: list[tuple[str, ...]]) -> None:
    found = encode_targets(rows)
    assert [set(row) for row in found.format.decode(found.Y, found.classes)] == [set(row) for row in rows]
