"""The router of a spread node, without a cluster: sums of chunks against all rows at once and the native solver."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from chunked_problem import topics
from sklearn.preprocessing import normalize

from labelprism import _core
from labelprism._arrays import csr_parts
from labelprism.distributed import spread_node as node
from labelprism.distributed import spread_routing as routing
from labelprism.distributed.chunks import checked_chunk
from labelprism.distributed.hashing import child_key, root_key
from labelprism.distributed.spread_node import Members, NodeState
from labelprism.distributed.sums import FAN_IN, added, partly_added
from labelprism.filters import SpectralForest

N = 1500
Chunks = list[tuple[_core.ChunkRows, Members]]


@pytest.fixture(scope="module")
def rows() -> Any:
    X, Y = topics(N, 1)
    return normalize(X), Y, np.random.default_rng(0).uniform(0.5, 1.5, N).astype(np.float32)


def cut(rows: Any, cuts: list[int]) -> Chunks:
    X, Y, weight = rows
    return [
        (node.chunk_rows(X[a:b], Y[a:b]), Members(np.arange(b - a, dtype=np.int32), weight[a:b]))
        for a, b in pairwise(cuts)
    ]


def asked(chunks: Chunks, function: Any, state: NodeState, *arguments: Any) -> Any:
    return added([function(*chunk, state.frame, state.ask, *arguments) for chunk in chunks])


def sketched(chunks: Chunks, most: int = 10**6) -> NodeState:
    state = node.begin(17, added([node.count(*chunk) for chunk in chunks]), 2, most, most)
    for step in range(2):
        state = node.after_features(state, asked(chunks, node.features_of_codes, state))
        state = node.after_labels(state, asked(chunks, node.labels_of_features, state, step == 1), step == 1)
    return node.take_direction(state, 0)


def refined(chunks: Chunks, state: NodeState, steps: int) -> NodeState:
    state = node.after_sides(state, asked(chunks, node.sides_of_labels, state), False)
    for step in range(steps):
        state = node.after_gradient(state, asked(chunks, node.gradient, state, 1.0, step == 0))
        state = node.after_search(state, asked(chunks, node.search, state, 1.0))
    return state


def loss(rows: Any, state: NodeState, weights: Any, offset: float) -> float:
    """The objective of router_refinement.hpp for the votes of a state."""
    X, Y, weight = rows
    votes, strength = (np.zeros(Y.shape[1]) for _ in range(2))
    votes[state.frame.labels], strength[state.frame.labels] = state.frame.votes, state.frame.strength
    vote, cost = Y @ votes, weight * np.abs(Y @ votes) / (Y @ strength)
    slack = np.maximum(0, 1 - np.where(vote >= 0, 1, -1) * (X @ weights + offset))
    return float(0.5 * (weights @ weights + offset**2) + (cost * slack**2).sum())


def wide(state: NodeState, n_features: int) -> Any:
    weights = np.zeros(n_features)
    weights[state.frame.features] = state.ask.weights
    return weights


def test_a_binary_tree_of_tasks_adds_as_one_task_does() -> None:
    values = list(np.random.default_rng(0).normal(size=(45, 3)).astype(np.float32))
    groups = [added(values[i : i + FAN_IN]) for i in range(0, 45, FAN_IN)]
    np.testing.assert_array_equal(added(groups), added(values))
    assert added([(1, [2.0], None), (3, [4.0], None)]) == (4, [6.0], None)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 13])
@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_workers_add_what_they_have_in_the_order_of_all(n: int, n_workers: int) -> None:
    rng = np.random.default_rng(n)
    values, homes = list(rng.normal(size=(n, 3)).astype(np.float32)), rng.integers(n_workers, size=n)
    partials = [
        partly_added([{(0, int(k)): values[k]} for k in np.flatnonzero(homes == home)], n) for home in range(n_workers)
    ]
    (total,) = partly_added(partials, n).values()
    np.testing.assert_array_equal(total, added(values))
    assert len(partly_added([{(0, k): values[k]} for k in range(n)], n)) == 1


@pytest.mark.parametrize("unit", [True, False])
def test_chunks_have_indices_that_kernels_take_without_a_copy(unit: bool) -> None:
    X, Y = (sp.csr_array(matrix) for matrix in topics(50, 3))
    for matrix in (X, Y):
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    chunk = checked_chunk(0, (X.shape[1], Y.shape[1]), None, unit, X, Y, None)
    for given, kept in ((normalize(X) if unit else X, chunk.X), (Y, chunk.Y)):
        assert np.shares_memory(csr_parts(kept).indices, kept.indices)
        np.testing.assert_allclose(kept.toarray(), given.toarray(), rtol=1e-6)


def test_keys_are_those_of_the_native_core() -> None:
    settings = SpectralForest(n_trees=3)._settings(sp.csr_array((1, 1)), 123)
    assert [root_key(123, tree) for tree in range(3)] == _core.root_keys(settings)
    assert 0 <= child_key(2**64 - 1, 1) < 2**64


@pytest.mark.parametrize("cuts", [[0, N], [0, 400, 400, 900, N]])
def test_the_direction_tells_labels_apart_as_that_of_all_rows(rows: Any, cuts: list[int]) -> None:
    whole, parts = sketched(cut(rows, [0, N])), sketched(cut(rows, cuts))
    np.testing.assert_allclose(
        parts.ask.weights, whole.ask.weights, rtol=0.01, atol=1e-3 * np.abs(whole.ask.weights).max()
    )
    margins = rows[0] @ wide(whole, rows[0].shape[1])
    size = np.average(np.abs(margins - np.average(margins, weights=rows[2])), weights=rows[2])
    assert whole.ask.mean == pytest.approx(np.average(margins, weights=rows[2]), abs=1e-4 * size)
    assert 1 / whole.ask.scale == pytest.approx(size, rel=0.3)  # exact for normal margins


def test_few_steps_reach_a_lower_loss_than_two_passes_of_coordinate_descent(rows: Any) -> None:
    X, Y, weight = rows
    chunks = cut(rows, [0, 700, N])
    start = sketched(chunks)
    margins = (X @ wide(start, X.shape[1])).astype(np.float32)
    labels = csr_parts(Y)
    parts = (*csr_parts(X), X.shape[1], labels.indptr, labels.indices, Y.shape[1], weight, margins)
    native = _core.refined_router(*parts, 1, 2, 1.0)
    state = refined(chunks, start, 3)
    reached = loss(rows, state, wide(state, X.shape[1]), state.ask.offset)
    assert reached < loss(rows, state, native[:-1].astype(np.float64), -float(native[-1]))
    better = refined(chunks, start, 40)
    best = loss(rows, better, wide(better, X.shape[1]), better.ask.offset)
    assert best < reached < 1.5 * best
    gradient = asked(chunks, node.gradient, better, 1.0, False)[0] + np.append(better.ask.weights, better.ask.offset)
    assert np.abs(gradient).max() < 0.05 * np.abs(asked(chunks, node.gradient, start_of(better), 1.0, False)[0]).max()


def start_of(state: NodeState) -> NodeState:
    return state._replace(ask=state.ask._replace(weights=np.zeros_like(state.ask.weights), offset=0.0))


def test_of_too_many_features_and_labels_the_most_frequent_are_kept(rows: Any) -> None:
    state = sketched(cut(rows, [0, N]), most=40)
    assert state.frame.features.size == state.frame.labels.size == 40
    counts = np.diff(rows[0].tocsc().indptr)
    assert counts[state.frame.features].min() >= np.sort(counts)[-40]
    assert np.isfinite(refined(cut(rows, [0, N]), state, 2).ask.weights).all()


def test_rows_go_the_same_way_in_any_chunks(rows: Any) -> None:
    chunks = cut(rows, [0, 300, 1100, N])
    router = routing.finished_router(refined(chunks, sketched(chunks), 3), 0.03)
    assert np.unique(np.rint(router.weights / np.abs(router.weights).max() * 127)).size < 256
    how = routing.Routing(0.1, 0.2)
    ((chunk, members),) = cut(rows, [0, N])
    whole = routing.route(chunk, members, router, 99, 0, how)
    firsts = (0, 300, 1100)
    parts = [
        routing.route(chunk, own, router, 99, first, how) for (chunk, own), first in zip(chunks, firsts, strict=True)
    ]
    for side in range(2):
        together = [part[side].rows + first for part, first in zip(parts, firsts, strict=True)]
        np.testing.assert_array_equal(np.concatenate(together), whole[side].rows)
        np.testing.assert_array_equal(np.concatenate([part[side].weight for part in parts]), whole[side].weight)
        assert (whole[side].weight >= np.float32(0.2)).all()
    mass = sum(side.weight.sum() for side in whole)
    assert mass == pytest.approx(rows[2].sum(), rel=0.02)


def test_the_median_is_found_by_histograms(rows: Any) -> None:
    chunks = cut(rows, [0, 300, 300, N])
    router = routing.finished_router(refined(chunks, sketched(chunks), 2), 0.03)
    search = routing.begin_median([routing.margin_range(*chunk, router) for chunk in chunks], float(rows[2].sum()))
    for _ in range(routing.MEDIAN_ROUNDS):
        search = routing.narrowed(search, added([routing.histogram(*chunk, router, search) for chunk in chunks]))
    margins = routing.margins(*cut(rows, [0, N])[0], router)
    wanted = _core.weighted_median(margins.astype(np.float32), rows[2])
    assert routing.at_median(router, search).bias == pytest.approx(wanted, abs=1e-5 * np.ptp(margins))


def test_a_node_of_equal_rows_is_not_split() -> None:
    X, Y = sp.csr_array(np.ones((50, 3), np.float32)), sp.csr_array(np.eye(5, dtype=np.float32)[np.arange(50) % 5])
    chunks: Chunks = [(node.chunk_rows(X, Y), Members(np.arange(50, dtype=np.int32), np.ones(50, np.float32)))]
    state = refined(chunks, sketched(chunks), 3)
    router = routing.finished_router(state, 0.03)
    right = routing.right_mass(*chunks[0], router, 0.1)
    assert min(right, 50 - right) < 1
