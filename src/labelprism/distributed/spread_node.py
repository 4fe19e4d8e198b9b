"""The router of a node whose rows are spread over chunks: what a chunk adds, and what follows from the sums.

The same steps as in a node whose rows are together (label_sketch.cpp, router_refinement.cpp), with two differences.
All that is asked of the rows is a sum over them, and the classifier is found by L-BFGS, whose gradients are sums,
instead of coordinate descent, which takes one row after the other. A step is a pair of functions: one of a chunk and of
what is asked, `NodeFrame` and `NodeQuestion`, which travel to all chunks; and one of the sums and of the state,
`NodeState`, which stays where it is.

What a chunk says is made natively (spread_sums.cpp), one pass over its rows for each question and node. Features and
labels of a node are numbered anew: those that it has, or the most frequent where these are too many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, csr_parts
from labelprism._core import ChunkRows
from labelprism.distributed.hashing import scramble, uniform

Float64 = npt.NDArray[np.float64]

BLOCK = 8  # vectors of a sketch
STEP_SIZES = np.array([0.0, 2.0**-6, 2.0**-4, 2.0**-3, *2.0 ** np.arange(-2, 2.5, 0.5), 8.0])
"""The steps that a line search looks at, all at once."""

_MEMORY = 6  # pairs of steps and gradients that L-BFGS remembers
_OFFSET_PULL = 10.0  # kBiasSquare of router_refinement.cpp is one over it
_ROUNDING = 1e-7  # directions that are shorter than the longest by this factor are rounding
_TINY = 1e-9
_MEAN_SIZE = 0.7978845608  # the mean size of a normal variable of variance 1


class Members(NamedTuple):
    """The examples of a chunk that reach a node.

    Attributes
    ----------
    rows : int32 array of shape (m,)
        Their places in the chunk, ascending.
    weight : float32 array of shape (m,)
        How much of each reaches the node.
    """

    rows: Int32
    weight: Float32


class Counts(NamedTuple):
    """What a node has of everything: the sums of the first step.

    Attributes
    ----------
    n_rows : int
    mass : float
        The sum of the examples' weights.
    labels : float32 array of shape (c,)
        The mass of each label.
    feature_rows : int32 array of shape (d,)
        The rows of each feature.
    feature_sums : float32 array of shape (d,)
        The weighted sum of each feature's values.
    """

    n_rows: int
    mass: float
    labels: Float32
    feature_rows: Int32
    feature_sums: Float32


class NodeFrame(NamedTuple):
    """What the chunks need to know of a node for many steps: it travels seldom.

    Attributes
    ----------
    features, labels : int32 arrays of shapes (f,) and (l,)
        Those that the node's sums are about, ascending.
    votes, strength : float32 arrays of shape (l,) or None
        The side that each label votes for, times its strength; and its strength.
    """

    features: Int32
    labels: Int32
    votes: Float32 | None = None
    strength: Float32 | None = None


class NodeQuestion(NamedTuple):
    """What the chunks need to know of a node for the next step.

    Attributes
    ----------
    block : float32 array of shape (l or f, 8) or None
        Codes of the labels or weights of the features, in the sketch.
    means : float64 array of shape (8,) or None
        Their weighted means over the rows.
    weights : float32 array of shape (f,) or None
        Of the router.
    offset : float
    move : float32 array of shape (f + 1,) or None
        Where a line search looks for better weights and a better offset.
    mean, scale : float
        The mean margin (in a line search that at step 0), and 1 over the mean size of the centred margins.
    mean_move : float
        By how much the mean margin grows with the step.
    """

    block: Float32 | None = None
    means: Float64 | None = None
    weights: Float32 | None = None
    offset: float = 0.0
    move: Float32 | None = None
    mean: float = 0.0
    scale: float = 1.0
    mean_move: float = 0.0


# ---------------------------------------------------------------------------------------------------- what a chunk says


def chunk_rows(X: sp.csr_array, Y: sp.csr_array) -> ChunkRows:
    """Return the rows of a chunk, checked, as the functions below want them.

    Parameters
    ----------
    X, Y : csr_arrays of shapes (n, d) and (n, c)
        Y is a matrix of ones.
    """
    labels = csr_parts(Y)
    return ChunkRows(*csr_parts(X), X.shape[1], labels.indptr, labels.indices, Y.shape[1])


def spread_out(values: npt.NDArray[Any], columns: Int32, n_columns: int) -> Float32:
    """Return values of some columns as those of all, 0 for the others."""
    wide = np.zeros((n_columns, *values.shape[1:]), np.float32)
    wide[columns] = values
    return wide


def count(chunk: ChunkRows, members: Members) -> Counts:
    """Return what a chunk has of a node's rows, mass, labels and features."""
    mass = float(members.weight.sum(dtype=np.float64))
    return Counts(int(members.rows.size), mass, *chunk.count(*members))


