"""The tasks of spread growth: what a chunk says of all nodes of a level, and what follows from the sums for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelprism._arrays import Float32, Int32
from labelprism.distributed import spread_node as node
from labelprism.distributed import spread_routing as routing
from labelprism.distributed.chunks import Chunk
from labelprism.distributed.spread_node import Counts, Members, NodeFrame, NodeQuestion, NodeState
from labelprism.distributed.spread_routing import Router, Routing
from labelprism.distributed.sums import Partial, added, partly_added
from labelprism.filters import SpectralForest


class Leaf(NamedTuple):
    """Labels of a leaf by number, their shares in its mass, and the mass."""

    labels: Int32
    shares: Float32
    mass: float


# ------------------------------------------------------------------------------------------------------ tasks of chunks


def partly_summed(
    numbers: Sequence[int], n_chunks: int, chunks: Sequence[Chunk], members: Sequence[Sequence[Members]],
    places: Sequence[int], function: Callable[..., Any], *arguments: Any,
) -> Partial:  # fmt: skip
    """Return the sums of what a function says of each of some chunks, by their numbers among all, as far as they go."""
    said = [function(chunk, own, places, *arguments) for chunk, own in zip(chunks, members, strict=True)]
    return partly_added([{(0, number): value} for number, value in zip(numbers, said, strict=True)], n_chunks)


def on_members(
    chunk: Chunk, members: Sequence[Members], places: Sequence[int], function: Callable[..., Any]
) -> list[Any]:
    """Return what a function of the rows says of each node."""
    rows = node.chunk_rows(chunk.X, chunk.Y)
    return [function(rows, members[place]) for place in places]


def on_questions(
    chunk: Chunk, members: Sequence[Members], places: Sequence[int], function: Callable[..., Any],
    frames: Sequence[NodeFrame], asks: Sequence[NodeQuestion], *arguments: Any,
) -> list[Any]:  # fmt: skip
    """Return what a chunk answers for each node."""
    rows = node.chunk_rows(chunk.X, chunk.Y)
    return [
        function(rows, members[place], frame, ask, *arguments)
        for place, frame, ask in zip(places, frames, asks, strict=True)
    ]


def on_routers(
    chunk: Chunk, members: Sequence[Members], places: Sequence[int], function: Callable[..., Any],
    routers: Sequence[Router], *by_node: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """Return what a chunk says of the routers of nodes, and of further things of each node."""
    rows = node.chunk_rows(chunk.X, chunk.Y)
    return [
        function(rows, members[place], router, *(each[i] for each in by_node))
        for i, (place, router) in enumerate(zip(places, routers, strict=True))
    ]


def shares_of(
    chunk: Chunk, members: Sequence[Members], places: Sequence[int], routers: Sequence[Router], noise: float
) -> list[tuple[float, float]]:
    """Return the mass of each node that goes right, and all of it."""
    rows = node.chunk_rows(chunk.X, chunk.Y)
    return [
        (routing.right_mass(rows, members[place], router, noise), float(members[place].weight.sum(dtype=np.float64)))
        for place, router in zip(places, routers, strict=True)
    ]


def routed(
    chunk: Chunk, members: Sequence[Members], places: Sequence[int], routers: Sequence[Router], keys: Sequence[int],
    first_row: int, how: Routing,
) -> list[Members]:  # fmt: skip
    """Return the examples of the children of all nodes: left, right, left, right."""
    rows = node.chunk_rows(chunk.X, chunk.Y)
    return [
        side
        for place, router, key in zip(places, routers, keys, strict=True)
        for side in routing.route(rows, members[place], router, key, first_row, how)
    ]


def sizes_of(chunk: Chunk, members: Sequence[Members]) -> list[tuple[int, int]]:
    """Return the rows of each node, and the bytes of their features and labels."""
    n_bytes = 8 * np.diff(chunk.X.indptr).astype(np.int64) + 4 * np.diff(chunk.Y.indptr).astype(np.int64)
    return [(own.rows.size, int(n_bytes[own.rows].sum())) for own in members]


def all_members(chunk: Chunk, n_trees: int, mean_weight: float) -> list[Members]:
    """Return the examples of the roots: all, by their weights over the mean weight."""
    rows = np.arange(chunk.X.shape[0], dtype=np.int32)
    return [Members(rows, root_weights(chunk, mean_weight))] * n_trees


def root_weights(chunk: Chunk, mean_weight: float) -> Float32:
    """Return the weights of a chunk's rows over the mean weight."""
    if chunk.weight is None:
        return np.ones(chunk.X.shape[0], np.float32)
    return (chunk.weight.astype(np.float64) / mean_weight).astype(np.float32)


