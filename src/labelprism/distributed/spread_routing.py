"""The last steps at a node whose rows are spread: the finished router, where it would split, and who goes where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelprism._arrays import Float32, Int32
from labelprism._core import ChunkRows
from labelprism.distributed.spread_node import Float64, Members, NodeState, spread_out

ROUTER_STEPS = 127
"""Router weights are whole multiples of the largest of their node over this, as in forest_growth.hpp."""

MEDIAN_ROUNDS = 3
_BINS = 1024  # of each round


class Router(NamedTuple):
    """A router: an example goes right with probability Phi((w.x - bias) / noise).

    Attributes
    ----------
    features : int32 array of shape (f,), ascending
    weights : float32 array of shape (f,)
    bias : float
    """

    features: Int32
    weights: Float32
    bias: float


class Routing(NamedTuple):
    """What decides who goes where while trees grow; see `SpectralForest`.

    Attributes
    ----------
    noise : float
        0: all of an example goes to one side.
    prune_below : float
    """

    noise: float
    prune_below: float


def finished_router(state: NodeState, drop_weight: float) -> Router:
    """Return the router of a node: small weights are dropped, the others rounded to steps of the largest.

    Parameters
    ----------
    state : NodeState
        After the last step of the classifier.
    drop_weight : float
        Weights below this share of the largest are dropped.
    """
    weights = state.ask.weights
    assert weights is not None
    largest = float(np.abs(weights).max(initial=0.0))
    step = np.float32(largest / ROUTER_STEPS)
    kept = np.abs(weights) > drop_weight * largest
    rounded = (np.rint(weights[kept] / step) * step).astype(np.float32)
    return Router(state.frame.features[kept], rounded, -state.ask.offset)


def margins(chunk: ChunkRows, members: Members, router: Router) -> Float64:
    """Return w.x of the examples of a chunk that reach a node."""
    return chunk.margins(*members, _weights(chunk, router)).astype(np.float64)


def _weights(chunk: ChunkRows, router: Router) -> Float32:
    return spread_out(router.weights, router.features, chunk.n_features)


def right_mass(chunk: ChunkRows, members: Members, router: Router, noise: float) -> float:
    """Return the mass of a chunk that would go right; by a router without weights, which splits nothing, none."""
    if not router.features.size:
        return 0.0
    return chunk.right_mass(*members, _weights(chunk, router), router.bias, noise)


def route(
    chunk: ChunkRows, members: Members, router: Router, key: int, first_row: int, routing: Routing
) -> tuple[Members, Members]:
    """Return the examples of both children.

    Examples of little weight are kept by chance, which is a hash of the node and the row: expected counts stay what
    they are, and no cut of the rows into chunks changes them.

    Parameters
    ----------
    chunk : ChunkRows
    members : Members
    router : Router
    key : int
        Of the node.
    first_row : int
        The number of the chunk's first row among all.
    routing : Routing
    """
    weights = _weights(chunk, router)
    left, right = chunk.route(*members, weights, router.bias, routing.noise, key, first_row, routing.prune_below)
    return Members(*left), Members(*right)


# ---------------------------------------------------------------------------------------------------------- the median


class MedianSearch(NamedTuple):
    """A weighted median of margins, as far as it is known: `below` of the mass lies under `low`."""

    low: float
    high: float
    below: float
    mass: float


def margin_range(chunk: ChunkRows, members: Members, router: Router) -> tuple[float, float]:
    """Return the smallest and the largest margin of a chunk; inf and -inf where there is none."""
    values = margins(chunk, members, router)
    return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))


def begin_median(ranges: list[tuple[float, float]], mass: float) -> MedianSearch:
    """Return the search for the median of all chunks, whose ranges are given."""
    return MedianSearch(min(low for low, _ in ranges), max(high for _, high in ranges), 0.0, mass)


def histogram(chunk: ChunkRows, members: Members, router: Router, search: MedianSearch) -> Float64:
    """Return a chunk's mass in each part of the range that is left, of shape (bins,)."""
    values = margins(chunk, members, router)
    inside = (values >= search.low) & (values <= search.high)
    width = max(search.high - search.low, np.finfo(np.float64).tiny)
    places = np.minimum(((values[inside] - search.low) / width * _BINS).astype(np.int64), _BINS - 1)
    return np.bincount(places, members.weight[inside], _BINS).astype(np.float64)


def narrowed(search: MedianSearch, sums: Float64) -> MedianSearch:
    """Return the search in the part where the median lies."""
    total = search.below + np.cumsum(sums)
    place = min(int(np.searchsorted(total, search.mass / 2)), _BINS - 1)
    width = (search.high - search.low) / _BINS
    low = search.low + place * width
    return MedianSearch(low, low + width, float(total[place] - sums[place]), search.mass)


def at_median(router: Router, search: MedianSearch) -> Router:
    """Return the router with the median as its bias."""
    return router._replace(bias=float(np.float32((search.low + search.high) / 2)))