def features_of_codes(chunk: ChunkRows, members: Members, frame: NodeFrame, ask: NodeQuestion) -> Float32:
    """Return X'D (Y C - means) of a chunk, of shape (f, 8): codes of labels, carried to the features."""
    assert ask.block is not None
    assert ask.means is not None
    codes = spread_out(ask.block, frame.labels, chunk.n_labels)
    return chunk.features_of_codes(*members, codes, ask.means.astype(np.float32))[frame.features]


def labels_of_features(
    chunk: ChunkRows, members: Members, frame: NodeFrame, ask: NodeQuestion, is_last: bool
) -> tuple[Float32, Float64 | None]:
    """Return Y'D (X Z - means) of a chunk, of shape (l, 8), and, at the last step, second moments of X Z, (8, 8)."""
    assert ask.block is not None
    assert ask.means is not None
    block = spread_out(ask.block, frame.features, chunk.n_features)
    sums, moments = chunk.labels_of_features(*members, block, ask.means.astype(np.float32), is_last)
    return sums[frame.labels], moments


def sides_of_labels(chunk: ChunkRows, members: Members, frame: NodeFrame, ask: NodeQuestion) -> Float32:
    """Return the sums of the margins of each label's examples, of shape (l,): seen from their mean, cut."""
    assert ask.weights is not None
    weights = spread_out(ask.weights, frame.features, chunk.n_features)
    return chunk.sides_of_labels(*members, weights, ask.offset, ask.mean, ask.scale)[frame.labels]


def gradient(
    chunk: ChunkRows, members: Members, frame: NodeFrame, ask: NodeQuestion, cost: float, with_diagonal: bool
) -> tuple[Float32, Float32 | None]:
    """Return a chunk's part of the gradient of the loss, and of the second derivatives, both of shape (f + 1,).

    The last element is that of the offset.
    """
    assert ask.weights is not None
    weights = spread_out(ask.weights, frame.features, chunk.n_features)
    slopes, diagonal = chunk.gradient(*members, _votes(frame, chunk.n_labels), cost, weights, ask.offset, with_diagonal)
    own = np.append(frame.features, chunk.n_features)
    return slopes[own], None if diagonal is None else diagonal[own]


def search(chunk: ChunkRows, members: Members, frame: NodeFrame, ask: NodeQuestion, cost: float) -> Float64:
    """Return a chunk's part of the loss, and of the sizes of the centred margins, for all steps: shape (2, steps)."""
    assert ask.weights is not None
    assert ask.move is not None
    pairs = spread_out(np.stack([ask.weights, ask.move[:-1]], axis=1), frame.features, chunk.n_features)
    offsets, means = (ask.offset, float(ask.move[-1])), (ask.mean, ask.mean_move)
    votes = _votes(frame, chunk.n_labels)
    return chunk.search(*members, votes, cost, pairs, offsets, means, STEP_SIZES.astype(np.float32))


def _votes(frame: NodeFrame, n_labels: int) -> Float32:
    """Return the vote and the strength of every label, of shape (c, 2)."""
    assert frame.votes is not None
    assert frame.strength is not None
    return spread_out(np.stack([frame.votes, frame.strength], axis=1), frame.labels, n_labels)


# ---------------------------------------------------------------------------------------------------- what the sums say


class NodeState(NamedTuple):
    """A node in the making; it stays with the task that adds the sums up.

    Attributes
    ----------
    frame : NodeFrame
    ask : NodeQuestion
        What the chunks are asked next.
    mass : float
    label_masses : float32 array of shape (l,)
    feature_means : float64 array of shape (f,)
    directions : float64 array of shape (8, f) or None
        Those of the sketch, the best one first.
    sizes : float64 array of shape (8,) or None
        The mean sizes of their margins.
    steps, changes : tuples of float64 arrays of shape (f + 1,)
        What L-BFGS remembers: steps, and the changes of the gradient.
    last_gradient, inverse : float64 arrays of shape (f + 1,) or None
        The last gradient, and 1 over the second derivatives.
    """

    frame: NodeFrame
    ask: NodeQuestion
    mass: float
    label_masses: Float32
    feature_means: Float64
    directions: Float64 | None = None
    sizes: Float64 | None = None
    steps: tuple[Float64, ...] = ()
    changes: tuple[Float64, ...] = ()
    last_gradient: Float64 | None = None
    inverse: Float64 | None = None


