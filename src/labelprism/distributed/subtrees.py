"""The trees on a cluster: the top of large ones is spread, and the rows of a subtree move once, to who grows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from labelprism._arrays import Int64
from labelprism.distributed.chunks import Chunk, Chunks
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.forest_join import Grown, described, joined_forest
from labelprism.distributed.growing import OpenNodes, grow_on
from labelprism.distributed.hashing import root_key
from labelprism.distributed.spread_growth import NodeSize, SpreadGrowth, SpreadLimits, TopNode
from labelprism.distributed.spread_node import Members
from labelprism.distributed.spread_tasks import all_members
from labelprism.distributed.whole_trees import grown_whole
from labelprism.filters import SpectralForest

PHASE = "subtree-growth"
_GROUPS_PER_WORKER = 4  # of subtrees, so that none waits long for the last


class Piece(NamedTuple):
    """The rows of a chunk that a group of subtrees needs, each once, and which node has which.

    Attributes
    ----------
    X, Y : csr_arrays of shapes (m, d) and (m, c)
    row_ids : int64 array of shape (m,)
        Their numbers among all rows.
    members : list of Members
        By node; places are those in the piece.
    """

    X: sp.csr_array
    Y: sp.csr_array
    row_ids: Int64
    members: list[Members]


def grown_forest(
    cluster: Cluster, chunks: Chunks, forest: SpectralForest, mean_weight: float, limits: SpreadLimits
) -> tuple[Any, list[Any]]:
    """Grow a forest on the rows of all chunks; return the future of it, and those of its parts, to be watched.

    Parameters
    ----------
    cluster : Cluster
    chunks : Chunks
    forest : SpectralForest
        Its parameters.
    mean_weight : float
        Of the rows; growth sees weights with a mean of 1.
    limits : SpreadLimits
    """
    seed = int(check_random_state(forest.random_state).randint(2**31 - 1))
    growth = SpreadGrowth(cluster, chunks, forest, limits)
    roots = _roots(growth, seed, mean_weight)
    owned = growth.grow(roots)
    whole = [top.key for top in owned if top.depth == 0]
    parts = grown_whole(cluster, chunks, forest, seed, whole, mean_weight) if whole else []
    groups = grouped([top for top in owned if top.depth > 0], len(cluster.workers()))
    parts += [_submitted(cluster, chunks, forest, seed, group) for group in groups]
    grown = cluster.submit(PHASE, "join", joined_forest, described(roots), parts, forest, chunks.shape, mean_weight)
    return grown, parts


def _roots(growth: SpreadGrowth, seed: int, mean_weight: float) -> list[TopNode]:
    """Return the roots of all trees; their members are asked for only if they stay spread."""
    chunks, n_trees = growth.chunks, growth.forest.n_trees
    n_bytes = sum(8 * facts.n_entries + 4 * facts.n_labels for facts in chunks.facts)
    size = NodeSize(int(chunks.first_rows[-1]), n_bytes)
    members = [
        growth.cluster.submit("spread-growth", "roots", all_members, chunk, n_trees, mean_weight)
        for chunk in (chunks.futures if growth.stays_spread(size) else [])
    ]
    return [TopNode(root_key(seed, tree), 0, size, members, tree) for tree in range(n_trees)]


def grouped(nodes: Sequence[TopNode], n_workers: int) -> list[list[TopNode]]:
    """Return nodes in groups of about the same size, a few for each worker: the largest first, to the smallest group.

    What grows does not depend on it.
    """
    n_groups = min(len(nodes), _GROUPS_PER_WORKER * n_workers)
    groups: list[list[TopNode]] = [[] for _ in range(n_groups)]
    loads = np.zeros(n_groups, np.int64)
    for top in sorted(nodes, key=lambda top: -top.size.n_bytes):
        place = int(np.argmin(loads))
        groups[place].append(top)
        loads[place] += max(top.size.n_bytes, 1)
    return groups


def _submitted(cluster: Cluster, chunks: Chunks, forest: SpectralForest, seed: int, group: list[TopNode]) -> Any:
    levels: dict[int, int] = {}  # the lists of members that the nodes of the group are in
    lists: list[list[Any]] = []
    picks = []
    for top in group:
        number = levels.setdefault(id(top.members), len(lists))
        if number == len(lists):
            lists.append(top.members)
        picks.append((number, top.place))
    pieces = [
        cluster.submit(PHASE, "rows", piece_of, chunk, int(first), [own[k] for own in lists], picks)
        for k, (chunk, first) in enumerate(zip(chunks.futures, chunks.first_rows[:-1], strict=True))
    ]
    keys, depths = [top.key for top in group], [top.depth for top in group]
    return cluster.submit(PHASE, "grow", grown_subtrees, pieces, keys, depths, forest, seed)


def piece_of(
    chunk: Chunk, first_row: int, lists: Sequence[Sequence[Members]], picks: Sequence[tuple[int, int]]
) -> Piece:
    """Return what some nodes need of a chunk.

    Parameters
    ----------
    chunk : Chunk
    first_row : int
        The number of its first row among all.
    lists : sequence of lists of Members
    picks : sequence of (int, int)
        For each node the list, and the place in it.
    """
    members = [lists[number][place] for number, place in picks]
    rows = np.unique(np.concatenate([own.rows for own in members]))
    local = [Members(np.searchsorted(rows, own.rows).astype(np.int32), own.weight) for own in members]
    return Piece(chunk.X[rows], chunk.Y[rows], rows.astype(np.int64) + first_row, local)


def grown_subtrees(
    pieces: Sequence[Piece], keys: Sequence[int], depths: Sequence[int], forest: SpectralForest, seed: int
) -> list[Grown]:
    """Grow the subtrees of a group: what the same nodes of a forest over all rows would become, to the bit.

    Parameters
    ----------
    pieces : sequence of Piece
        Of all chunks, in their order.
    keys, depths : sequences of int
        Of the nodes.
    forest : SpectralForest
        Its parameters.
    seed : int
    """
    X, Y = (sp.csr_array(sp.vstack([getattr(piece, name) for piece in pieces], format="csr")) for name in "XY")
    row_ids = np.concatenate([piece.row_ids for piece in pieces])
    firsts = np.concatenate([[0], np.cumsum([piece.row_ids.size for piece in pieces])]).astype(np.int32)
    found = []
    for depth in sorted(set(depths)):
        roots = [i for i, own in enumerate(depths) if own == depth]
        members = [
            Members(
                np.concatenate([piece.members[i].rows + first for piece, first in zip(pieces, firsts, strict=False)]),
                np.concatenate([piece.members[i].weight for piece in pieces]),
            )
            for i in roots
        ]
        nodes = OpenNodes(
            np.array([keys[i] for i in roots], np.uint64),
            np.concatenate([[0], np.cumsum([own.rows.size for own in members])]).astype(np.int64),
            np.concatenate([own.rows for own in members]).astype(np.int32),
            np.concatenate([own.weight for own in members]).astype(np.float32),
        )
        grower = grow_on(X, Y, row_ids, nodes, depth, forest, seed)
        found.append(Grown([keys[i] for i in roots], [], grower.forest()))
    return found
