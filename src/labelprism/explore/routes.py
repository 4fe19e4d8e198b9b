"""Routing in numbers: how a node splits examples, and the ways of one example down a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from labelprism._arrays import Int64, check_whole
from labelprism.data.dataset import Dataset
from labelprism.estimator import PrismClassifier
from labelprism.explore.examples import examples_of, filter_of, rows_for_filter
from labelprism.explore.structure import Nodes, nodes_of
from labelprism.filters import Filter
from labelprism.filters.base import check_fit_input
from labelprism.filters.routing import probability_right
from labelprism.metrics import balance, purity

Float64 = npt.NDArray[np.float64]


# ----------------------------------------------------------------------------------------------------------- one node


@dataclass(frozen=True, eq=False, repr=False)
class NodeMargins:
    """What a node does with examples.

    Parameters
    ----------
    node : int
    path : str
        The turns from the root, as "LRL"; "" for a root.
    margins : float64 array of shape (n,)
        w.x of every example.
    reach : float64 array of shape (n,)
        The probability with which every example comes to the node.
    right : float64 array of shape (n,)
        The probability to go right from there: Phi((w.x - bias) / noise).
    bias, noise : float
        b, where the node splits, and sigma, the width of the Gaussian around an example.
    median : float
        The median of the margins, examples weighted by `reach`.
    purity, balance : float
        Of the split of these examples, as `labelprism.metrics` has them.
    labels : int64 array of shape (m,)
        The most frequent labels of the examples that come here, most frequent first.
    label_names : list of m str
    label_mean, label_right, label_mass : float64 arrays of shape (m,)
        Of each: the mean of w.x, the share that goes right, and how many examples.
    """

    node: int
    path: str
    margins: Float64
    reach: Float64
    right: Float64
    bias: float
    noise: float
    median: float
    purity: float
    balance: float
    labels: Int64
    label_names: list[str]
    label_mean: Float64
    label_right: Float64
    label_mass: Float64

    def __repr__(self) -> str:
        return f"<NodeMargins: node {self.node}, {self.reach.sum():,.0f} examples, {self.labels.size} labels>"


def node_margins(model: Any, data: Any, node: int = 0, *, n_labels: int = 12) -> NodeMargins:
    """Measure what a node does with examples.

    Parameters
    ----------
    model : PrismClassifier, SpectralTree or SpectralForest
        Fitted.
    data : Dataset or (X, y)
        Examples, as the model takes them.
    node : int, default=0
        An inner node; 0 is the root, and the next few are the roots of a forest's other trees.
    n_labels : int, default=12
        How many of the node's most frequent labels to measure.
    """
    check_whole("n_labels", n_labels, 1, 2**31 - 1)
    trees = _trees_of(model)
    nodes = trees.nodes
    check_whole("node", node, 0, nodes.children.size - 1)
    if nodes.children[node] < 0:
        above = (
            f"take its parent, node {nodes.parent[node]}" if nodes.parent[node] >= 0 else "its tree has no other node"
        )
        raise ValueError(f"node {node} is a leaf, where nothing is split; {above}")
    X, Y, names = trees.examples(data)
    reach = np.ones(X.shape[0])
    for turn, goes_right in _turns(nodes, node):
        _, share = trees.split(X, turn)
        reach *= share if goes_right else 1 - share
    if not reach.sum() > 0:
        raise ValueError(f"none of the {reach.size} examples comes to node {node}; take other examples or another node")
    margins, right = trees.split(X, node)
    counts = np.asarray(Y.T @ reach)
    labels = np.argsort(-counts, kind="stable")[: min(n_labels, np.count_nonzero(counts))]
    of_label = sp.csr_array(Y[:, labels].T)
    return NodeMargins(
        node=int(node),
        path=nodes.path(node),
        margins=margins,
        reach=reach,
        right=right,
        bias=float(trees.filter.bias_[node]),
        noise=float(trees.filter.noise_[node]),
        median=_median(margins, reach),
        purity=purity(Y, right, reach),
        balance=balance(right, reach),
        labels=labels,
        label_names=[names(label) for label in labels.tolist()],
        label_mean=np.asarray(of_label @ (reach * margins)) / counts[labels],
        label_right=np.asarray(of_label @ (reach * right)) / counts[labels],
        label_mass=counts[labels],
    )


def _turns(nodes: Nodes, node: int) -> list[tuple[int, bool]]:
    """Return the nodes above, and whether the way to the node goes right there."""
    found = []
    while (above := int(nodes.parent[node])) >= 0:
        found.append((above, node != nodes.children[above]))
        node = above
    return found


def _median(values: Float64, weights: Float64) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    low, high = (int(np.searchsorted(sums, sums[-1] / 2, side=side)) for side in ("left", "right"))
    return float(values[order[low]] + values[order[min(high, order.size - 1)]]) / 2


# -------------------------------------------------------------------------------------------------------- one example


@dataclass(frozen=True, eq=False, repr=False)
class Ways:
    """The nodes of one tree that one example may come to, parents before their children.

    Parameters
    ----------
    nodes : int64 array of shape (m,)
    parent : int64 array of shape (m,)
        The place of each node's parent in `nodes`; -1 for the root.
    goes_right : bool array of shape (m,)
        Whether the node is the right child.
    probability : float64 array of shape (m,)
        How probable it is that the example comes to the node.
    right : float64 array of shape (m,)
        The probability to go right from there; nan at leaves.
    margin : float64 array of shape (m,)
        w.x - b; nan at leaves.
    decided : bool array of shape (m,)
        Whether the node lies on the way that takes the more probable turn every time.
    titles : list of m str
        For leaves, the labels that they have most more of than the tree; else "".
    not_followed : float
        The probability of all ways that were not followed.
    """

    nodes: Int64
    parent: Int64
    goes_right: npt.NDArray[np.bool_]
    probability: Float64
    right: Float64
    margin: Float64
    decided: npt.NDArray[np.bool_]
    titles: list[str]
    not_followed: float

    def __repr__(self) -> str:
        return f"<Ways: {self.nodes.size} nodes, {sum(map(bool, self.titles))} leaves>"


def ways(model: Any, x: Any, tree: int = 0, *, smallest: float = 0.02, n_labels: int = 3) -> Ways:
    """Follow one example down a tree, both ways at once where both are probable.

    A `SpectralTree` grows like this; in use it takes the more probable turn at every node. A `SpectralForest` follows
    all ways of some probability in use too.

    Parameters
    ----------
    model : PrismClassifier, SpectralTree or SpectralForest
        Fitted.
    x : list of one text, or matrix of shape (1, d)
        What the model takes.
    tree : int, default=0
        Which tree of a forest.
    smallest : float, default=0.02
        Nodes of this probability or less are left out, except those on the way that takes the more probable turn at
        every node.
    n_labels : int, default=3
        How many labels the titles of leaves have.
    """
    check_whole("n_labels", n_labels, 1, 2**31 - 1)
    if isinstance(smallest, bool) or not isinstance(smallest, (int, float, np.number)) or not 0 <= smallest < 1:
        raise ValueError(f"smallest must be a number from 0 to below 1, got {smallest!r}")
    trees = _trees_of(model)
    check_whole("tree", tree, 0, trees.nodes.n_trees - 1)
    X = trees.rows(x)
    if X.shape[0] != 1:
        raise ValueError(f"expected one example, got {X.shape[0]}")
    found, lost = _followed(trees, X, tree, float(smallest))
    at = [step.node for step in found]
    return Ways(
        nodes=np.array(at, np.int64),
        parent=np.array([step.parent for step in found], np.int64),
        goes_right=np.array([step.goes_right for step in found], np.bool_),
        probability=np.array([step.probability for step in found]),
        right=np.array([step.right for step in found]),
        margin=np.array([step.margin for step in found]),
        decided=np.array([step.decided for step in found], np.bool_),
        titles=_leaf_titles(trees, at, n_labels),
        not_followed=lost,
    )


class _Way(NamedTuple):
    node: int
    parent: int
    goes_right: bool
    probability: float
    right: float
    margin: float
    decided: bool


def _followed(trees: _Trees, X: Any, root: int, smallest: float) -> tuple[list[_Way], float]:
    """Return the nodes level by level, and the probability of what was not followed."""
    found, lost = [], 0.0
    level = [(root, -1, False, 1.0, True)]
    while level:
        below = []
        for node, parent, goes_right, probability, decided in level:
            left = int(trees.nodes.children[node])
            if left < 0:
                found.append(_Way(node, parent, goes_right, probability, np.nan, np.nan, decided))
                continue
            margins, shares = trees.split(X, node)
            margin, right = float(margins[0]) - float(trees.filter.bias_[node]), float(shares[0])
            for turn, share in ((False, 1 - right), (True, right)):
                on_way = decided and turn == (margin > 0)
                if on_way or probability * share > smallest:
                    below.append((left + turn, len(found), turn, probability * share, on_way))
                else:
                    lost += probability * share
            found.append(_Way(node, parent, goes_right, probability, right, margin, decided))
        level = below
    return found, lost


def _leaf_titles(trees: _Trees, at: list[int], n_labels: int) -> list[str]:
    """Return the labels of leaves in the order of share x log(share / share in all leaves); "" for inner nodes."""
    table = sp.csr_array(trees.filter.leaf_candidates_)
    mass = np.asarray(trees.filter.leaf_mass_, np.float64)
    shares = np.exp(table.data.astype(np.float64))
    counts = np.bincount(table.indices, shares * np.repeat(mass, np.diff(table.indptr)), table.shape[1])
    overall = np.maximum(counts / max(counts.sum(), 1e-300), 1e-300)
    leaf_of_node = dict(zip(trees.nodes.leaf_nodes.tolist(), range(trees.nodes.leaf_nodes.size), strict=True))
    titles = []
    for node in at:
        leaf = leaf_of_node.get(node)
        if leaf is None:
            titles.append("")
            continue
        own = slice(int(table.indptr[leaf]), int(table.indptr[leaf + 1]))
        labels, share = table.indices[own], shares[own]
        order = np.argsort(-share * np.log(share / overall[labels]), kind="stable")[:n_labels]
        titles.append(" · ".join(trees.name(label) for label in labels[order].tolist()) or f"leaf {leaf}")
    return titles


# ------------------------------------------------------------------------------------------------- whatever has trees


class _Trees(NamedTuple):
    """The trees of a model, and its rows and names of labels as it takes and gives them."""

    model: Any
    filter: Any
    nodes: Nodes
    rows: Callable[[Any], Any]

    def split(self, X: Any, node: int) -> tuple[Float64, Float64]:
        """Return w.x of every row at a node, and the probabilities to go right."""
        router = slice(*self.filter.routers_.indptr[node : node + 2])
        weights = np.zeros(self.filter.routers_.shape[1])
        weights[self.filter.routers_.indices[router]] = self.filter.routers_.data[router]
        margins = np.asarray(X @ weights, np.float64)
        return margins, probability_right(margins, self.filter.bias_[node], self.filter.noise_[node])

    def examples(self, data: Any) -> tuple[Any, sp.csr_array, Callable[[int], str]]:
        """Return rows as the filter sees them, their labels, and what names these."""
        if isinstance(self.model, PrismClassifier):
            examples = examples_of(self.model, data)
            return self.rows(examples.rows), examples.Y, self.name
        names = data.label_names if isinstance(data, Dataset) else None
        parts = (data.X, data.Y) if isinstance(data, Dataset) else data
        if not isinstance(parts, (tuple, list)) or len(parts) != 2 or parts[0] is None:
            raise ValueError(f"data must be (X, Y), or a Dataset with X, got {type(data).__name__}")
        X, Y = check_fit_input(parts[0], parts[1], self.filter.n_labels_)
        if Y.shape[1] > self.filter.n_labels_:
            raise ValueError(f"Y has {Y.shape[1]} labels, but the filter was fitted with {self.filter.n_labels_}")
        return self.rows(X), Y, self.name if names is None else names.__getitem__

    def name(self, label: int) -> str:
        """Return the name of a label; of a bare filter its number."""
        return str(self.model.classes_[label]) if isinstance(self.model, PrismClassifier) else f"label {label}"


def _trees_of(model: Any) -> _Trees:
    if isinstance(model, PrismClassifier):
        filter, for_filter = filter_of(model), rows_for_filter(model)
        classifier = model

        def rows(X: Any) -> Any:
            return for_filter(classifier._rows(X))

    elif isinstance(model, Filter):
        check_is_fitted(model, "leaf_candidates_")
        filter, rows = model, model._checked
    else:
        raise ValueError(f"model must be a PrismClassifier, a SpectralTree or a SpectralForest, got {model!r}")
    if not hasattr(filter, "routers_"):
        raise ValueError(f"{type(filter).__name__} has no tree, so that nothing is routed; take another filter")
    return _Trees(model, filter, nodes_of(filter), rows)
