"""Growing the tree, level by level (section 3.4 of the paper).

All nodes of a level are solved together: in parallel where they are many, each with parallel products where they are
few. A node becomes a leaf at the depth limit, when its k heaviest labels hold the target share of its label mass, when
too little mass is left, or when there is nothing to split by.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int64, csr_parts
from labelprism._progress import ProgressBar
from labelprism.filters.base import keep_entries, largest_entries
from labelprism.filters.node import Examples, Features, Splits
from labelprism.filters.routing import Pruning, children, noise_of, probability_right
from labelprism.filters.validation import Monitor

Float64 = npt.NDArray[np.float64]

SMALLEST_MASS = 2.0
"""A node of less mass than two examples have, by their mean weight or by weight 1, is a leaf."""

_NO_CHILD = -1


@dataclass(frozen=True)
class GrowthSettings:
    """The parameters of `SpectralTree` that growth needs; see there."""

    n_candidates: int
    max_depth: int
    target_recall: float
    routing: Literal["fractional", "hard"]
    noise: Literal["paper", "sqrt"]
    bias: Literal["median", "zero"]
    macro: bool
    pruning: Pruning
    solver: _core.SpectralSettings
    verbose: bool


class Labels(NamedTuple):
    """The labels, for counting and for splitting."""

    all: sp.csr_array
    """Y, (n, c)."""
    split: sp.csr_array
    """Y without the head labels, which the eigenproblem does not see."""
    head: Int64
    """The head labels: candidates everywhere."""
    frequency: Float64
    """The weight of the examples of each label, (c,)."""


@dataclass
class GrownTree:
    """A tree as it grows: one entry a node, the root first, children after their parents."""

    child: list[int] = field(default_factory=list)
    """The left child; the right one follows it. -1 for a leaf."""
    depth: list[int] = field(default_factory=list)
    bias: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    eigenvalue: list[float] = field(default_factory=list)
    mass: list[float] = field(default_factory=list)
    purity: list[float] = field(default_factory=list)
    balance: list[float] = field(default_factory=list)
    routers: list[sp.csr_array] = field(default_factory=list)
    """The routers of each level, in the order of the nodes; leaves have none."""
    split_nodes: list[Int64] = field(default_factory=list)
    """The nodes that the rows of `routers` belong to."""
    candidates: list[tuple[Int64, sp.csr_array, Float64]] = field(default_factory=list)
    """Leaves, the counts of their candidates, and the counts of all their labels together."""
    heaviest: list[npt.NDArray[np.int32]] = field(default_factory=list)
    """The heaviest labels of all nodes, level by level, -1 where there are fewer."""

    def add_nodes(self, count: int, depth: int) -> None:
        """Append nodes, as leaves for now."""
        self.child += [_NO_CHILD] * count
        self.depth += [depth] * count
        for values in (self.bias, self.noise, self.eigenvalue, self.mass):
            values += [0.0] * count
        for values in (self.purity, self.balance):
            values += [np.nan] * count


class BestLeaves:
    """For each label the leaf that most of its examples reach, to find a home for orphans."""

    def __init__(self, n_labels: int) -> None:
        self.count = np.zeros(n_labels, np.float32)
        self.leaf = np.full(n_labels, -1, np.int64)

    def update(self, leaves: Int64, counts: sp.csr_array) -> None:
        """Take the label counts of further leaves into account; of equals the first leaf stays."""
        before = self.count.copy()
        np.maximum.at(self.count, counts.indices, counts.data)
        leaf_of_entry = np.repeat(leaves, np.diff(counts.indptr))
        record = (counts.data == self.count[counts.indices]) & (counts.data > before[counts.indices])
        self.leaf[counts.indices[record][::-1]] = leaf_of_entry[record][::-1]

    def copy(self) -> BestLeaves:
        """Return a copy that further updates leave alone."""
        other = BestLeaves(0)
        other.count, other.leaf = self.count.copy(), self.leaf.copy()
        return other


class Grower:
    """Grows one tree.

    Parameters
    ----------
    features : Features
        X.
    labels : Labels
        Y.
    sample_weight : float32 array of shape (n,)
        The weight of each example at the root.
    settings : GrowthSettings
    monitor : Monitor, optional
        Watches the recall on held-out examples.
    """

    N_HEAVIEST = 20

    def __init__(
        self,
        features: Features,
        labels: Labels,
        sample_weight: Float32,
        settings: GrowthSettings,
        monitor: Monitor | None = None,
    ) -> None:
        self.features = features
        self.labels = labels
        self.sample_weight = sample_weight
        self.settings = settings
        self.monitor = monitor
        self.tree = GrownTree()
        self.best_leaves = BestLeaves(labels.all.shape[1])
        self.smallest_mass = SMALLEST_MASS * min(1.0, float(sample_weight.mean(dtype=np.float64)))

    def grow(self) -> GrownTree:
        """Grow from the root until every node is a leaf."""
        n = self.features.n_rows
        examples = Examples(np.arange(n, dtype=np.int32), np.ones(n, np.float32), np.array([0, n]))
        nodes = np.zeros(1, np.int64)
        self.tree.add_nodes(1, depth=0)
        with ProgressBar(self.settings.max_depth + 1, "growing the tree", "levels") as bar:
            for depth in range(self.settings.max_depth + 1):
                examples, nodes = self._grow_level(examples, nodes, depth)
                bar.advance()
                if not nodes.size:
                    break
        return self.tree

    def _grow_level(self, examples: Examples, nodes: Int64, depth: int) -> tuple[Examples, Int64]:
        """Make leaves of some nodes and split the others; return the children with their examples."""
        weight = self._example_weight(examples)
        counts = self._label_counts(examples, weight)
        self.tree.heaviest.append(_core.top_k_csr(*csr_parts(counts), self.N_HEAVIEST, self.features.n_threads)[0])
        if self.settings.macro:
            counts.data /= self.labels.frequency[counts.indices].astype(np.float32)
        chosen = self._choose(counts)
        label_mass = _sum_by_node(counts.data.astype(np.float64), counts.indptr)
        mass = _sum_by_node(weight.astype(np.float64), examples.offsets)
        for node, value in zip(nodes.tolist(), mass.tolist(), strict=True):
            self.tree.mass[node] = value
        if self.monitor is not None:
            self._watch(nodes, counts, chosen, label_mass, depth)

        covered = _sum_by_node(chosen.data.astype(np.float64), chosen.indptr)
        unfinished = (mass >= self.smallest_mass) & (covered < self.settings.target_recall * label_mass)
        splits = np.flatnonzero(unfinished & (depth < self.settings.max_depth))
        next_examples, next_nodes, split = self._split(examples, nodes, splits, depth)
        is_leaf = np.ones(nodes.size, bool)
        is_leaf[split] = False
        leaves = np.flatnonzero(is_leaf)
        self.tree.candidates.append((nodes[leaves], chosen[leaves], label_mass[leaves]))
        self.best_leaves.update(nodes[leaves], counts[leaves])
        return next_examples, next_nodes

    def _example_weight(self, examples: Examples) -> Float32:
        return self.sample_weight[examples.rows] * examples.probability

    def _label_counts(self, examples: Examples, weight: Float32) -> sp.csr_array:
        """Return the expected label counts of each node."""
        Y = self.labels.all
        parts = csr_parts(Y)
        indptr, indices, data = _core.label_counts(
            parts.indptr, parts.indices, Y.shape[1], examples.rows, weight, examples.offsets, self.features.n_threads
        )
        return sp.csr_array((data, indices, indptr), shape=(examples.offsets.size - 1, Y.shape[1]))

    def _choose(self, counts: sp.csr_array) -> sp.csr_array:
        """Return the counts of the candidates of each node: the head labels, and the heaviest others up to k."""
        head = self.labels.head
        if not head.size:
            return largest_entries(counts, self.settings.n_candidates, self.features.n_threads)
        is_head = np.zeros(counts.shape[1], bool)
        is_head[head] = True
        n_tail = self.settings.n_candidates - head.size
        tail = keep_entries(counts, ~is_head[counts.indices])
        if n_tail > 0:
            tail = largest_entries(tail, n_tail, self.features.n_threads)
        else:
            tail = sp.csr_array(counts.shape, dtype=np.float32)
        rows = np.repeat(np.arange(counts.shape[0]), head.size)
        columns = np.tile(np.sort(head), counts.shape[0])
        present = keep_entries(counts, is_head[counts.indices])
        values = np.asarray(present[rows, columns], np.float32).ravel()
        return _merged(tail, sp.csr_array((values, (rows, columns)), counts.shape))

    def _split(self, examples: Examples, nodes: Int64, splits: Int64, depth: int) -> tuple[Examples, Int64, Int64]:
        """Solve some nodes of a level; return the children's examples and ids, and which nodes were split."""
        if not splits.size:
            return examples.take(splits), np.zeros(0, np.int64), splits
        wanted = examples.take(splits)
        weight = self._example_weight(wanted)
        solved = self.features.solve_nodes(self.labels.split, wanted, weight, nodes[splits], self.settings.solver)
        if not np.isfinite(solved.eigenvalue).all():
            raise ValueError("the values of X or sample_weight are too large to compute with; scale them to about 1")
        noise = self._noise(solved)
        bias = solved.bias if self.settings.bias == "median" else np.zeros_like(solved.bias)
        sizes = np.diff(wanted.offsets)
        right = probability_right(solved.margins, np.repeat(bias, sizes), np.repeat(noise, sizes))
        share = _sum_by_node(weight * right, wanted.offsets) / solved.mass
        followed = children(wanted, right, nodes[splits], self.settings.pruning)
        # A direction that is but rounding has an eigenvalue of 0; and pruning may leave a child without examples.
        reached = (np.diff(followed.offsets).reshape(-1, 2) > 0).all(axis=1)
        works = np.flatnonzero((solved.eigenvalue > 0) & reached)
        kept = wanted.take(works)
        right = right[np.repeat(np.isin(np.arange(sizes.size), works), sizes)]
        first_child = len(self.tree.child)
        self._record_splits(nodes[splits[works]], solved, works, bias, noise, share, self._purity(kept, right))
        self.tree.add_nodes(2 * works.size, depth + 1)
        next_examples = followed.take(np.stack([2 * works, 2 * works + 1], axis=1).ravel())
        return next_examples, first_child + np.arange(2 * works.size), splits[works]

    def _noise(self, solved: Splits) -> Float64:
        if self.settings.routing == "hard":
            return np.zeros_like(solved.eigenvalue)
        return noise_of(solved.eigenvalue, solved.mass, self.settings.noise)

    def _purity(self, examples: Examples, right: Float64) -> Float64:
        """Return the purity of each split, as `metrics.purity` defines it, by expected counts."""
        weight = self._example_weight(examples)
        total = self._label_counts(examples, weight)
        to_right = self._label_counts(examples, (weight * right).astype(np.float32))
        larger = np.maximum(to_right.data, total.data - to_right.data).astype(np.float64)
        sums = _sum_by_node(total.data.astype(np.float64), total.indptr)
        return np.asarray(_sum_by_node(larger, total.indptr) / np.where(sums > 0, sums, 1))

    def _record_splits(
        self, nodes: Int64, solved: Splits, works: Int64, bias: Float32, noise: Float64, share: Float64, purity: Float64
    ) -> None:
        tree, first_child = self.tree, len(self.tree.child)
        for position, (node, which) in enumerate(zip(nodes.tolist(), works.tolist(), strict=True)):
            tree.child[node] = first_child + 2 * position
            tree.bias[node] = float(bias[which])
            tree.noise[node] = float(noise[which])
            tree.eigenvalue[node] = float(solved.eigenvalue[which])
            tree.balance[node] = float(max(share[which], 1 - share[which]))
            tree.purity[node] = float(purity[position])
        tree.routers.append(solved.routers[works])
        tree.split_nodes.append(nodes)
        if self.monitor is not None:
            self.monitor.descend(nodes, tree, solved.routers[works])

    def _watch(self, nodes: Int64, counts: sp.csr_array, chosen: sp.csr_array, label_mass: Float64, depth: int) -> None:
        assert self.monitor is not None
        improved = self.monitor.measure(nodes, chosen, depth)
        if self.settings.verbose:
            recall = 100 * self.monitor.recall_path[-1]
            print(f"depth {depth:2}: {nodes.size:6} nodes, hold-out recall {recall:.2f}%", file=sys.stderr)
        if improved:
            best = self.best_leaves.copy()
            best.update(nodes, counts)
            self.monitor.kept = (nodes, chosen, label_mass, best)


def _sum_by_node(values: Float64, offsets: npt.NDArray[np.int64]) -> Float64:
    """Return the sums of consecutive groups, which may be empty."""
    # The added 0 lets an empty group at the end begin somewhere; what reduceat gives for an empty group is undone.
    sums = np.add.reduceat(np.append(values, 0.0), offsets[:-1])
    return np.where(np.diff(offsets) > 0, sums, 0.0)


def _merged(one: sp.csr_array, other: sp.csr_array) -> sp.csr_array:
    """Return a matrix with the entries of both, which have none in common; entries of 0 stay stored."""
    rows = np.concatenate([np.repeat(np.arange(m.shape[0]), np.diff(m.indptr)) for m in (one, other)])
    columns = np.concatenate([one.indices, other.indices])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=one.shape[0]))])
    data = np.concatenate([one.data, other.data])[order]
    return sp.csr_array((data, columns[order], indptr), shape=one.shape)
