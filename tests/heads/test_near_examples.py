"""Near examples: lists and votes against plain twins, the same for every n_threads and cut, and awkward input."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core, _reference
from labelprism._arrays import csr_parts
from labelprism.heads.near_examples import (
    Examples,
    example_arrays,
    example_votes,
    joined_examples,
    kept_examples,
    near_examples,
    strongest_examples,
)


def problem(n: int, d: int, c: int, seed: int, signed: bool = False) -> tuple[sp.csr_array, sp.csr_array]:
    """Unit rows, many of equal values, and labels."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 0.3) * rng.integers(1, 4, (n, d)) * (rng.choice([-1, 1], (n, d)) if signed else 1)
    Y = rng.random((n, c)) < 0.2
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y.astype(np.float32))


def all_labels(n: int, c: int) -> tuple[Any, Any]:
    return np.arange(n + 1, dtype=np.int64) * c, np.tile(np.arange(c, dtype=np.int32), n)


def expected_votes(examples: Examples, X: sp.csr_array, c: int) -> Any:
    """The votes of the twin for all labels of rows, as logarithms."""
    lists = [
        dict(zip(own.indices.tolist(), own.data.tolist(), strict=True))
        for own in (examples.lists[[feature]] for feature in range(X.shape[1]))
    ]
    ends = examples.label_indptr
    labels = [examples.labels[ends[i] : ends[i + 1]].tolist() for i in range(ends.size - 1)]
    weight = [1.0] * len(labels) if examples.weight is None else examples.weight.tolist()
    votes = np.zeros((X.shape[0], c))
    for i in range(X.shape[0]):
        row = X[[i]]
        found = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        for label, share in _reference.example_votes(found, lists, labels, weight).items():
            votes[i, label] = share
    return np.log(0.01 + votes)


@given(st.integers(0, 30), st.integers(1, 8), st.integers(1, 12), st.booleans(), st.integers(0, 1000))
def test_lists_are_those_of_the_twin(n: int, d: int, longest: int, signed: bool, seed: int) -> None:
    X, Y = problem(n, d, 3, seed, signed)
    lists = strongest_examples(X, Y, None, longest, n_threads=2).lists
    assert lists.shape == (d, n)
    for feature, wanted in enumerate(_reference.strongest_examples(X, longest)):
        own = lists[[feature]]
        assert own.indices.tolist() == sorted(wanted)
        assert dict(zip(own.indices.tolist(), own.data.tolist(), strict=True)) == wanted


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("n", "d", "longest"), [(60, 12, 1000), (400, 30, 25), (3000, 20, 1024)])
def test_votes_are_those_of_the_twin(n: int, d: int, longest: int, signed: bool) -> None:
    X, Y = problem(n + 20, d, 15, n, signed)
    weight = np.random.default_rng(0).uniform(0.5, 3, n).astype(np.float32)
    for own in (None, weight):
        examples = strongest_examples(X[:n], Y[:n], own, longest)
        for n_threads in (1, 3):
            votes = example_votes(examples, X[n:], *all_labels(20, 15), 15, n_threads)
            np.testing.assert_allclose(votes.reshape(20, 15), expected_votes(examples, X[n:], 15), atol=2e-3)


@given(st.lists(st.integers(0, 80), max_size=4), st.integers(1, 20), st.integers(0, 100))
def test_parts_are_joined_to_the_whole(cuts: list[int], longest: int, seed: int) -> None:
    X, Y = problem(80, 9, 6, seed, signed=True)
    ends = [0, *sorted(cuts), 80]
    parts = [strongest_examples(X[begin:end], Y[begin:end], None, longest) for begin, end in pairwise(ends)]
    whole, joined = strongest_examples(X, Y, None, longest), joined_examples(parts, longest, n_threads=2)
    for name, array in example_arrays(whole).items():
        np.testing.assert_array_equal(example_arrays(joined)[name], array, err_msg=name)


@pytest.mark.parametrize("features", [[2, 0], [1, 1]])
def test_rows_whose_features_do_not_ascend_are_refused(features: list[int]) -> None:
    X = sp.csr_array((np.ones(2, np.float32), features, [0, 2]), shape=(1, 3))
    with pytest.raises(ValueError, match="must ascend"):
        strongest_examples(X, sp.csr_array(np.ones((1, 2), np.float32)), None, 5)


def test_parts_without_weights_weigh_one_beside_others() -> None:
    X, Y = problem(30, 8, 5, 0)
    parts = [strongest_examples(X[:10], Y[:10], None, 9), strongest_examples(X[10:], Y[10:], np.full(20, 2.0, "f"), 9)]
    assert joined_examples(parts, 9).weight.tolist() == [1.0] * 10 + [2.0] * 20


