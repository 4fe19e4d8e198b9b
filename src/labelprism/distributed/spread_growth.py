"""The top of the trees: rows stay where they are, and each chunk adds its part of the sums.

All spread nodes of a level, of all trees, take their steps together: a task of a chunk answers for all of them. Nodes
leave the top when they are small enough, or when their sums would be larger than their rows: then their rows move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from labelprism._progress import ProgressBar
from labelprism.distributed import spread_node as node
from labelprism.distributed import spread_routing as routing
from labelprism.distributed.chunks import Chunks
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.hashing import child_key
from labelprism.distributed.spread_routing import Router, Routing
from labelprism.distributed.spread_tasks import (
    Leaf,
    asks_of,
    at_medians,
    at_places,
    begun,
    chosen_routers,
    directed,
    facts_of,
    finished,
    frames_of,
    leaf_of,
    masses_of,
    median_begun,
    median_narrowed,
    next_states,
    on_members,
    on_questions,
    on_routers,
    partly_summed,
    repeated,
    routed,
    shares_of,
    sizes_of,
    total_of,
)
from labelprism.distributed.sums import FAN_IN
from labelprism.filters import SpectralForest

PHASE = "spread-growth"
_STEPS_OF_ROUND = (2, 3)  # of L-BFGS: in all rounds but the last, and in the last
_MANY_ROWS, _DIRECTIONS, _BALANCED = 1000, 8, 0.2  # as in forest_growth.cpp
_BYTES_OF_FEATURE, _BYTES_OF_LABEL = 270, 150  # what a worker sends and gets for each of them at one node, about
_CHUNKS_OF_SENDER = FAN_IN**2  # whose sums are made where they are, and travel as one
_MOST_ASKED = 32  # chunks, of which one task asks all that a thread has to do with
_FEWEST = 1 << 15  # features and labels: a router of fewer than there are must know that many at least


@dataclass(frozen=True)
class SpreadLimits:
    """Which nodes stay spread. Numbers of workers do not matter: the same chunks give the same trees.

    Parameters
    ----------
    chunks_of_rows : float
        Nodes of more rows than so many chunks have stay spread,
    traffic : float
        as long as the sums at all levels together are no more than so many times the rows themselves.
    """

    chunks_of_rows: float = 2.5
    traffic: float = 1.5


class NodeSize(NamedTuple):
    """How much of the data reaches a node: rows, and the bytes of their features and labels."""

    n_rows: int
    n_bytes: int


@dataclass(eq=False)
class TopNode:
    """A node of the top of a tree, or the root of a subtree that grows elsewhere.

    Parameters
    ----------
    key : int
    depth : int
    size : NodeSize
    members : list of futures
        For each chunk the `Members` of all nodes of the level,
    place : int
        and the place of this node among them.
    """

    key: int
    depth: int
    size: NodeSize
    members: list[Any]
    place: int
    router: Router | None = None
    children: list[TopNode] = field(default_factory=list)
    leaf: Leaf | None = None


class SpreadGrowth:
    """Grows the top of the trees.

    Parameters
    ----------
    cluster : Cluster
    chunks : Chunks
    forest : SpectralForest
        Its parameters; not fitted.
    limits : SpreadLimits
    """

    def __init__(self, cluster: Cluster, chunks: Chunks, forest: SpectralForest, limits: SpreadLimits) -> None:
        self.cluster, self.chunks, self.forest, self.limits = cluster, chunks, forest, limits
        noise = forest.growth_noise if forest.routing == "fractional" else 0.0
        self.routing = Routing(noise, forest.prune_below)
        n_rows, n_chunks = int(chunks.first_rows[-1]), len(chunks.futures)
        self.most_rows = limits.chunks_of_rows * n_rows / n_chunks
        n_levels = max(int(np.ceil(np.log2(max(n_rows / self.most_rows, 1.0)))), 1)
        self.share_of_bytes = limits.traffic / n_levels
        self.n_senders = max(-(-n_chunks // _CHUNKS_OF_SENDER), min(n_chunks, FAN_IN))
        # Many chunks are asked one by one, since their sums have to be made in many places.
        self.askers = cluster.groups(chunks.futures) if n_chunks <= _MOST_ASKED else None

    def grow(self, roots: list[TopNode]) -> list[TopNode]:
        """Grow all that is spread, below the roots, and return the nodes whose subtrees are to grow elsewhere."""
        owned: list[TopNode] = []
        level = roots
        with ProgressBar(None, "growing the top of the trees", "levels") as bar:
            while level:
                spread = [top for top in level if self.stays_spread(top.size)]
                owned += [top for top in level if top not in spread]
                level = _Level(self, spread).children(owned) if spread else []
                bar.advance()
        return owned

    def stays_spread(self, size: NodeSize) -> bool:
        """Tell whether a node of some size should stay spread, as far as that can be told before it is counted."""
        d, c = self.chunks.shape
        is_large = size.n_rows > self.most_rows
        counting = self.n_senders * (8 * d + 4 * c)
        can_spread = self.forest.solver == "sketch" and self.forest.refine_rounds > 0
        return can_spread and is_large and counting <= self.share_of_bytes * size.n_bytes

    def rooms(self, top: TopNode, n_features: int, n_labels: int) -> tuple[int, int] | None:
        """Return how many features and labels the sums of a node may have; None where it should not be spread."""
        room = self.share_of_bytes * top.size.n_bytes / self.n_senders
        wanted = _BYTES_OF_FEATURE * n_features + _BYTES_OF_LABEL * n_labels
        share = min(room / max(wanted, 1), 1.0)
        rooms = int(share * n_features), int(share * n_labels)
        is_enough = rooms[0] >= min(n_features, _FEWEST) and rooms[1] >= min(n_labels, _FEWEST)
        return rooms if is_enough else None


class _Level:
    """The spread nodes of a level; `members` and `places` say where their examples are."""

    def __init__(self, growth: SpreadGrowth, nodes: list[TopNode]) -> None:
        self.growth, self.nodes = growth, nodes
        self.cluster, self.forest = growth.cluster, growth.forest

    def children(self, owned: list[TopNode]) -> list[TopNode]:
        """Split the nodes and return their children; those that should not be spread join `owned`."""
        counts = self._counted(self.nodes)
        facts = self.cluster.fetch(PHASE, self._submit("facts", facts_of, counts, self.forest))
        to_split, rooms, places = [], [], []
        for place, (top, (is_worth, n_features, n_labels)) in enumerate(zip(self.nodes, facts, strict=True)):
            if not is_worth or top.depth >= self.forest.max_depth:
                top.leaf = self._leaf(counts, place)
                continue
            room = self.growth.rooms(top, n_features, n_labels)
            if room is None:
                owned.append(top)
                continue
            to_split.append(top)
            rooms.append(room)
            places.append(place)
        if not to_split:
            return []
        routers, shares = _Splitting(self, to_split, counts, places, rooms).routers()
        for top, place, share in zip(to_split, places, shares, strict=True):
            if not (share > 0 and share >= self.forest.smallest_share):
                top.leaf = self._leaf(counts, place)
        kept = [i for i, top in enumerate(to_split) if top.leaf is None]
        return self._routed([to_split[i] for i in kept], [places[i] for i in kept], counts, routers, kept)

    def _counted(self, nodes: list[TopNode]) -> Any:
        """Return the future of the counts of nodes. All roots have the same examples, which are counted once."""
        counts = self._total("count", nodes[:1] if nodes[0].depth == 0 else nodes, on_members, node.count)
        return self._submit("count-roots", repeated, counts, len(nodes)) if nodes[0].depth == 0 else counts

    def _leaf(self, counts: Any, place: int) -> Leaf:
        leaf: Leaf = self.cluster.fetch(PHASE, self._submit("leaf", leaf_of, counts, place, self.forest.drop_share))
        return leaf

    def _routed(
        self, nodes: list[TopNode], places: list[int], counts: Any, routers: Any, kept: list[int]
    ) -> list[TopNode]:
        """Send the examples of nodes to their children, which are returned."""
        if not nodes:
            return []
        first_rows = self.growth.chunks.first_rows
        chosen = self._submit("routers", at_places, routers, kept)
        keys = [top.key for top in nodes]
        sides = [
            self._submit(
                "route", routed, chunk, *self._members_of(k, nodes), chosen, keys, int(first), self.growth.routing
            )
            for k, (chunk, first) in enumerate(zip(self.growth.chunks.futures, first_rows[:-1], strict=True))
        ]
        found = [
            self._submit("size", sizes_of, chunk, side)
            for chunk, side in zip(self.growth.chunks.futures, sides, strict=True)
        ]
        sizes = np.array(self.cluster.fetch(PHASE, found)).sum(axis=0)  # (n_children, 2)
        finished: list[Router] = self.cluster.fetch(PHASE, chosen)
        below = []
        for i, (top, router) in enumerate(zip(nodes, finished, strict=True)):
            if not sizes[2 * i : 2 * i + 2, 0].all():  # chance may leave a side empty
                top.leaf = self._leaf(counts, places[i])
                continue
            top.router = router
            top.children = [
                TopNode(
                    *(child_key(top.key, side), top.depth + 1, NodeSize(*map(int, sizes[2 * i + side]))),
                    *(sides, 2 * i + side),
                )
                for side in range(2)
            ]
            below += top.children
        return below

    def _members_of(self, k: int, nodes: list[TopNode]) -> tuple[Any, list[int]]:
        """Return the future that holds the members of nodes of this level in a chunk, and their places in it."""
        return nodes[0].members[k], [top.place for top in nodes]

    def _parts(self, step: str, nodes: list[TopNode], function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return the futures of what each chunk says of nodes."""
        return [
            self._submit(step, function, chunk, *self._members_of(k, nodes), *arguments)
            for k, chunk in enumerate(self.growth.chunks.futures)
        ]

    def _total(self, step: str, nodes: list[TopNode], function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of the sum of what all chunks say of nodes."""
        return self._submit(f"{step}-total", total_of, *self._sums(step, nodes, function, *arguments))

    def _sums(
        self, step: str, nodes: list[TopNode], function: Callable[..., Any], *arguments: Any
    ) -> tuple[list[Any], int | None]:
        """Return the futures of a few sums of what chunks say of nodes, for `spread_tasks.total_of`."""
        growth, places = self.growth, [top.place for top in nodes]
        if growth.askers is None:
            return self.cluster.subtotals(PHASE, step, self._parts(step, nodes, function, *arguments)), None
        n_chunks, sums = len(growth.chunks.futures), []
        for home, own in growth.askers:
            chunks, members = [growth.chunks.futures[k] for k in own], [nodes[0].members[k] for k in own]
            asked = (own, n_chunks, chunks, members, places, function, *arguments)
            sums.append(self._submit(step, partly_summed, *asked, home=home))
        return sums, n_chunks

    def _submit(self, step: str, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Any:
        return self.cluster.submit(PHASE, step, function, *arguments, first=True, home=home)


class _Splitting:
    """The search for the routers of some nodes of a level."""

    def __init__(
        self, level: _Level, nodes: list[TopNode], counts: Any, places: list[int], rooms: list[tuple[int, int]]
    ) -> None:
        self.level, self.nodes, self.forest = level, nodes, level.forest
        self.submit = level._submit
        keys = [top.key for top in nodes]
        states = self.submit("begin", begun, counts, places, keys, self.forest.min_feature_rows, rooms)
        self.sketched = self._sketched(states)

    def routers(self) -> tuple[Any, list[float]]:
        """Return the future of the best router of each node, and the shares of the smaller sides.

        The best direction may be that of a few examples unlike all others: large nodes try further ones while the
        smaller side is too small, and in the end the median; see forest_growth.cpp.
        """
        n = len(self.nodes)
        tries: list[Any] = []
        best = [(-1, 0, 0.0)] * n  # which try, the place in it, the share
        left = list(range(n))
        for rank in range(_DIRECTIONS):
            best_of = self._tried(left, rank)
            best = self._improved(best, left, *best_of, tries)
            left = [i for i in left if best[i][2] < _BALANCED and self.nodes[i].size.n_rows >= _MANY_ROWS]
            if not left:
                break
        stuck = [
            i for i in range(n) if best[i][2] < self.forest.smallest_share and self.nodes[i].size.n_rows >= _MANY_ROWS
        ]
        if stuck:
            best = self._improved(best, stuck, *self._at_median(stuck), tries)
        chosen = [(max(which, 0), place) for which, place, _ in best]
        return self.submit("choose", chosen_routers, tries, chosen), [share for *_, share in best]

    def _improved(
        self,
        best: list[tuple[int, int, float]],
        tried: list[int],
        routers: Any,
        shares: Sequence[float],
        tries: list[Any],
    ) -> list[tuple[int, int, float]]:
        tries.append(routers)
        best = list(best)
        for place, (i, share) in enumerate(zip(tried, shares, strict=True)):
            if share > best[i][2]:
                best[i] = (len(tries) - 1, place, share)
        return best

    def _sketched(self, states: Any) -> Any:
        frames = self.submit("frames", frames_of, states)
        for step in range(self.forest.sketch_steps):
            states = self._round("sketch", states, frames, self.nodes, node.features_of_codes, (), node.after_features)
            is_last = step + 1 == self.forest.sketch_steps
            states = self._round(
                "sketch", states, frames, self.nodes, node.labels_of_features, (is_last,), node.after_labels, is_last
            )
        return states

    def _refined(self, nodes: list[TopNode], states: Any) -> Any:
        """Return the states of nodes after all rounds of votes and classifiers."""
        frames = self.submit("frames", frames_of, states)
        cost = self.forest.refine_cost
        for turn in range(self.forest.refine_rounds):
            states = self._round("sides", states, frames, nodes, node.sides_of_labels, (), node.after_sides, turn > 0)
            frames = self.submit("frames", frames_of, states)
            for step in range(_STEPS_OF_ROUND[turn + 1 == self.forest.refine_rounds]):
                states = self._round(
                    "gradient", states, frames, nodes, node.gradient, (cost, step == 0), node.after_gradient
                )
                states = self._round("search", states, frames, nodes, node.search, (cost,), node.after_search)
        return states

    def _tried(self, left: list[int], rank: int) -> tuple[Any, list[float]]:
        """Return the routers of some nodes by a direction of the sketch, and the shares of their smaller sides."""
        nodes = [self.nodes[i] for i in left]
        states = self.submit("direction", directed, self.sketched, left, rank)
        routers = self.submit("finish", finished, self._refined(nodes, states), self.forest.drop_weight)
        return routers, self._shares(nodes, routers)

    def _shares(self, nodes: list[TopNode], routers: Any) -> list[float]:
        noise = self.level.growth.routing.noise
        sums = self.level.cluster.fetch(PHASE, self.level._total("share", nodes, shares_of, routers, noise))
        return [min(right, mass - right) / mass for right, mass in sums]

    def _at_median(self, stuck: list[int]) -> tuple[Any, list[float]]:
        """Return the routers by the best direction, split at the median of the margins, and their shares."""
        nodes = [self.nodes[i] for i in stuck]
        states = self.submit("direction", directed, self.sketched, stuck, 0)
        routers = self.submit("finish", finished, self._refined(nodes, states), self.forest.drop_weight)
        ranges = self.level._parts("range", nodes, on_routers, routing.margin_range, routers)
        masses = self.submit("mass", masses_of, states)
        search = self.submit("median", median_begun, ranges, masses)
        for _ in range(routing.MEDIAN_ROUNDS):
            histograms = self.level._total("histogram", nodes, on_routers, routing.histogram, routers, search)
            search = self.submit("median", median_narrowed, search, histograms)
        routers = self.submit("median", at_medians, routers, search)
        return routers, self._shares(nodes, routers)

    def _round(
        self, step: str, states: Any, frames: Any, nodes: list[TopNode], of_chunk: Callable[..., Any],
        arguments: tuple[Any, ...], of_sums: Callable[..., Any], *more: Any,
    ) -> Any:  # fmt: skip
        """Ask all chunks, add up what they say, and return the states that follow."""
        asks = self.submit("ask", asks_of, states)
        sums = self.level._sums(step, nodes, on_questions, of_chunk, frames, asks, *arguments)
        return self.submit(f"{step}-next", next_states, of_sums, states, *sums, *more)
