"""What a chunk adds to the sums of a spread node, against the same sums in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr

from labelprism import _core
from labelprism._arrays import csr_parts
from labelprism._hashing import scrambled

D, C = 70, 30
STEPS = np.array([0, 0.25, 1, 8], np.float32)


class Case(NamedTuple):
    """A chunk, the members of a node, and the same as dense float64 arrays: X, Y and D of the members."""

    chunk: Any
    members: tuple[Any, Any]
    X: Any
    Y: Any
    weight: Any


def case(n: int, seed: int, whole: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, D), density=0.2, dtype=np.float32, rng=rng, format="csr")
    Y = sp.csr_array((rng.random((n, C)) < 0.1).astype(np.float32))
    rows = np.arange(n) if whole else np.flatnonzero(rng.random(n) < 0.6)
    weight = rng.uniform(0.2, 1.5, rows.size).astype(np.float32)
    labels = csr_parts(Y)
    chunk = _core.ChunkRows(*csr_parts(X), D, labels.indptr, labels.indices, C)
    members = rows.astype(np.int32), weight
    return Case(chunk, members, X.toarray()[rows].astype(float), Y.toarray()[rows].astype(float), weight.astype(float))


CASES = [(700, 0, True), (700, 1, False), (63, 2, False), (1, 3, True), (0, 4, True)]


@pytest.fixture(params=CASES, ids=str)
def given(request: Any) -> Case:
    return case(*request.param)


def normal(shape: Any, seed: int = 9) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def votes_of_labels() -> tuple[Any, Any]:
    """Sides times strengths and strengths, and a label that has neither."""
    strength = np.random.default_rng(5).uniform(0.1, 1, C).astype(np.float32)
    strength[3] = 0
    return np.sign(normal(C, 6)) * strength, strength


def targets(given: Case, cost: float) -> tuple[Any, Any]:
    votes, strength = votes_of_labels()
    vote, possible = given.Y @ votes, given.Y @ strength
    return np.where(vote >= 0, 1, -1), cost * given.weight * np.abs(vote) / np.where(possible > 0, possible, 1)


def test_counts(given: Case) -> None:
    mass, feature_rows, feature_sums = given.chunk.count(*given.members)
    np.testing.assert_allclose(mass, given.weight @ given.Y, rtol=1e-6)
    np.testing.assert_array_equal(feature_rows, (given.X != 0).sum(axis=0))
    np.testing.assert_allclose(feature_sums, given.weight @ given.X, rtol=1e-6)


def test_sketches(given: Case) -> None:
    codes, block, means = normal((C, 8), 1), normal((D, 8), 2), normal(8, 3)
    features = given.chunk.features_of_codes(*given.members, codes, means)
    wanted = given.X.T @ (given.weight[:, None] * (given.Y @ codes - means))
    np.testing.assert_allclose(features, wanted, rtol=1e-4, atol=1e-4)
    labels, moments = given.chunk.labels_of_features(*given.members, block, means, True)
    rows = given.X @ block - means
    np.testing.assert_allclose(labels, given.Y.T @ (given.weight[:, None] * rows), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moments, rows.T @ (given.weight[:, None] * rows), rtol=1e-4, atol=1e-3)
    again, nothing = given.chunk.labels_of_features(*given.members, block, means, False)
    np.testing.assert_array_equal(again, labels)
    assert nothing is None


def test_sides_of_labels(given: Case) -> None:
    weights = normal(D)
    sides = given.chunk.sides_of_labels(*given.members, weights, 0.3, 0.1, 2.0)
    cut = np.clip((given.X @ weights + 0.3 - 0.1) * 2.0, -3, 3)
    np.testing.assert_allclose(sides, given.Y.T @ (given.weight * cut), rtol=1e-4, atol=1e-4)
    assert given.X.shape[0] < 50 or np.ptp(cut) == 6  # both ends were met


@pytest.mark.parametrize("weights", [np.zeros(D, np.float32), normal(D)], ids=["zero", "any"])
def test_gradient(given: Case, weights: Any) -> None:
    votes, cost = np.stack(votes_of_labels(), axis=1), 0.7
    slopes, diagonal = given.chunk.gradient(*given.members, votes, cost, weights, -0.2, True)
    target, costs = targets(given, cost)
    pull = -2 * costs * target * np.maximum(0, 1 - target * (given.X @ weights - 0.2))
    np.testing.assert_allclose(slopes, np.append(given.X.T @ pull, pull.sum()), rtol=1e-4, atol=1e-4)
    squares = np.append(2 * np.square(given.X).T @ costs, 2 * costs.sum())
    np.testing.assert_allclose(diagonal, squares, rtol=1e-4, atol=1e-4)
    again, nothing = given.chunk.gradient(*given.members, votes, cost, weights, -0.2, False)
    np.testing.assert_array_equal(again, slopes)
    assert nothing is None


def test_line_search(given: Case) -> None:
    votes, pairs = np.stack(votes_of_labels(), axis=1), normal((D, 2))
    found = given.chunk.search(*given.members, votes, 0.7, pairs, (-0.2, 0.1), (0.05, 0.3), STEPS)
    target, costs = targets(given, 0.7)
    for i, step in enumerate(STEPS):
        margins = given.X @ (pairs[:, 0] + step * pairs[:, 1]) - 0.2 + step * 0.1
        loss = (costs * np.square(np.maximum(0, 1 - target * margins))).sum()
        size = (given.weight * np.abs(margins - (0.05 + step * 0.3))).sum()
        np.testing.assert_allclose(found[:, i], [loss, size], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("noise", [0.1, 0.0])
def test_routing(given: Case, noise: float) -> None:
    weights, key, first, prune = normal(D), 2**63 + 5, 1000, 0.2
    margins = given.chunk.margins(*given.members, weights)
    np.testing.assert_allclose(margins, given.X @ weights, rtol=1e-4, atol=1e-5)
    distance = margins.astype(float) - 0.15
    right = ndtr(distance / noise) if noise else (distance > 0).astype(float)
    found = given.chunk.right_mass(*given.members, weights, 0.15, noise)
    assert found == pytest.approx(float(given.weight @ right), rel=1e-4, abs=1e-5)
    sides = given.chunk.route(*given.members, weights, 0.15, noise, key, first, prune)
    numbers = given.members[0].astype(np.uint64) + np.uint64(first)
    for side, share in enumerate((1 - right, right)):
        part = given.weight * share
        bits = scrambled(np.uint64(key) ^ scrambled(numbers * np.uint64(2) + np.uint64(side)))
        drawn = (bits >> np.uint64(11)) * 2.0**-53
        kept = (part > 0) & ((part >= prune) | (drawn * prune < part))
        doubtful = np.minimum(np.abs(part - prune), np.abs(drawn * prune - part)) < 1e-5
        assert set(given.members[0][kept & ~doubtful]) <= set(sides[side][0].tolist())
        assert set(sides[side][0].tolist()) <= set(given.members[0][kept | doubtful])
        by_row = dict(zip(given.members[0].tolist(), np.maximum(part, prune), strict=True))
        wanted = np.array([by_row[row] for row in sides[side][0].tolist()])
        np.testing.assert_allclose(sides[side][1], wanted, rtol=1e-4, atol=1e-5)


def test_the_bits_do_not_depend_on_the_instruction_set() -> None:
    given, codes, block, means = case(700, 1), normal((C, 8), 1), normal((D, 8), 2), normal(8, 3)
    results, before = [], _core.instruction_set()
    try:
        for name in _core.instruction_sets():
            _core.use_instruction_set(name)
            features = given.chunk.features_of_codes(*given.members, codes, means)
            labels, moments = given.chunk.labels_of_features(*given.members, block, means, True)
            results.append((features.tobytes(), labels.tobytes(), moments.tobytes()))
    finally:
        _core.use_instruction_set(before)
    assert all(result == results[0] for result in results[1:])


def test_bad_input_is_refused() -> None:
    chunk, (rows, weight), *_ = case(63, 2)
    with pytest.raises(ValueError, match="same number of rows"):
        _core.ChunkRows(*csr_parts(sp.csr_array((3, D), dtype=np.float32)), D, np.zeros(3, np.int64), rows[:0], C)
    with pytest.raises(ValueError, match="weight for every member"):
        chunk.count(rows, weight[1:])
    for bad in (63, -1):
        with pytest.raises(ValueError, match="out of range"):
            chunk.count(np.full_like(rows, bad), weight)
    members, block, means = (rows, weight), normal((D, 8)), normal(8)
    with pytest.raises(ValueError, match="table of labels"):
        chunk.features_of_codes(*members, block, means)
    with pytest.raises(ValueError, match="table of features"):
        chunk.labels_of_features(*members, block[1:], means, True)
    with pytest.raises(ValueError, match="8 means"):
        chunk.labels_of_features(*members, block, means[1:], True)
    with pytest.raises(ValueError, match="value for every feature"):
        chunk.margins(*members, normal(D + 1))
    steps = np.zeros(17, np.float32)
    with pytest.raises(ValueError, match="16 steps"):
        chunk.search(*members, normal((C, 2)), 1.0, normal((D, 2)), (0.0, 0.0), (0.0, 0.0), steps)
