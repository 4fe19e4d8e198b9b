"""Labels of every node, counted from the leaves up, one level at a time: the counts of all nodes are never held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, csr_parts
from labelprism.explore.structure import Nodes
from labelprism.filters.base import largest_entries, take_rows

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


class LeafCounts(NamedTuple):
    """What leaves hold.

    Attributes
    ----------
    held : csr_array of shape (n_leaves, c)
        How often the leaf's candidates occurred there in training, sorted, above 0.
    mass : float64 array of shape (n_leaves,)
        The labels that came to the leaf in training, candidates or not.
    candidates : csr_array of shape (n_leaves, c)
        Ones at the candidates, of which some may not have occurred in training.
    seen : csr_array of shape (n_leaves, c), or None
        How often labels of other examples came to the leaf, if there are such.
    """

    held: sp.csr_array
    mass: Float64
    candidates: sp.csr_array
    seen: sp.csr_array | None


@dataclass(frozen=True)
class NodeLabels:
    """The labels of every node, in numbers.

    Parameters
    ----------
    top, top_count : int32 and float32 arrays of shape (n_nodes, n_top)
        The most frequent labels with their counts; -1 where there are fewer.
    grown, lift : int32 and float32 arrays of shape (n_nodes, n_top)
        The labels that are most over-represented against the parent, by p log(lift), so that a label that occurs once
        does not lead; and their lift, the ratio of their shares here and in the parent. -1 where there are fewer.
    n_labels : int64 array of shape (n_nodes,)
        How many labels are held.
    purity : float64 array of shape (n_nodes,)
        Of the split, on what was seen, or else on what the leaves hold; nan for leaves.
    tail_share, head_share : float64 arrays of shape (n_nodes,)
        The shares of rare and of frequent labels in what is held.
    recall_by_depth : float64 array of shape (n_trees, max_depth + 1)
        The share of the labels that would be candidates if the tree ended at a depth; nan where there were none.
    """

    top: Int32
    top_count: Float32
    grown: Int32
    lift: Float32
    n_labels: Int64
    purity: Float64
    tail_share: Float64
    head_share: Float64
    recall_by_depth: Float64


def count_labels(
    nodes: Nodes, leaves: LeafCounts, is_tail: Bool, is_head: Bool, n_top: int, budget: int, n_seen: Float64 | None
) -> NodeLabels:
    """Count the labels of every node.

    Parameters
    ----------
    nodes : Nodes
    leaves : LeafCounts
    is_tail, is_head : bool arrays of shape (c,)
        Which labels are rare and which are frequent.
    n_top : int
        How many labels of each kind to keep of a node.
    budget : int
        How many candidates an inner node would have, if it were a leaf.
    n_seen : float64 array of shape (n_leaves,), optional
        How many labels were seen in the leaf, those that the model does not know included; with `seen` only.
    """
    counter = _Counter(nodes, leaves, n_top, budget)
    counter.run()
    held = nodes.summed(np.asarray(leaves.held.sum(axis=1)).ravel())
    tail_share, head_share = (
        _ratio(nodes.summed(leaves.held @ group.astype(np.float64)), held) for group in (is_tail, is_head)
    )
    return NodeLabels(
        top=counter.top,
        top_count=counter.top_count,
        grown=counter.grown,
        lift=counter.lift,
        n_labels=counter.n_labels,
        purity=counter.purity,
        tail_share=tail_share,
        head_share=head_share,
        recall_by_depth=counter.recall_by_depth(leaves.mass if n_seen is None else n_seen),
    )


class _Counter:
    """The walk from the deepest level to the roots."""

    def __init__(self, nodes: Nodes, leaves: LeafCounts, n_top: int, budget: int) -> None:
        self.nodes, self.leaves, self.n_top, self.budget = nodes, leaves, n_top, budget
        n = nodes.children.size
        self.top, self.grown = (np.full((n, n_top), -1, np.int32) for _ in range(2))
        self.top_count, self.lift = (np.zeros((n, n_top), np.float32) for _ in range(2))
        self.n_labels = np.zeros(n, np.int64)
        self.purity, self.found = np.full(n, np.nan), np.zeros(n)
        self.mass = nodes.summed(leaves.mass)
        self.leaf_of_node = np.full(n, -1, np.int64)
        self.leaf_of_node[nodes.leaf_nodes] = np.arange(nodes.leaf_nodes.size)

    def run(self) -> None:
        """Visit every level."""
        empty = sp.csr_array((0, self.leaves.held.shape[1]))
        held_above, seen_above = empty, empty
        for level in reversed(self.nodes.levels):
            held = self._rows(level, held_above, self.leaves.held)
            seen = None if self.leaves.seen is None else self._rows(level, seen_above, self.leaves.seen)
            self._note_top(level, held)
            self._note_found(level, held, held if seen is None else seen)
            if self.nodes.parent[level[0]] < 0:
                return
            above = self.nodes.parent[level[::2]]
            held_above, held_apart = _joined(held)
            self._note_grown(level, held, held_above)
            if seen is None:
                self.purity[above] = _purity(held_above, held_apart)
            else:
                seen_above, seen_apart = _joined(seen)
                self.purity[above] = _purity(seen_above, seen_apart)

    def _rows(self, level: Int64, inner: sp.csr_array, leaves: sp.csr_array) -> sp.csr_array:
        """Return the counts of the nodes of a level, of which those of the inner ones are known already."""
        is_inner = self.nodes.children[level] >= 0
        rows = sp.csr_array(sp.vstack([inner, take_rows(leaves, self.leaf_of_node[level[~is_inner]])], format="csr"))
        place = np.empty(level.size, np.int64)
        place[is_inner] = np.arange(inner.shape[0])
        place[~is_inner] = inner.shape[0] + np.arange(level.size - inner.shape[0])
        return take_rows(rows, place)

    def _note_top(self, level: Int64, held: sp.csr_array) -> None:
        self.n_labels[level] = np.diff(held.indptr)
        self.top[level], counts = _best(held, self.n_top)
        self.top_count[level] = np.where(self.top[level] >= 0, counts, 0)

    def _note_grown(self, level: Int64, held: sp.csr_array, above: sp.csr_array) -> None:
        lengths = np.diff(held.indptr)
        share = held.data / np.repeat(np.maximum(self.mass[level], 1e-300), lengths)
        # The product has exactly the entries of `held`, because a parent has all labels of its children.
        product = held.multiply(take_rows(above, np.repeat(np.arange(above.shape[0]), 2))).tocsr()
        mass_above = np.maximum(self.mass[self.nodes.parent[level]], 1e-300)
        lift = share / (product.data / held.data / np.repeat(mass_above, lengths))
        gain = sp.csr_array((share * np.log(lift), held.indices, held.indptr), shape=held.shape)
        labels, gains = _best(gain, self.n_top)
        labels = np.where(gains > 0, labels, -1)
        values = np.zeros(labels.shape, np.float32)
        row, column = np.nonzero(labels >= 0)
        values[row, column] = lift[_stored_at(held, row, labels[row, column])]
        self.grown[level], self.lift[level] = labels, values

    def _note_found(self, level: Int64, held: sp.csr_array, seen: sp.csr_array) -> None:
        """Note how many of the labels that come to a node are candidates, or would be if it were a leaf."""
        best = largest_entries(_as_float32(held), self.budget)
        inner = take_rows(best, np.flatnonzero(self.nodes.children[level] >= 0))
        chosen = self._rows(level, inner, self.leaves.candidates)
        ones = sp.csr_array((np.ones(chosen.nnz), chosen.indices, chosen.indptr), shape=chosen.shape)
        self.found[level] = np.asarray(seen.multiply(ones).sum(axis=1)).ravel()

    def recall_by_depth(self, n_labels: Float64) -> Float64:
        """Return the recall of each tree if it ended at each depth; `n_labels` came to the leaves."""
        nodes = self.nodes
        total = np.bincount(nodes.tree[nodes.leaf_nodes], n_labels, nodes.n_trees)
        recall = np.zeros((nodes.n_trees, len(nodes.levels)))
        at_leaves = np.zeros(nodes.n_trees)
        for depth, level in enumerate(nodes.levels):
            is_leaf = nodes.children[level] < 0
            at_leaves += np.bincount(nodes.tree[level[is_leaf]], self.found[level[is_leaf]], nodes.n_trees)
            inner = level[~is_leaf]
            recall[:, depth] = at_leaves + np.bincount(nodes.tree[inner], self.found[inner], nodes.n_trees)
        shares = _ratio(recall, np.repeat(total[:, None], recall.shape[1], axis=1))
        return np.minimum(shares, 1.0)


def _joined(counts: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Return sums and differences of rows 0 and 1, 2 and 3, and so on."""
    pair = np.arange(counts.shape[0] // 2)
    left, right = take_rows(counts, 2 * pair), take_rows(counts, 2 * pair + 1)
    return sp.csr_array(left + right), sp.csr_array(left - right)


def _purity(together: sp.csr_array, apart: sp.csr_array) -> Float64:
    """Return the shares of the larger halves: max(l, r) = (l + r + |l - r|) / 2."""
    total = np.asarray(together.sum(axis=1)).ravel()
    return _ratio((total + np.asarray(abs(apart).sum(axis=1)).ravel()) / 2, total)


def _best(table: sp.csr_array, k: int) -> tuple[Int32, Float32]:
    return _core.top_k_csr(*csr_parts(table), k, 1)


def _stored_at(table: sp.csr_array, rows: Int64, columns: Int32) -> Int64:
    """Return where entries of a sorted CSR matrix are stored; all places must have entries."""
    width = np.int64(table.shape[1])
    stored = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * width + table.indices
    return np.asarray(np.searchsorted(stored, rows * width + columns), np.int64)


def _as_float32(table: sp.csr_array) -> sp.csr_array:
    return sp.csr_array((table.data.astype(np.float32), table.indices, table.indptr), shape=table.shape)


def _ratio(part: Float64, whole: Float64) -> Float64:
    """Return quotients, nan where the divisor is 0."""
    quotient: Float64 = np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.asarray(whole) > 0)
    return quotient