# -------------------------------------------------------------------------------------------------------- tasks of sums


def facts_of(counts: Sequence[Counts], forest: SpectralForest) -> list[tuple[bool, int, int]]:
    """Tell of each node whether it is worth splitting, and how many features and labels it has."""
    facts = []
    for one in counts:
        masses = one.labels[one.labels > 0]
        is_worth = one.n_rows >= forest.min_rows and masses.size > forest.stop_labels
        if is_worth:
            heaviest = np.partition(masses, masses.size - forest.stop_labels)[masses.size - forest.stop_labels :]
            is_worth = bool(heaviest.sum(dtype=np.float64) < forest.target_recall * masses.sum(dtype=np.float64))
        facts.append((is_worth, int(node.is_common(one, forest.min_feature_rows).sum()), masses.size))
    return facts


def leaf_of(counts: Sequence[Counts], place: int, drop_share: float) -> Leaf:
    """Return a node as a leaf."""
    masses = counts[place].labels.astype(np.float64)
    total = float(masses.sum())
    shares = masses / max(total, np.finfo(np.float64).tiny)
    labels = np.flatnonzero((masses > 0) & (shares >= drop_share))
    return Leaf(labels.astype(np.int32), shares[labels].astype(np.float32), total)


def begun(
    counts: Sequence[Counts], places: Sequence[int], keys: Sequence[int], min_feature_rows: int,
    rooms: Sequence[tuple[int, int]],
) -> list[NodeState]:  # fmt: skip
    """Return the states of nodes at their start."""
    return [
        node.begin(key, counts[place], min_feature_rows, *room)
        for place, key, room in zip(places, keys, rooms, strict=True)
    ]


def total_of(parts: Sequence[Any], n_chunks: int | None) -> Any:
    """Return the sum of what all chunks say.

    Parameters
    ----------
    parts : sequence
        As `added` wants them; or, where the number of chunks is given, a `Partial` of each worker.
    n_chunks : int or None
    """
    if n_chunks is None:
        return added(parts)
    (total,) = partly_added(parts, n_chunks).values()
    return total


def next_states(
    step: Callable[..., NodeState], states: Sequence[NodeState], parts: Sequence[Any], n_chunks: int | None, *more: Any
) -> Any:
    """Return the states that follow from what the chunks say; see `total_of`."""
    return [step(state, sums, *more) for state, sums in zip(states, total_of(parts, n_chunks), strict=True)]


def frames_of(states: Sequence[NodeState]) -> list[NodeFrame]:
    """Return the frames of nodes, which travel to the chunks."""
    return [state.frame for state in states]


def asks_of(states: Sequence[NodeState]) -> list[NodeQuestion]:
    """Return the questions of nodes, which travel to the chunks."""
    return [state.ask for state in states]


def masses_of(states: Sequence[NodeState]) -> list[float]:
    """Return the masses of nodes."""
    return [state.mass for state in states]


def directed(states: Sequence[NodeState], places: Sequence[int], rank: int) -> list[NodeState]:
    """Return the states of some nodes with a direction of their sketch."""
    return [node.take_direction(states[place], rank) for place in places]


def finished(states: Sequence[NodeState], drop_weight: float) -> list[Router]:
    """Return the routers of nodes."""
    return [routing.finished_router(state, drop_weight) for state in states]


def median_begun(ranges: Sequence[Sequence[tuple[float, float]]], masses: Sequence[float]) -> list[Any]:
    """Return the searches for the medians of nodes; ranges are those of all chunks."""
    by_node = zip(*ranges, strict=True)
    return [routing.begin_median(list(own), mass) for own, mass in zip(by_node, masses, strict=True)]


def median_narrowed(searches: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
    """Return the searches, narrowed down."""
    return [routing.narrowed(search, own) for search, own in zip(searches, sums, strict=True)]


def at_medians(routers: Sequence[Router], searches: Sequence[Any]) -> list[Router]:
    """Return routers that split at the medians."""
    return [routing.at_median(router, search) for router, search in zip(routers, searches, strict=True)]


def chosen_routers(tries: Sequence[Sequence[Router]], chosen: Sequence[tuple[int, int]]) -> list[Router]:
    """Return the best router of each node: the number of the try, and the place in it."""
    return [tries[which][place] for which, place in chosen]


def repeated(values: Sequence[Any], n: int) -> list[Any]:
    """Return the only value n times."""
    (value,) = values
    return [value] * n


def at_places(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Return some of many values."""
    return [values[place] for place in places]