def begin(key: int, counts: Counts, min_feature_rows: int, most_features: int, most_labels: int) -> NodeState:
    """Return the state of a node at the start of its sketch.

    Parameters
    ----------
    key : int
        Seeds what is random in the node.
    counts : Counts
        Of all chunks.
    min_feature_rows : int
        Features of fewer rows are left out,
    most_features, most_labels : int
        and features and labels beyond so many, the rarest.
    """
    features = most_frequent(np.flatnonzero(is_common(counts, min_feature_rows)), counts.feature_rows, most_features)
    labels = most_frequent(np.flatnonzero(counts.labels > 0), counts.labels, most_labels)
    places = (labels.astype(np.uint64)[:, None] * np.uint64(BLOCK)) + np.arange(BLOCK, dtype=np.uint64)
    with np.errstate(over="ignore"):
        codes = (2 * uniform(scramble(places + np.uint64(key))) - 1).astype(np.float32)
    masses = counts.labels[labels]
    means = counts.feature_sums[features].astype(np.float64) / max(counts.mass, _TINY)
    ask = NodeQuestion(codes, _code_means(masses, codes, counts.mass))
    return NodeState(NodeFrame(features, labels), ask, counts.mass, masses, means)


def is_common(counts: Counts, min_feature_rows: int) -> npt.NDArray[np.bool_]:
    """Tell which features a router may have weights for, if there are not too many."""
    return np.asarray(counts.feature_rows >= max(min_feature_rows, 1))


def most_frequent(columns: npt.NDArray[Any], frequency: npt.NDArray[Any], most: int) -> Int32:
    """Return the most frequent of some columns, ascending."""
    if columns.size > most:
        columns = np.sort(columns[np.argsort(-frequency[columns], kind="stable")[:most]])
    return columns.astype(np.int32)


def _code_means(masses: Float32, codes: Float32, mass: float) -> Float64:
    return np.asarray(np.einsum("l,lj->j", masses.astype(np.float64), codes) / max(mass, _TINY))


def after_features(state: NodeState, sums: Float32) -> NodeState:
    """Take in the sums of `features_of_codes`: ask for the way back to the labels."""
    largest = float(np.abs(sums).max(initial=0.0))
    if largest > 0 and np.isfinite(largest):
        sums = sums * np.float32(2.0 ** -np.floor(np.log2(largest)))  # no number of steps may overflow
    means = np.einsum("f,fj->j", state.feature_means, sums)
    return state._replace(ask=state.ask._replace(block=np.ascontiguousarray(sums, np.float32), means=means))


def after_labels(state: NodeState, sums: tuple[Float32, Float64 | None], is_last: bool) -> NodeState:
    """Take in the sums of `labels_of_features`: new codes, or, at the end, the best directions in their span."""
    by_label, moments = sums
    codes = (by_label / np.maximum(state.label_masses, _TINY)[:, None]).astype(np.float32)
    if not is_last:
        means = _code_means(state.label_masses, codes, state.mass)
        return state._replace(ask=state.ask._replace(block=codes, means=means))
    features = state.ask.block
    assert features is not None
    assert moments is not None
    wide = features.astype(np.float64)
    combinations = best_combinations(
        np.einsum("li,lj->ij", by_label.astype(np.float64), codes), np.einsum("fi,fj->ij", wide, wide)
    )
    spread = np.sqrt(np.maximum(np.einsum("ri,ij,rj->r", combinations, moments, combinations) / state.mass, 0.0))
    return state._replace(
        directions=np.einsum("rj,fj->rf", combinations, wide), sizes=spread * _MEAN_SIZE, ask=NodeQuestion()
    )


def best_combinations(objective: Float64, lengths: Float64) -> Float64:
    """Return the combinations of the columns that are largest by `objective`, of length 1 by `lengths`, as rows.

    The best one comes first; rows of zeros stand for those that there are not.
    """
    values, vectors = np.linalg.eigh(lengths)
    kept = values > _ROUNDING * max(values[-1], 0.0)
    found = np.zeros(lengths.shape)
    if not kept.any() or not np.isfinite(values).all():
        return found
    white = vectors[:, kept] / np.sqrt(values[kept])
    gains, inner = np.linalg.eigh(white.T @ (objective + objective.T) @ white / 2)
    order = np.argsort(-gains, kind="stable")
    found[: order.size] = (white @ inner[:, order]).T
    found[: order.size][gains[order] <= 0] = 0.0
    return found


