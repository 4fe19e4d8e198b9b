"""Growing level by level, from any level, and in parts, gives the same bits as growing at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import csr_parts
from labelprism.filters import SpectralForest
from labelprism.filters.forest_growth import grow_forest, planted

N, D, C = 900, 60, 80


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(0)
    label = rng.integers(0, C, N)
    centre = sp.random_array((C, D), density=0.15, format="csr", dtype=np.float32, rng=rng)
    noise = sp.random_array((N, D), density=0.05, format="csr", dtype=np.float32, rng=rng)
    X = sp.csr_array(centre[label] + noise)
    X.sort_indices()
    Y = sp.csr_array((np.ones(N, np.float32), label.astype(np.int32), np.arange(N + 1)), shape=(N, C))
    return X, Y


def settings_of(Y: sp.csr_array, **parameters: Any) -> _core.ForestSettings:
    return SpectralForest(n_trees=2, stop_labels=5, min_rows=10, **parameters)._settings(Y, 7)


def step(grower: Any, X: sp.csr_array, Y: sp.csr_array, ids: Any = None) -> None:
    labels = csr_parts(Y)
    ids = np.zeros(0, np.int64) if ids is None else ids
    grower.step_csr(*csr_parts(X), labels.indptr, labels.indices, ids, 2)


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("level", [0, 1, 3])
def test_goes_on_from_the_arrays_of_any_level(data: Any, level: int) -> None:
    X, Y = data
    settings = settings_of(Y)
    whole = grow_forest(X, Y, None, settings, 1)
    grower = planted(N, None, (D, C), settings)
    for _ in range(level):
        step(grower, X, Y)
    assert not grower.is_done
    again = _core.ForestGrower(settings, D, C, *grower.nodes(), grower.depth, grower.forest())
    while not again.is_done:
        step(again, X, Y)
    assert_same(whole, again.forest())


def test_a_subtree_grows_the_same_from_a_copy_of_its_rows(data: Any) -> None:
    X, Y = data
    settings = settings_of(Y)
    grower = planted(N, None, (D, C), settings)
    for _ in range(2):
        step(grower, X, Y)
    keys, indptr, rows, weight = grower.nodes()
    n_above = grower.forest()[0].size
    step(grower, X, Y)
    children = grower.forest()[0][n_above:]
    for node in range(keys.size):
        own = slice(indptr[node], indptr[node + 1])
        ids = rows[own].astype(np.int64)
        ends = np.array([0, ids.size], np.int64)
        local = np.arange(ids.size, dtype=np.int32)
        part = _core.ForestGrower(settings, D, C, keys[node : node + 1], ends, local, weight[own], 2)
        step(part, sp.csr_array(X[ids]), sp.csr_array(Y[ids]), ids)
        forest = part.forest()
        assert (forest[0][0] >= 0) == (children[node] >= 0)
        router = slice(*grower.forest()[3][n_above + node : n_above + node + 2])
        np.testing.assert_array_equal(forest[4], grower.forest()[4][router])
        np.testing.assert_array_equal(forest[5], grower.forest()[5][router])
        if children[node] >= 0:  # the members of its children too
            first = 2 * int((children[:node] >= 0).sum())
            theirs, ours = part.nodes(), grower.nodes()
            np.testing.assert_array_equal(theirs[0], ours[0][first : first + 2])
            np.testing.assert_array_equal(ids[theirs[2]], ours[2][ours[1][first] : ours[1][first + 2]])
            np.testing.assert_array_equal(theirs[3], ours[3][ours[1][first] : ours[1][first + 2]])


def test_members_stay_in_their_order(data: Any) -> None:
    X, Y = data
    grower = planted(N, None, (D, C), settings_of(Y, growth_noise=0.3))
    while True:
        step(grower, X, Y)
        if grower.is_done:
            break
        _, indptr, rows, weight = grower.nodes()
        assert all((np.diff(rows[a:b]) > 0).all() for a, b in pairwise(indptr))
        assert (weight > 0).all()


def test_a_sample_of_the_rows_is_drawn_anew_in_every_node(data: Any) -> None:
    X, Y = data
    few, all_rows = (grow_forest(X, Y, None, settings_of(Y, max_rows=m), 1) for m in (100, None))
    assert few[0][0] >= 0
    assert not np.array_equal(few[5][: few[3][1]], all_rows[5][: all_rows[3][1]])
    assert_same(few, grow_forest(X, Y, None, settings_of(Y, max_rows=100), 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": np.zeros(3, np.uint64)}, "a key for every node"),
        ({"weight": np.zeros(N, np.float32)}, "a weight for every member"),
        ({"weight": np.zeros(2 * N, np.float32)}, "above 0"),
        ({"indptr": np.array([0, 5, 4], np.int64)}, "descend"),
        ({"rows": np.full(2 * N, -1, np.int32)}, "out of range"),
    ],
)
def test_refuses_nodes_that_do_not_fit(data: Any, change: dict[str, Any], message: str) -> None:
    _, Y = data
    settings = settings_of(Y)
    names = ("keys", "indptr", "rows", "weight")
    nodes = dict(zip(names, planted(N, None, (D, C), settings).nodes(), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        _core.ForestGrower(settings, D, C, *nodes.values())


def test_refuses_rows_that_x_does_not_have(data: Any) -> None:
    X, Y = data
    grower = planted(N + 1, None, (D, C), settings_of(Y))
    with pytest.raises(ValueError, match="X does not have"):
        step(grower, X, Y)
    grower = planted(N, None, (D, C), settings_of(Y))
    with pytest.raises(ValueError, match="out of range"):
        step(planted(N, None, (D - 1, C), settings_of(Y)), X, Y)
    with pytest.raises(ValueError, match="a number for every row"):
        step(grower, X, Y, np.zeros(3, np.int64))


def test_labels_of_examples_without_weight_are_none_of_a_leaf(data: Any) -> None:
    """Without pruning every example goes both ways, by a probability that may be rounded to 0."""
    X, Y = data
    growth = {"routing": "fractional", "prune_below": 0.0, "growth_noise": 1e-3, "drop_share": 0.0}
    forest = SpectralForest(n_trees=1, stop_labels=5, min_rows=10, max_depth=4, random_state=0, **growth).fit(X, Y)
    leaves = forest.leaf_candidates_
    assert leaves.has_canonical_format  # each label once
    assert np.isfinite(leaves.data).all()
