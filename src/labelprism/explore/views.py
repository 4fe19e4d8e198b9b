"""`TreeView`: the trees of a model in numbers, for pages, figures, pictures and tables alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, check_whole, csr_parts
from labelprism._views import seen_feature
from labelprism.estimator import PrismClassifier
from labelprism.explore.counting import LeafCounts, NodeLabels, count_labels
from labelprism.explore.examples import Reached, examples_of, filter_of, reached_leaves
from labelprism.explore.structure import Nodes, nodes_of
from labelprism.filters import Filter, SpectralTree
from labelprism.filters.base import keep_entries

Float64 = npt.NDArray[np.float64]

N_TOP = 12
N_FEATURES = 10  # half of them to each side
MEASURES = {
    "purity": "how far a split keeps the examples of each label together; 1 is ideal, 0.5 the worst",
    "balance": "the share of the larger side of a split; 0.5 is ideal, 1 the worst",
    "recall": "the share of the labels that are candidates of the leaf that their example comes to",
    "tail share": "the share of rare labels among the labels held",
}
"""What nodes can be coloured by, and what it means."""


class Routers(NamedTuple):
    """The strongest features of each router, (n_nodes, N_FEATURES): to the left, weights below 0, then to the right.

    Where there are fewer, features are -1.
    """

    features: Int32
    weights: Float32
    names: dict[int, str]


@dataclass(frozen=True, eq=False, repr=False)
class TreeView:
    """The trees of a model, node by node.

    Parameters
    ----------
    nodes : Nodes
    labels : NodeLabels
    routers : Routers
    mass : float64 array of shape (n_nodes,)
        The labels of the training examples that came to each node, with their weights.
    n_leaves : int64 array of shape (n_nodes,)
        The number of leaves below; 1 for leaves.
    balance, recall : float64 arrays of shape (n_nodes,)
        Of examples, where there were some; else of the labels that the leaves hold. nan where undefined.
    rows : float64 array of shape (n_nodes,), or None
        How many examples come to each node.
    held : csr_array of shape (n_leaves, c)
        How often each candidate occurred in each leaf in training; entries are above 0.
    n_candidates : int64 array of shape (n_leaves,)
        How many candidates each leaf has, of which some may not have occurred there.
    label_names : list of str
    label_counts : float64 array of shape (c,)
        The training examples of each label.
    groups : (int, int)
        The most examples of a rare label, and of one that is not frequent.
    budget : int
        How many candidates an inner node is given to measure `recall_by_depth`.
    n_rows : int
        How many examples were routed; 0 for none.
    filter_recall : float or None
        The share of the examples' labels among the candidates of all leaves and trees together.
    """

    nodes: Nodes
    labels: NodeLabels
    routers: Routers
    mass: Float64
    n_leaves: Int64
    balance: Float64
    recall: Float64
    rows: Float64 | None
    held: sp.csr_array
    n_candidates: Int64
    label_names: list[str]
    label_counts: Float64
    groups: tuple[int, int]
    budget: int
    n_rows: int
    filter_recall: float | None

    def __repr__(self) -> str:
        measured = f", measured on {self.n_rows:,} examples" if self.n_rows else ""
        sizes = f"{self.nodes.n_trees} trees, {self.nodes.leaf_nodes.size:,} leaves, {len(self.label_names):,} labels"
        return f"<TreeView: {sizes}{measured}>"

    def measure(self, name: str) -> Float64:
        """Return what nodes can be coloured by; nan where it is undefined.

        Parameters
        ----------
        name : {"purity", "balance", "recall", "tail share"}
        """
        if name not in MEASURES:
            raise ValueError(f"there is no measure {name!r}; there are {', '.join(MEASURES)}")
        found = {
            "purity": self.labels.purity,
            "balance": self.balance,
            "recall": self.recall,
            "tail share": self.labels.tail_share,
        }
        return found[name]

    def names(self, labels: Int32) -> list[str]:
        """Return the names of labels, up to the first -1."""
        return [self.label_names[label] for label in labels.tolist() if label >= 0]

    def title(self, node: int, n: int = 2) -> str:
        """Return what a node may be called: the labels that it has more of than its parent; for roots, the tree.

        Parameters
        ----------
        node : int
        n : int
            How many labels.
        """
        if self.nodes.parent[node] < 0:
            return f"tree {self.nodes.tree[node] + 1}"
        labels = self.labels.grown[node] if self.labels.grown[node, 0] >= 0 else self.labels.top[node]
        return " · ".join(self.names(labels[:n])) or f"node {node}"


def tree_view(
    model: PrismClassifier, data: Any = None, *, groups: tuple[int, int] = (10, 100), n_top: int = N_TOP
) -> TreeView:
    """Look at the trees of a model.

    Parameters
    ----------
    model : PrismClassifier
        Fitted.
    data : Dataset or (X, y), optional
        Examples to measure purity, balance and recall on. Without them these are what the leaves remember of training.
    groups : (int, int)
        Labels with at most so many training examples are rare, those with more than the second number frequent.
    n_top : int
        How many labels of each node to keep.
    """
    check_whole("n_top", n_top, 1, 1000)
    if len(groups) != 2 or not 0 <= groups[0] < groups[1]:
        raise ValueError(f"groups must be two ascending numbers, as (10, 100), got {groups!r}")
    filter = filter_of(model)
    examples = None if data is None else examples_of(model, data)
    reached = None if examples is None else reached_leaves(model, examples)
    return view_of(
        filter,
        _routers(model, filter),
        [str(name) for name in model.classes_.tolist()],
        np.asarray(model.class_prior_ * model._label_mass(), np.float64),
        reached=reached,
        n_rows=0 if examples is None else examples.Y.shape[0],
        groups=(int(groups[0]), int(groups[1])),
        n_top=n_top,
    )


def view_of(
    filter: Filter, routers: Routers, label_names: list[str], label_counts: Float64, *, reached: Reached | None = None,
    n_rows: int = 0, groups: tuple[int, int] = (10, 100), n_top: int = N_TOP,
) -> TreeView:  # fmt: skip
    """Return the view of a filter, with what is known beside it; see `TreeView`."""
    nodes = nodes_of(filter)
    leaves = _leaf_counts(filter, reached)
    mass, sizes = nodes.summed(leaves.mass), np.diff(leaves.candidates.indptr)
    budget = max(1, round(float(np.average(sizes, weights=leaves.mass if leaves.mass.sum() > 0 else None))))
    is_tail, is_head = label_counts <= groups[0], label_counts > groups[1]
    n_seen = None if reached is None else reached.n_labels
    labels = count_labels(nodes, leaves, is_tail, is_head, n_top, budget, n_seen)
    rows = None if reached is None else nodes.summed(reached.rows)
    balance = _balance(nodes, mass if rows is None else rows)
    if reached is None and isinstance(filter, SpectralTree):  # which has measured its splits itself, on examples
        labels, balance = replace(labels, purity=filter.purity_), filter.balance_
    return TreeView(
        nodes=nodes,
        labels=labels,
        routers=routers,
        mass=mass,
        n_leaves=nodes.summed(np.ones(nodes.leaf_nodes.size)).astype(np.int64),
        balance=balance,
        recall=_recall(nodes, leaves, n_seen),
        rows=rows,
        held=leaves.held,
        n_candidates=sizes.astype(np.int64),
        label_names=label_names,
        label_counts=label_counts,
        groups=groups,
        budget=budget,
        n_rows=n_rows,
        filter_recall=None if reached is None else reached.filter_recall,
    )


def _leaf_counts(filter: Filter, reached: Reached | None) -> LeafCounts:
    table = sp.csr_array(filter.leaf_candidates_)
    if not table.has_sorted_indices:
        table = table.copy()
        table.sort_indices()
    mass = np.asarray(filter.leaf_mass_, np.float64)
    counts = np.exp(table.data.astype(np.float64)) * np.repeat(mass, np.diff(table.indptr))
    held = sp.csr_array((counts, table.indices, table.indptr), shape=table.shape, copy=True)
    held.eliminate_zeros()
    ones = sp.csr_array((np.ones(table.nnz), table.indices, table.indptr), shape=table.shape)
    return LeafCounts(held, mass, ones, None if reached is None else reached.labels)


def _balance(nodes: Nodes, mass: Float64) -> Float64:
    balance = np.full(mass.size, np.nan)
    inner = np.flatnonzero((nodes.children >= 0) & (mass > 0))
    left = nodes.children[inner]
    balance[inner] = np.maximum(mass[left], mass[left + 1]) / mass[inner]
    return balance


def _recall(nodes: Nodes, leaves: LeafCounts, n_seen: Float64 | None) -> Float64:
    if leaves.seen is None:
        found, total = leaves.held.sum(axis=1), leaves.mass
    else:
        assert n_seen is not None
        found, total = leaves.seen.multiply(leaves.candidates).sum(axis=1), n_seen
    found, total = nodes.summed(np.asarray(found).ravel()), nodes.summed(total)
    share = np.divide(found, total, out=np.full(total.size, np.nan), where=total > 0)
    return np.asarray(np.minimum(share, 1.0), np.float64)  # shares of leaves are rounded


def _routers(model: PrismClassifier, filter: Filter) -> Routers:
    """Return the strongest features of the routers, with names as far as the model has any."""
    if not hasattr(filter, "routers_"):
        return Routers(np.full((1, N_FEATURES), -1, np.int32), np.zeros((1, N_FEATURES), np.float32), {})
    features, weights = strongest_features(sp.csr_array(filter.routers_))
    view = model.__dict__.get("filter_features_")
    own = np.unique(features[features >= 0]).astype(np.int64)
    numbers = [seen_feature(view, feature, model.n_features_in_) for feature in own.tolist()]
    known = np.array([number for number in numbers if number is not None], np.int32)
    names = iter(model._feature_names(known))
    found = {}
    for feature, number in zip(own.tolist(), numbers, strict=True):
        name = None if number is None else next(names)
        found[feature] = name or (f"feature {feature} made for F" if number is None else f"#{number}")
    return Routers(features, weights, found)


def strongest_features(routers: sp.csr_array) -> tuple[Int32, Float32]:
    """Return the features that send examples most strongly to the left, and those to the right.

    Parameters
    ----------
    routers : csr_array of shape (n_nodes, d)

    Returns
    -------
    int32 and float32 arrays of shape (n_nodes, N_FEATURES)
        -1 and 0 where there are fewer.
    """
    if not routers.has_sorted_indices:
        routers = routers.copy()
        routers.sort_indices()
    sides = []
    for sign in (-1, 1):
        side = keep_entries(routers, sign * routers.data > 0)
        side.data = np.abs(side.data)
        features, weights = _core.top_k_csr(*csr_parts(side), N_FEATURES // 2, 1)
        sides.append((features, np.where(features >= 0, sign * weights, 0)))
    features, weights = (np.concatenate(part, axis=1) for part in zip(*sides, strict=True))
    return np.asarray(features, np.int32), np.asarray(weights, np.float32)
