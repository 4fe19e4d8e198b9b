"""`Dataset`: what it refuses, what it makes of what it takes, and its few methods."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism.data.dataset import Dataset

Y = sp.csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=np.float32))
X = sp.csr_array(np.arange(8, dtype=np.float32).reshape(4, 2))
TEXTS = ["a", "b", "c", "d"]
NAMES = ["x", "y", "z"]


def full() -> Dataset:
    return Dataset(X=X, Y=Y, label_names=NAMES, texts=TEXTS)


def test_parts_are_kept_in_the_forms_promised() -> None:
    Y_counts = sp.coo_matrix(([5.0, 0.0, -1.0], ([0, 1, 2], [1, 1, 0])), shape=(3, 2))
    X_columns = sp.csc_matrix(np.eye(3, dtype=np.int64))
    data = Dataset(X=X_columns, Y=Y_counts, label_names=["x", "y"], texts=("a", "b", "c"))
    assert isinstance(data.X, sp.csr_array)
    assert isinstance(data.Y, sp.csr_array)
    assert data.X.dtype == data.Y.dtype == np.float32
    np.testing.assert_array_equal(data.Y.toarray(), [[0, 1], [0, 0], [1, 0]])
    assert data.Y.nnz == 2, "a stored zero is no label"
    assert data.label_names == ("x", "y")
    assert data.texts == ["a", "b", "c"]


def test_dense_features_become_float32() -> None:
    data = Dataset(X=[[1, 2], [3, 4], [5, 6]], Y=np.ones((3, 1)))
    assert isinstance(data.X, np.ndarray)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    fortran = Dataset(X=np.asfortranarray(np.eye(3)), Y=np.ones((3, 1)))
    assert isinstance(fortran.X, np.ndarray)
    assert fortran.X.flags.c_contiguous


def test_arrays_that_fit_are_shared() -> None:
    dense = np.zeros((4, 2), dtype=np.float32)
    assert Dataset(X=dense, Y=Y).X is dense
    sparse = full().X
    assert sparse is not None
    assert np.shares_memory(sparse.data, X.data)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "X, texts or both"),
        ({"X": X[:3]}, r"X has length 3, but Y has 4 rows"),
        ({"texts": TEXTS[:2]}, r"texts has length 2, but Y has 4 rows"),
        ({"X": X, "label_names": ["x", "y"]}, r"label_names has length 2, but Y has 3 columns"),
        ({"X": X, "label_names": ["x", "y", "x"]}, r"'x' names column 0 and column 2"),
        ({"texts": ["a", "b", 3, "d"]}, "entry 2 is of type int"),
        ({"texts": "abcd"}, "texts must be a list of strings"),
        ({"texts": TEXTS, "label_names": ["x", None, "z"]}, "entry 1 is of type NoneType"),
        ({"texts": TEXTS, "label_names": "xyz"}, "label_names must be a list of strings"),
        ({"X": np.zeros(4)}, "X must have two dimensions, got 1"),
        ({"X": np.zeros((4, 2, 2))}, "X must have two dimensions, got 3"),
        ({"X": np.array([[1.0], [2.0], [np.nan], [np.inf]])}, "in row 2"),
        ({"X": np.array([[1.0], [2.0], [3.0], [1e300]])}, "in row 3"),
        ({"X": np.full((4, 1), "1")}, "must hold real numbers"),
        ({"X": np.full((4, 1), 1j)}, "must hold real numbers"),
        ({"X": np.full((4, 1), None)}, "must hold real numbers"),
        ({"X": sp.csr_array(np.array([[0.0], [0], [0], [np.nan]]))}, "in row 3"),
    ],
)
def test_faults_are_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset(Y=Y, **parts)  # type: ignore[arg-type]


def test_fields_go_by_name_and_cannot_be_set() -> None:
    with pytest.raises(TypeError):
        Dataset(X, Y)  # type: ignore[call-arg, misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        full().X = None  # type: ignore[misc]


def test_sizes() -> None:
    assert (full().n_rows, full().n_features, full().n_labels) == (4, 2, 3)
    assert Dataset(Y=Y, texts=TEXTS).n_features is None


def test_no_rows_and_no_labels_are_possible() -> None:
    empty = Dataset(X=sp.csr_array((0, 5)), Y=sp.csr_array((0, 0)), texts=[], label_names=[])
    assert (empty.n_rows, empty.n_features, empty.n_labels) == (0, 5, 0)
    assert "0 rows" in repr(empty)
    assert full().take([]).n_rows == 0
    assert empty.take(np.zeros(0, dtype=bool)).n_rows == 0


@given(st.lists(st.integers(-4, 3), max_size=8))
def test_take_by_index(rows: list[int]) -> None:
    data = full()
    part = data.take(rows)
    assert part.texts == [TEXTS[row] for row in rows]
    assert part.label_names == data.label_names
    assert part.X is not None
    np.testing.assert_array_equal(part.X.toarray(), X.toarray()[np.array(rows, dtype=int)])
    np.testing.assert_array_equal(part.Y.toarray(), Y.toarray()[np.array(rows, dtype=int)])


def test_take_by_mask_and_without_some_parts() -> None:
    mask = np.array([True, False, False, True])
    assert full().take(mask).texts == ["a", "d"]
    assert Dataset(Y=Y, texts=TEXTS).take(mask).X is None
    dense = Dataset(X=X.toarray(), Y=Y).take(mask)
    np.testing.assert_array_equal(dense.X, X.toarray()[mask])
    assert dense.texts is None


def test_take_refuses_what_is_not_there() -> None:
    for rows in ([4], [-5], [True, False], [0.5]):
        with pytest.raises(IndexError):
            full().take(rows)
    for rows_of_wrong_shape in (1, [[0, 1]]):
        with pytest.raises(ValueError, match="one dimension"):
            full().take(rows_of_wrong_shape)


def test_names_become_rows() -> None:
    data = Dataset(texts=["a ship", "a tree"], Y=[[1, 1, 0], [0, 1, 0]], label_names=["ship", "thing", "cloud"])
    more = data.with_names_as_rows()
    assert more.texts == ["a ship", "a tree", "ship", "thing", "cloud"]
    np.testing.assert_array_equal(more.Y.toarray(), [[1, 1, 0], [0, 1, 0], *np.eye(3)])
    assert more.label_names == data.label_names
    some = data.with_names_as_rows(["a vessel", " ", "what rain comes from"])
    assert some.texts == ["a ship", "a tree", "a vessel", "what rain comes from"]
    np.testing.assert_array_equal(some.Y.toarray()[2:], np.eye(3)[[0, 2]])
    assert data.with_names_as_rows([""] * 3).n_rows == 2


@pytest.mark.parametrize(
    ("parts", "names", "message"),
    [
        ({"X": np.eye(2), "label_names": ["a", "b"]}, None, "stack features of the names"),
        ({"texts": ["a", "b"]}, None, "give the names"),
        ({"texts": ["a", "b"]}, ["a"], "names has length 1, but Y has 2 columns"),
        ({"texts": ["a", "b"]}, ["a", None], "entry 1 is of type NoneType"),
    ],
)
def test_names_that_become_no_rows(parts: dict[str, object], names: list[str] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset(Y=np.eye(2), **parts).with_names_as_rows(names)


def test_names_of() -> None:
    assert full().names_of(np.array([2, 0])) == ["z", "x"]
    assert Dataset(X=X, Y=Y).names_of([2, 0]) == ["2", "0"]
    for label in (-1, 3):
        with pytest.raises(IndexError, match="from 0 to 2"):
            full().names_of([0, label])


def test_repr_is_one_useful_line() -> None:
    assert repr(full()) == "<Dataset: 4 rows with texts, 2 sparse features, 3 named labels, 1.50 labels per row>"
    dense = Dataset(X=np.zeros((4, 2000)), Y=Y)
    assert repr(dense) == "<Dataset: 4 rows, 2,000 dense features, 3 labels, 1.50 labels per row>"
    assert repr(Dataset(Y=Y, texts=TEXTS)) == "<Dataset: 4 rows with texts, 3 labels, 1.50 labels per row>"
