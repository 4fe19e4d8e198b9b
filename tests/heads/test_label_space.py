"""The space of features and labels: against a plain twin, the same bits on all threads and processors, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core, _reference_heads
from labelprism._arrays import csr_parts
from labelprism.heads.label_space import (
    WIDTH,
    LearnedSpace,
    Mining,
    SpaceLabels,
    Vectors,
    as_bytes,
    as_floats,
    kept_space,
    label_space,
    label_vectors,
    learned_space,
    space_arrays,
    space_cosines,
)

NO_CANDIDATES = np.zeros(1, np.int64), np.zeros(0, np.int32)


def problem(n: int, d: int, c: int, seed: int) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    """Unit rows, some empty, their labels, of which some have none, and candidates."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 0.4) * rng.uniform(0.2, 1, (n, d))
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    Y, found = ((rng.random((n, c)) < share).astype(np.float32) for share in (0.2, 0.4))
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y), sp.csr_array(found)


def lists(matrix: sp.csr_array) -> list[list[int]]:
    return [part.tolist() for part in np.split(matrix.indices, matrix.indptr[1:-1])] if matrix.shape[0] else []


def one_pass(
    X: sp.csr_array,
    Y: sp.csr_array,
    found: sp.csr_array | None,
    weight: Any = None,
    n_threads: int = 1,
    number: int = 1,
) -> tuple[Any, Any, Any]:
    """Features and squares after a pass, and what the twin makes of the same."""
    rng = np.random.default_rng(5)
    labels = rng.standard_normal((Y.shape[1], WIDTH)).astype(np.float32)
    labels = as_floats(as_bytes(labels / np.linalg.norm(labels, axis=1, keepdims=True)))  # as a pass rounds them
    features = rng.standard_normal((X.shape[1], WIDTH)).astype(np.float32)
    squares = np.full(X.shape[1], 1e-3, np.float32)
    own = csr_parts(Y)
    asked: Any = NO_CANDIDATES if found is None else csr_parts(found)[:2]
    weights = np.zeros(0, np.float32) if weight is None else np.asarray(weight, np.float32)
    how: Any = (number, 3, 0.5, 4.0, 9)
    twin = _reference_heads.learn_space(
        X.toarray().astype(np.float64), lists(Y), weight, [] if found is None else lists(found),
        labels.astype(np.float64), features.astype(np.float64), squares.astype(np.float64), *how,
    )  # fmt: skip
    arguments: Any = (*csr_parts(X), own.indptr, own.indices, weights, *asked, labels, features, squares, *how)
    _core.learn_space(*arguments, n_threads)
    return features, squares, twin


