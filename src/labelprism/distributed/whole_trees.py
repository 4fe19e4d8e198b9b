"""Trees that are not spread: their rows go to a few workers, once to each, and these share the growth of all trees.

Trees are seldom as many as there are threads. So a task grows the stem of a tree, its first levels, and the subtrees
below it are dealt out in shares of about the same size, each of which any of the workers can grow. What happens in a
node depends on its rows and its key alone, so that this changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labelprism._arrays import Int64
from labelprism.distributed.chunks import Chunk, Chunks, joined, taken
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.forest_join import Grown
from labelprism.distributed.growing import OpenNodes, grow_on
from labelprism.distributed.spread_tasks import root_weights
from labelprism.filters import SpectralForest

PHASE = "subtree-growth"
_WORKERS_PER_TREE = 2  # get the rows, at most: what travels stays below three times the rows for each tree
_SHARES_PER_TREE = 8  # small against what a worker does, and large against what it takes to hand them out
_FEWEST_ROWS = 500  # of a share
_SLACK = 2.0  # a stem ends when no node is larger than so many shares: another level is a tenth of the tree


class Stem(NamedTuple):
    """The first levels of a tree, the nodes that are to grow on below them, and how deep these are."""

    grown: Grown
    nodes: OpenNodes
    depth: int


def share_count(n_rows: int) -> int:
    """Return how many shares there are of the subtrees of a tree. The number of workers does not matter.

    Parameters
    ----------
    n_rows : int
        Of the tree.
    """
    return max(min(_SHARES_PER_TREE, n_rows // _FEWEST_ROWS), 1)


def grown_whole(
    cluster: Cluster, chunks: Chunks, forest: SpectralForest, seed: int, keys: Sequence[int], mean_weight: float
) -> list[Any]:
    """Return the futures of lists of `Grown`, the parts of all trees.

    Parameters
    ----------
    cluster : Cluster
    chunks : Chunks
    forest : SpectralForest
        Its parameters.
    seed : int
    keys : sequence of int
        Of the roots, at least one.
    mean_weight : float
        Of the rows; growth sees weights with a mean of 1.
    """
    pool = list(cluster.workers())[: _WORKERS_PER_TREE * len(keys)]
    pieces = cluster.submit_all(PHASE, "rows", growth_rows, [(chunk, mean_weight) for chunk in chunks.futures])
    rows_at = [cluster.submit(PHASE, "all-rows", joined, pieces, home=worker) for worker in pool[: len(keys)]]
    n_shares = share_count(int(chunks.first_rows[-1]))
    stems = []
    for tree, key in enumerate(keys):
        place = tree % len(rows_at)
        arguments = (rows_at[place], key, forest, seed, n_shares)
        stems.append(cluster.submit(PHASE, "stem", grown_stem, *arguments, home=pool[place], first=True))
    parts = [cluster.submit(PHASE, "stem-nodes", nodes_of_stem, stem) for stem in stems]
    for stem in stems if n_shares > 1 else []:
        below = cluster.submit(PHASE, "below-stem", open_below, stem)
        shares = [(pieces, below, share, n_shares, forest, seed) for share in range(n_shares)]
        parts += cluster.submit_all(PHASE, "grow", grown_share, shares, home=pool)
    return parts


# ---------------------------------------------------------------------------------------------------------------- tasks


def growth_rows(chunk: Chunk, mean_weight: float) -> Chunk:
    """Return the rows of a chunk with the weights that growth sees. They travel by this name, and go with growth."""
    return chunk if chunk.weight is None else chunk._replace(weight=root_weights(chunk, mean_weight))


def grown_stem(rows: Chunk, key: int, forest: SpectralForest, seed: int, n_shares: int) -> Stem:
    """Grow a tree until its nodes can be dealt out in so many shares; to its end for one.

    Parameters
    ----------
    rows : Chunk
        All rows, with weights that have a mean of 1.
    key : int
        Of the root.
    forest : SpectralForest
        Its parameters.
    seed : int
    n_shares : int
    """
    n = rows.X.shape[0]
    root = OpenNodes(
        np.array([key], np.uint64), np.array([0, n], np.int64), np.arange(n, dtype=np.int32), root_weights(rows, 1.0)
    )
    most_rows = 0 if n_shares == 1 else min(int(_SLACK * n / n_shares), n - 1)  # the root at least is in the stem
    grower = grow_on(rows.X, rows.Y, np.zeros(0, np.int64), root, 0, forest, seed, most_rows)
    nodes = OpenNodes(*grower.nodes())
    return Stem(Grown([key], nodes.keys.tolist(), grower.forest()), nodes, grower.depth)


def nodes_of_stem(stem: Stem) -> list[Grown]:
    """Return the nodes of a stem, which travel to where the forest is put together."""
    return [stem.grown]


def open_below(stem: Stem) -> tuple[OpenNodes, int]:
    """Return what is to grow below a stem, which travels to the workers that do it, and how deep it is."""
    return stem.nodes, stem.depth


def dealt(sizes: Int64, n_shares: int) -> Int64:
    """Return the share of each node: by size, the largest first, to the smallest share.

    Parameters
    ----------
    sizes : int64 array of shape (n_nodes,)
    n_shares : int
    """
    loads, shares = np.zeros(n_shares, np.int64), np.zeros(sizes.size, np.int64)
    for node in np.argsort(-sizes, kind="stable"):
        shares[node] = np.argmin(loads)
        loads[shares[node]] += sizes[node]
    return shares


def grown_share(
    pieces: Sequence[Chunk], below: tuple[OpenNodes, int], share: int, n_shares: int, forest: SpectralForest, seed: int
) -> list[Grown]:
    """Grow a share of the subtrees below a stem, from a copy of their rows.

    Parameters
    ----------
    pieces : sequence of Chunk
        All rows.
    below : (OpenNodes, int)
        As from `open_below`.
    share, n_shares : int
        The number of the share, and how many there are.
    forest : SpectralForest
        Its parameters.
    seed : int
    """
    nodes, depth = below
    is_own = dealt(nodes.sizes, n_shares) == share
    if not is_own.any():
        return []
    inside = np.repeat(is_own, nodes.sizes)
    row_ids, places = np.unique(nodes.rows[inside], return_inverse=True)
    rows = _picked(pieces, row_ids.astype(np.int64))
    own = OpenNodes(
        nodes.keys[is_own], np.concatenate([[0], np.cumsum(nodes.sizes[is_own])]), places.astype(np.int32),
        nodes.weight[inside],
    )  # fmt: skip
    grower = grow_on(rows.X, rows.Y, row_ids.astype(np.int64), own, depth, forest, seed)
    return [Grown(own.keys.tolist(), [], grower.forest())]


def _picked(pieces: Sequence[Chunk], row_ids: Int64) -> Chunk:
    """Return some rows of all, by their numbers, ascending."""
    first = np.concatenate([[0], np.cumsum([piece.X.shape[0] for piece in pieces])])
    cuts = np.searchsorted(row_ids, first)
    return joined([taken(piece, row_ids[cuts[k] : cuts[k + 1]] - first[k], False) for k, piece in enumerate(pieces)])