def take_direction(state: NodeState, rank: int) -> NodeState:
    """Ask for the sides of the labels by one of the directions of the sketch."""
    assert state.directions is not None
    assert state.sizes is not None
    weights = state.directions[rank].astype(np.float32)
    mean = _dot(state.feature_means, weights)
    scale = 1.0 / (float(state.sizes[rank]) + _TINY)
    return state._replace(ask=NodeQuestion(weights=weights, mean=mean, scale=scale))


def after_sides(state: NodeState, sums: Float32, keep_weights: bool) -> NodeState:
    """Take in the sums of `sides_of_labels`: labels vote, and the classifier starts, from where it was or from 0."""
    masses = np.maximum(state.label_masses, np.float32(_TINY))
    side = np.ascontiguousarray(sums / masses, np.float32)
    median = np.float32(_core.weighted_median(side, masses))
    strength = (1 / np.sqrt(masses)).astype(np.float32)
    votes = np.sign(side - median) * strength
    frame, ask = state.frame._replace(votes=votes.astype(np.float32), strength=strength), state.ask
    if not keep_weights:
        ask = ask._replace(weights=np.zeros(frame.features.size, np.float32), offset=0.0)
    return state._replace(frame=frame, ask=ask, steps=(), changes=(), last_gradient=None, inverse=None)


def after_gradient(state: NodeState, sums: tuple[Float32, Float32 | None]) -> NodeState:
    """Take in the sums of `gradient`: ask for the loss along the direction of L-BFGS."""
    ask = state.ask
    assert ask.weights is not None
    point = np.append(ask.weights, ask.offset).astype(np.float64)
    present = sums[0].astype(np.float64) + _pull(point.size) * point
    if sums[1] is not None:
        state = state._replace(inverse=1.0 / (_pull(point.size) + sums[1].astype(np.float64)))
    if state.last_gradient is not None:
        change = present - state.last_gradient
        if _dot(change, state.steps[-1]) > 0:
            state = state._replace(changes=(*state.changes, change))
        else:  # the step led nowhere
            state = state._replace(steps=state.steps[:-1])
    move = _lbfgs_move(state, present).astype(np.float32)
    mean, mean_move = (_dot(state.feature_means, way[:-1]) + float(way[-1]) for way in (point, move))
    ask = ask._replace(move=move, mean=mean, mean_move=mean_move)
    return state._replace(ask=ask, last_gradient=present)


def _pull(n_weights: int) -> Float64:
    """Return how strongly each weight, and the offset after them, is drawn to 0."""
    return np.append(np.ones(n_weights - 1), _OFFSET_PULL)


def _dot(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Return an inner product without BLAS, whose threads could change the last bits."""
    return float(np.einsum("i,i->", one, other))


def _lbfgs_move(state: NodeState, present: Float64) -> Float64:
    """Return minus the gradient times the inverse Hessian, as far as it is known."""
    assert state.inverse is not None
    pairs = list(zip(state.steps, state.changes, strict=True))[-_MEMORY:]
    move, shares = -present, []
    for step, change in reversed(pairs):
        shares.append(_dot(step, move) / _dot(step, change))
        move = move - shares[-1] * change
    move = move * state.inverse
    if pairs:
        step, change = pairs[-1]
        move *= _dot(step, change) / _dot(change, state.inverse * change)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        move = move + (share - _dot(change, move) / _dot(step, change)) * step
    return np.asarray(move)


def after_search(state: NodeState, sums: Float64) -> NodeState:
    """Take in the sums of `search`: take the best step."""
    ask = state.ask
    assert ask.weights is not None
    assert ask.move is not None
    point, move = np.append(ask.weights, ask.offset).astype(np.float64), ask.move.astype(np.float64)
    along = point + STEP_SIZES[:, None] * move
    best = int(np.argmin(sums[0] + 0.5 * np.einsum("ij,ij,j->i", along, along, _pull(point.size))))
    step = STEP_SIZES[best] * move
    taken = (point + step).astype(np.float32)
    ask = ask._replace(
        weights=np.ascontiguousarray(taken[:-1]),
        offset=float(taken[-1]),
        move=None,
        mean=ask.mean + float(STEP_SIZES[best]) * ask.mean_move,
        scale=1.0 / (float(sums[1, best]) / max(state.mass, _TINY) + _TINY),
    )
    return state._replace(ask=ask, steps=(*state.steps, step))