@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 9), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_a_pass_is_that_of_the_twin(n: int, d: int, c: int, has_weights: bool, has_found: bool, seed: int) -> None:
    X, Y, found = problem(n, d, c, seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2, n) if has_weights else None
    features, squares, (wanted, wanted_squares) = one_pass(X, Y, found if has_found else None, weight)
    np.testing.assert_allclose(features, wanted, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(squares, wanted_squares, rtol=2e-3, atol=1e-5)


def test_batches_follow_each_other() -> None:
    X, Y, found = problem(1500, 30, 20, 0)
    features, _, (wanted, _) = one_pass(X, Y, found, number=0)
    np.testing.assert_allclose(features, wanted, rtol=1e-2, atol=1e-2)


def test_the_same_bits_for_all_threads_and_processors(instruction_sets: list[str]) -> None:
    X, Y, found = problem(2100, 40, 30, 1)
    results = []
    for name in instruction_sets:
        _core.use_instruction_set(name)
        for n_threads in (1, 2, 3):
            features = learned_space(X, Y, None, csr_parts(found)[:2], 3, 7, n_threads).features
            labels = label_vectors(X, Y, None, features, n_threads)
            cosines = space_cosines(features, labels.vectors, X, *csr_parts(found)[:2], n_threads)
            results.append((*features, *labels.vectors, labels.norms, cosines))
    for other in results[1:]:
        for array, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(array, wanted)


def test_vectors_are_rounded_alike_by_all_processors(instruction_sets: list[str]) -> None:
    rng = np.random.default_rng(0)
    # The first number is the largest: with steps of 1 the others are halves, which go to even numbers, and fractions.
    halves = np.concatenate([np.full((40, 1), 127), rng.integers(-252, 253, (40, WIDTH - 1)) / 2], axis=1)
    sizes = 10.0 ** rng.integers(-25, 25, (100, 1))
    vectors = np.concatenate([halves, rng.standard_normal((100, WIDTH)) * sizes, np.zeros((1, WIDTH))])
    vectors = vectors.astype(np.float32)
    largest = np.abs(vectors).max(1, keepdims=True)
    per_step = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    for name in instruction_sets:
        _core.use_instruction_set(name)
        steps, scale = as_bytes(vectors, 2)
        np.testing.assert_array_equal(steps, np.rint(per_step * vectors))
        np.testing.assert_allclose(scale, largest[:, 0] / 127, rtol=1e-6)


def test_nothing_is_left_of_vectors_without_a_size(instruction_sets: list[str]) -> None:
    vectors = np.zeros((5, WIDTH), np.float32)
    for row, first in enumerate((1e-40, 1e35, np.inf, -np.inf, np.nan)):
        vectors[row, :2] = first, 1e-41
    vectors[4, 1] = 2.0
    for name in instruction_sets:
        _core.use_instruction_set(name)
        steps, scale = as_bytes(vectors)
        assert (steps[:4].any(), scale[:4].any()) == (False, False)
        assert (steps[4, :3].tolist(), scale[4]) == ([0, 127, 0], np.float32(2 / 127))


def test_cosines_are_those_of_sums_of_vectors() -> None:
    X, Y, found = problem(60, 25, 12, 2)
    rng = np.random.default_rng(0)
    features = as_bytes(rng.standard_normal((25, WIDTH)).astype(np.float32))
    labels = label_vectors(X, Y, None, features)
    rows = X.toarray() @ as_floats(features).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    sums = Y.toarray().T @ rows
    np.testing.assert_allclose(labels.norms, np.linalg.norm(sums, axis=1), rtol=1e-4, atol=1e-5)
    unit = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(as_floats(labels.vectors), unit, atol=0.005)
    cosines = sp.csr_array(found, copy=True)
    cosines.data = space_cosines(features, labels.vectors, X, *csr_parts(found)[:2])
    np.testing.assert_allclose(cosines.toarray(), (rows @ unit.T) * (found.toarray() > 0), atol=0.02)


def test_bytes_are_near_and_zeros_stay() -> None:
    vectors = np.random.default_rng(0).standard_normal((9, WIDTH)).astype(np.float32)
    vectors[4] = 0
    kept = as_bytes(vectors)
    assert kept.steps.dtype == np.int8
    assert np.abs(kept.steps).max(axis=1).tolist() == [127] * 4 + [0] + [127] * 4
    assert (np.abs(as_floats(kept) - vectors) <= kept.scale[:, None] * 0.501).all()


def test_rows_find_labels_with_which_they_share_no_feature() -> None:
    """Every label has two words for each of two things; its rows have one word for each, never the last pair."""
    rng = np.random.default_rng(0)
    c, n = 40, 4000
    thing = rng.integers(20, size=(c, 2))  # labels are pairs of things, so that others tell which words go together
    label, words = rng.integers(c, size=n), rng.integers(2, size=(n, 2))
    target = 7
    words[label == target] = 0
    X = np.zeros((n, 80), np.float32)
    for k in range(2):
        X[np.arange(n), 40 * k + 2 * thing[label, k] + words[:, k]] = np.sqrt(0.5)
    Y = sp.csr_array(np.eye(c, dtype=np.float32)[label])
    query = np.zeros((1, 80), np.float32)
    query[0, [2 * thing[target, 0] + 1, 40 + 2 * thing[target, 1] + 1]] = np.sqrt(0.5)
    assert not (query @ X[label == target].T).any()
    found = []
    for passes in (1, 5):
        features = learned_space(sp.csr_array(X), Y, None, NO_CANDIDATES, passes, 0).features
        labels = label_vectors(sp.csr_array(X), Y, None, features).vectors
        asked = np.array([0, c]), np.arange(c, dtype=np.int32)
        found.append(space_cosines(features, labels, sp.csr_array(query), *asked))
    same = [other for other in range(c) if (thing[other] == thing[target]).all()]
    assert found[1].argmax() in same
    assert found[1][target] > 0.7


def test_learning_brings_rows_nearer_to_their_labels_than_to_others() -> None:
    """Labels are about two things, of which each has eight words; a row has a word of each, and another."""
    rng = np.random.default_rng(3)
    n, c, n_things, n_words = 3000, 300, 40, 8
    thing, label = rng.integers(n_things, size=(c, 2)), rng.integers(c, size=n)
    words = thing[label] * n_words + rng.integers(n_words, size=(n, 2))
    words = np.concatenate([words, rng.integers(n_things * n_words, size=(n, 1))], axis=1)
    X = sp.csr_array((np.full(words.size, np.sqrt(1 / 3), np.float32), words.ravel(), 3 * np.arange(n + 1)))
    X.sum_duplicates()
    Y = sp.csr_array(np.eye(c, dtype=np.float32)[label])
    train, test, n_test = slice(0, 2000), slice(2000, n), n - 2000
    everything = np.arange(n_test + 1, dtype=np.int64) * c, np.tile(np.arange(c, dtype=np.int32), n_test)
    right = []
    for passes in (0, 5):  # as features begin, and after they have learned
        features = learned_space(X[train], Y[train], None, NO_CANDIDATES, passes, 0).features
        labels = label_vectors(X[train], Y[train], None, features).vectors
        cosines = space_cosines(features, labels, X[test], *everything).reshape(n_test, c)
        right.append(np.mean(cosines.argmax(1) == label[test]))
    assert right[1] > right[0] + 0.02


def test_labels_of_two_parts_are_those_of_all_rows() -> None:
    X, Y, _ = problem(90, 20, 10, 4)
    weight = np.random.default_rng(0).uniform(0.5, 2, 90).astype(np.float32)
    features = learned_space(X, Y, weight, NO_CANDIDATES, 2, 0).features
    at_once = label_vectors(X, Y, weight, features)
    fewer = Y[:50, :8]  # the last two labels are new
    before = label_vectors(X[:50], fewer, weight[:50], features)
    others = Y[:50].toarray().copy()
    others[:, :8] = 0
    joined = label_vectors(
        sp.csr_array(sp.vstack([X[50:], X[:50]], format="csr")),
        sp.csr_array(sp.vstack([Y[50:], sp.csr_array(others)], format="csr")),
        np.concatenate([weight[50:], weight[:50]]), features, before=before,
    )  # fmt: skip
    np.testing.assert_allclose(joined.norms, at_once.norms, rtol=0.02, atol=1e-4)
    np.testing.assert_allclose(as_floats(joined.vectors), as_floats(at_once.vectors), atol=0.02)


def test_rows_count_by_their_weights() -> None:
    X, Y, found = problem(80, 15, 6, 5)
    asked = csr_parts(found)[:2]
    plain, all_alike, other = (
        learned_space(X, Y, weight, asked, 2, 0).features
        for weight in (None, np.full(80, 7, np.float32), np.linspace(0.1, 3, 80, dtype=np.float32))
    )
    np.testing.assert_array_equal(plain.steps, all_alike.steps)
    assert (plain.steps != other.steps).any()
    tiny = np.where(np.arange(80) % 2, 1e30, 1e-30).astype(np.float32)
    assert np.isfinite(as_floats(learned_space(X, Y, tiny, asked, 2, 0).features)).all()


def test_features_that_do_not_occur_cost_nothing_and_say_nothing() -> None:
    X, Y, found = problem(300, 30, 12, 8)
    asked = csr_parts(found)[:2]
    wide = sp.csr_array((X.data, 3 * X.indices + 1, X.indptr), shape=(300, 95))
    narrow_features, features = (learned_space(rows, Y, None, asked, 3, 0).features for rows in (X, wide))
    np.testing.assert_array_equal(features.steps[1:90:3], narrow_features.steps)
    assert not np.delete(features.steps, np.arange(1, 90, 3), axis=0).any()
    narrow, of_wide = (label_vectors(*given) for given in ((X, Y, None, narrow_features), (wide, Y, None, features)))
    np.testing.assert_array_equal(narrow.vectors.steps, of_wide.vectors.steps)


@pytest.mark.parametrize(("n", "d", "c"), [(0, 3, 2), (1, 1, 1), (5, 1, 1), (3, 100, 2), (7, 4, 1)])
def test_small_problems(n: int, d: int, c: int) -> None:
    X, Y, found = problem(n, d, c, 6)
    for asked in (NO_CANDIDATES, csr_parts(found)[:2]):
        features = learned_space(X, Y, None, asked, 2, 0).features
        labels = label_vectors(X, Y, None, features)
        assert np.isfinite(as_floats(features)).all()
        cosines = space_cosines(features, labels.vectors, X, *csr_parts(found)[:2])
        assert np.isfinite(cosines).all()
        assert (np.abs(cosines) < 1.02).all()


def test_rows_and_labels_without_anything() -> None:
    features = learned_space(
        sp.csr_array((20, 5), dtype=np.float32), sp.csr_array((20, 3), dtype=np.float32), None, NO_CANDIDATES, 2, 0
    ).features
    assert not features.steps.any()
    labels = SpaceLabels(as_bytes(np.zeros((3, WIDTH), np.float32)), np.zeros(3, np.float32))
    assert kept_space({}) is None
    assert label_space({}) is None
    assert label_space(space_arrays(features, labels)) is not None


def test_bad_input_is_refused() -> None:
    X, Y, found = problem(10, 5, 4, 7)
    features = learned_space(X, Y, None, csr_parts(found)[:2], 1, 0).features
    labels = label_vectors(X, Y, None, features).vectors
    asked = csr_parts(found)[:2]
    arrays = space_arrays(features, label_vectors(X, Y, None, features))
    for norms in (arrays["space_label_norms"][1:], -np.ones(4, np.float32), np.ones(4)):
        with pytest.raises(ValueError, match="space_label_norms"):
            kept_space({**arrays, "space_label_norms": norms})
    huge = space_cosines(features._replace(scale=np.full(5, 1e38, np.float32)), labels, X, *asked)
    assert np.isfinite(huge).all()
    with pytest.raises(ValueError, match="must be finite"):
        space_cosines(features._replace(scale=features.scale * np.float32(np.nan)), labels, X, *asked)
    with pytest.raises(ValueError, match="a scale each"):
        space_cosines(features, labels._replace(scale=labels.scale[1:]), X, *asked)
    with pytest.raises(ValueError, match="rows of the wrong width"):
        space_cosines(Vectors(features.steps[:, :32].copy(), features.scale), labels, X, *asked)
    with pytest.raises(ValueError, match="out of range"):
        space_cosines(features, Vectors(labels.steps[:2], labels.scale[:2]), X, *asked)
    with pytest.raises(ValueError, match="the same rows"):
        space_cosines(features, labels, X[:5], *asked)
    own, vectors = csr_parts(Y), as_floats(labels)
    good: Any = {
        **dict(zip(("indptr", "indices", "data"), csr_parts(X), strict=True)), "label_indptr": own.indptr,
        "own": own.indices, "weight": np.zeros(0, np.float32), "candidate_indptr": asked[0], "candidates": asked[1],
        "labels": vectors, "features": as_floats(features), "squares": np.ones(5, np.float32), "pass_": 0,
        "n_passes": 1, "rate": 1.0, "scale": 4.0, "seed": 0,
    }  # fmt: skip
    _core.learn_space(**good)
    for name, value, message in (
        ("candidate_indptr", asked[0][:3], "number of indices"),
        ("labels", vectors[:, :32].copy(), "64 columns"),
        ("squares", np.ones(4, np.float32), "an entry for every feature"),
        ("pass_", 1, "from 0 to n_passes - 1"),
        ("weight", np.full(10, -1, np.float32), "above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            _core.learn_space(**{**good, name: value})


def test_rows_look_for_candidates_while_a_space_is_learned(instruction_sets: list[str]) -> None:
    X, Y, found = problem(2100, 40, 30, 1)
    given = csr_parts(found)[:2]
    assert learned_space(X, Y, None, given, 3, 7).mined is None
    results = []
    for name in instruction_sets:
        _core.use_instruction_set(name)
        for n_threads in (1, 3):
            learned = learned_space(X, Y, None, given, 3, 7, n_threads, Mining(2, 4, 6))
            assert learned.mined is not None
            results.append((*learned.features, *learned.mined))
    for other in results[1:]:
        for array, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(array, wanted)
    features, mined = learned
    assert np.diff(mined[0]).max() == 6
    assert (np.diff(mined[0])[np.diff(X.indptr) > 0] >= 4).all()
    cosines, of_given = (
        space_cosines(features, label_vectors(X, Y, None, features).vectors, X, *asked) for asked in (mined, given)
    )
    assert cosines.mean() > of_given.mean()
    again = LearnedSpace.of_arrays(learned.arrays()).mined
    assert again is not None
    np.testing.assert_array_equal(again[1], mined[1])
    without = LearnedSpace(features, None)
    assert LearnedSpace.of_arrays(without.arrays()).mined is None


def test_rows_that_were_given_no_candidates_find_some() -> None:
    X, Y, _ = problem(300, 30, 12, 8)
    learned = learned_space(X, Y, None, NO_CANDIDATES, 2, 0, 1, Mining(1, 3, 3))
    assert learned.mined is not None
    assert learned.mined[0].size == 301
    placed = np.diff(X.indptr) > 0
    assert (np.diff(learned.mined[0])[placed] >= 1).all()
    assert np.diff(learned.mined[0]).max() <= 3
    # Features that do not occur change nothing.
    wide = sp.csr_array((X.data, 3 * X.indices + 1, X.indptr), shape=(300, 95))
    of_wide = learned_space(wide, Y, None, NO_CANDIDATES, 2, 0, 1, Mining(1, 3, 3))
    assert of_wide.mined is not None
    for array, wanted in zip(of_wide.mined, learned.mined, strict=True):
        np.testing.assert_array_equal(array, wanted)