def test_kept_examples_are_those_of_the_arrays() -> None:
    X, Y = problem(50, 8, 5, 0)
    arrays = example_arrays(strongest_examples(X, Y, np.ones(50, np.float32), 7))
    again = example_arrays(kept_examples(arrays))
    assert set(again) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


def test_the_same_row_has_the_first_say() -> None:
    X, Y = problem(200, 40, 10, 3)
    examples = strongest_examples(X, Y, None, 1024)
    votes = example_votes(examples, X, *all_labels(200, 10), 10).reshape(200, 10)
    own = Y.toarray() > 0
    assert votes[own].mean() > votes[~own].mean() + 0.5


def test_rows_without_features_and_examples_without_labels() -> None:
    X, Y = problem(20, 6, 4, 0)
    nothing = sp.csr_array((1, 6), dtype=np.float32)
    votes = example_votes(strongest_examples(X, Y, None, 5), nothing, *all_labels(1, 4), 4)
    np.testing.assert_allclose(votes, np.log(0.01))
    silent = strongest_examples(X, sp.csr_array((20, 4), dtype=np.float32), None, 5)
    np.testing.assert_allclose(example_votes(silent, X[:1], *all_labels(1, 4), 4), np.log(0.01))
    none = strongest_examples(X[:0], Y[:0], None, 5)
    np.testing.assert_allclose(example_votes(none, X[:1], *all_labels(1, 4), 4), np.log(0.01))


def test_rows_without_any_entry_are_read_once() -> None:
    nothing = sp.csr_array((20_000, 200_000), dtype=np.float32)  # once for every feature would take minutes
    examples = strongest_examples(nothing, sp.csr_array((20_000, 4), dtype=np.float32), None, 5)
    assert examples.lists.shape == (200_000, 20_000)
    assert examples.lists.nnz == 0


def test_thousands_that_are_equally_near() -> None:
    X = sp.csr_array(np.ones((3000, 1), np.float32))
    Y = sp.csr_array((np.ones(3000, np.float32), np.repeat([0, 1, 2], 1000), np.arange(3001)), shape=(3000, 3))
    votes = example_votes(strongest_examples(X, Y, None, 1024), X[:1], *all_labels(1, 3), 3)
    np.testing.assert_allclose(votes, np.log([1.01, 0.01, 0.01]), rtol=1e-3)  # the first ones speak for all


def test_more_candidates_than_places() -> None:
    X, Y = problem(40, 6, 70_000, 0)
    examples = strongest_examples(X, Y, None, 9)
    votes = example_votes(examples, X[:1], *all_labels(1, 70_000), 70_000)
    np.testing.assert_allclose(votes, expected_votes(examples, X[:1], 70_000)[0], atol=2e-3)


def test_arrays_that_do_not_fit_are_refused() -> None:
    X, Y = problem(40, 6, 5, 0)
    arrays = example_arrays(strongest_examples(X, Y, np.ones(40, np.float32), 9))
    for name, change in {
        "example_begin": lambda a: a[::-1].copy(),
        "example_label_begin": lambda a: a + 1,
        "example_value": lambda a: a[:-1].copy(),
        "example_weight": lambda a: a[:-1].copy(),
    }.items():
        with pytest.raises(ValueError, match="fit together"):
            near_examples({**arrays, name: change(arrays[name])})
    with pytest.raises(ValueError, match="finite"):
        near_examples({**arrays, "example_weight": np.full(40, np.nan, np.float32)})


def test_numbers_out_of_range_are_passed_over() -> None:
    X, Y = problem(40, 6, 5, 0)
    arrays = example_arrays(strongest_examples(X, Y, None, 9))
    for name in ("example_row", "example_label"):
        for wrong in (-1, 2**31 - 1, -(2**31)):
            found = near_examples({**arrays, name: np.full_like(arrays[name], wrong)})
            assert found is not None
            votes = found.votes(*csr_parts(X), *all_labels(40, 5), 5)
            np.testing.assert_allclose(votes, np.log(0.01), rtol=1e-6)


def test_bad_arguments() -> None:
    X, Y = problem(10, 6, 5, 0)
    with pytest.raises(ValueError, match="longest must be at least 1"):
        strongest_examples(X, Y, None, 0)
    found = near_examples(example_arrays(strongest_examples(X, Y, None, 9)))
    assert isinstance(found, _core.NearExamples)
    with pytest.raises(ValueError, match="same rows"):
        found.votes(*csr_parts(X), *all_labels(9, 5), 5)
    with pytest.raises(ValueError, match="out of range"):
        found.votes(*csr_parts(X), *all_labels(10, 5), 4)
    assert near_examples({}) is None
