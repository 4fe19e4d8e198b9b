"""`SpectralTree`: F of the paper, the tree of routers that maps an example to a small set of candidate labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, Float32, Int32, Int64, check_whole, csr_parts, is_sparse
from labelprism._threads import thread_count
from labelprism._weights import check_sample_weight, label_mass, weighted_rows
from labelprism.filters.base import Filter, Step, candidate_table, check_fit_input, keep_entries, take_rows
from labelprism.filters.diagnostics import TreeDiagnostics, diagnose
from labelprism.filters.flat import most_frequent
from labelprism.filters.growth import BestLeaves, Grower, GrownTree, GrowthSettings, Labels
from labelprism.filters.node import Features, has_one_label
from labelprism.filters.routing import Pruning, probability_right
from labelprism.filters.validation import Monitor

_ORPHAN_COUNT = 1e-6  # an orphan that pruning left without any mass still needs a count


class SpectralTree(Filter):
    """The spectral label tree of the paper (sections 3.3 and 3.4).

    Each node sends an example left or right by a linear router, found by a constrained eigenvalue problem that keeps
    the examples of a label together. While the tree grows, examples are routed fractionally, by the distance to the
    routers' boundaries; a leaf's candidates are the labels of the largest expected counts. When it is used, routing is
    deterministic, unless asked otherwise.

    Parameters
    ----------
    n_candidates : int, default=200
        k, the class budget of a leaf. Orphans come on top of it.
    max_depth : int, default=14
        The depth limit; the root has depth 0.
    target_recall : float, default=0.999
        phi: a node whose k heaviest labels hold this share of its label mass is not split.
    routing : {"fractional", "hard"}, default="fractional"
        How examples are routed during growth; "hard" is the ablation of the paper.
    noise : {"paper", "sqrt"}, default="paper"
        sigma = lambda / m, or its square root, for rows that do not have unit norm.
    prune : {"roulette", "threshold"} or None, default="roulette"
        What happens to examples whose probability to reach a node falls below `prune_below`: kept by chance such that
        expected counts stay unbiased, dropped, or all kept (which takes time and memory exponential in the depth).
    prune_below : float, default=0.1
        See `prune`.
    bias : {"median", "zero"}, default="median"
        Whether nodes split at the weighted median of the margins, or at 0.
    orphans : bool, default=True
        Whether labels that are in no leaf's candidates are added to the leaf that most of their examples reach.
    head_labels : int, default=0
        So many of the most frequent labels are candidates everywhere, as part of k, and left out of the eigenproblem,
        so that the tree works for the tail.
    macro : bool, default=False
        Whether label counts are divided by the labels' frequencies, so that rare labels weigh as much as frequent ones.
    validation : (X, Y) or float, optional
        Held-out examples, or the share of the training examples to hold out. Recall is measured, and with `verbose`
        printed, at every depth, and the tree is cut at the best.
    n_blocks : int, default=3
        Blocks of 8 vectors in the eigensolver; more are more exact and slower.
    cg_iterations : int, default=16
        At most so many conjugate gradient steps, where rows have several labels.
    weight_threshold : float, default=1e-4
        Router weights smaller than this are dropped; |w| is 1.
    verbose : bool, default=True
        Whether recall on held-out examples is printed to standard error.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the eigensolver, of the roulette and of the hold-out.

    Attributes
    ----------
    children_ : int32 array of shape (n_nodes,)
        The left child of each node, -1 for leaves; the right child is the next node.
    bias_, noise_, eigenvalue_, mass_, purity_, balance_ : arrays of shape (n_nodes,)
        b, sigma, lambda, m, and how good the split is on the training examples; of no meaning for leaves.
    depth_ : int32 array of shape (n_nodes,)
        The depth of each node.
    routers_ : csr_array of shape (n_nodes, d)
        w; empty rows for leaves.
    leaf_candidates_ : csr_array of shape (n_leaves, c)
        The candidates of each leaf with their log-probabilities.
    leaf_nodes_ : int64 array of shape (n_leaves,)
        The node of each leaf.
    heaviest_labels_ : int32 array of shape (n_nodes, 20)
        The most frequent labels of every node, -1 where there are fewer.
    orphans_ : int64 array
        The labels that were added as orphans.
    recall_path_, best_depth_ : list of float, int
        With `validation`: the recall on the held-out examples at each depth, and the depth of the largest.
    """

    def __init__(
        self,
        n_candidates: int = 200,
        max_depth: int = 14,
        target_recall: float = 0.999,
        *,
        routing: Literal["fractional", "hard"] = "fractional",
        noise: Literal["paper", "sqrt"] = "paper",
        prune: Literal["roulette", "threshold"] | None = "roulette",
        prune_below: float = 0.1,
        bias: Literal["median", "zero"] = "median",
        orphans: bool = True,
        head_labels: int = 0,
        macro: bool = False,
        validation: tuple[Any, Any] | float | None = None,
        n_blocks: int = 3,
        cg_iterations: int = 16,
        weight_threshold: float = 1e-4,
        verbose: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.target_recall = target_recall
        self.routing = routing
        self.noise = noise
        self.prune = prune
        self.prune_below = prune_below
        self.bias = bias
        self.orphans = orphans
        self.head_labels = head_labels
        self.macro = macro
        self.validation = validation
        self.n_blocks = n_blocks
        self.cg_iterations = cg_iterations
        self.weight_threshold = weight_threshold
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------------ fit

    def fit(
        self, X: Any, Y: Any, sample_weight: npt.ArrayLike | None = None, validation: tuple[Any, Any] | None = None
    ) -> SpectralTree:
        """Grow the tree.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
            Rows should have similar norms; unit norms suit the noise of the paper.
        Y : sparse matrix or array of shape (n, c), or n label numbers
        sample_weight : array of shape (n,), optional
            The weight of each example; those of weight 0 are left out.
        validation : (X, Y), optional
            Held-out examples, in place of the parameter `validation`.
        """
        self._check_parameters()
        X, Y = check_fit_input(X, Y)
        X, Y, given = weighted_rows(X, Y, check_sample_weight(sample_weight, Y.shape[0]))
        weight = np.ones(Y.shape[0], np.float32) if given is None else given.astype(np.float32)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        wanted = self.validation if validation is None else validation
        X, Y, weight, held_out = self._hold_out(X, Y, weight, wanted, random)
        n_threads = thread_count(self.n_jobs)
        features, labels = Features(X, n_threads), self._labels(Y, weight)
        monitor = None if held_out is None else Monitor(Features(held_out[0], n_threads), held_out[1])
        grower = Grower(features, labels, weight, self._growth_settings(labels.split, seed), monitor)
        tree = grower.grow()
        self.n_features_in_ = features.n_features
        self.__dict__.pop("_tree", None)  # of an earlier fit
        best_leaves = grower.best_leaves
        if monitor is not None:
            self.recall_path_, self.best_depth_ = monitor.recall_path, monitor.best_depth
            best_leaves = _cut(tree, monitor)
        self._flatten(tree, labels, best_leaves, X)
        return self

    def _check_parameters(self) -> None:
        for name, smallest, largest in (
            ("n_candidates", 1, MAX_COLUMNS),
            ("max_depth", 0, 100),
            ("head_labels", 0, MAX_COLUMNS),
            ("n_blocks", 1, 32),
            ("cg_iterations", 1, MAX_COLUMNS),
        ):
            check_whole(name, getattr(self, name), smallest, largest)
        for name, choices in (
            ("routing", ("fractional", "hard")),
            ("noise", ("paper", "sqrt")),
            ("prune", ("roulette", "threshold", None)),
            ("bias", ("median", "zero")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name in ("target_recall", "prune_below"):
            if not _is_number(getattr(self, name)) or not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, got {getattr(self, name)!r}")
        if not _is_number(self.weight_threshold) or not 0 <= self.weight_threshold < 1:
            raise ValueError(f"weight_threshold must be at least 0 and below 1, got {self.weight_threshold!r}")
        if self.head_labels > self.n_candidates:
            raise ValueError(f"head_labels is {self.head_labels}, more than the n_candidates of {self.n_candidates}")

    def _growth_settings(self, Y: sp.csr_array, seed: int) -> GrowthSettings:
        solver = _core.SpectralSettings(
            self.n_blocks, self.cg_iterations, has_one_label(Y), self.weight_threshold, seed
        )
        return GrowthSettings(
            n_candidates=self.n_candidates,
            max_depth=self.max_depth,
            target_recall=self.target_recall,
            routing=self.routing,
            noise=self.noise,
            bias=self.bias,
            macro=self.macro,
            pruning=Pruning(self.prune, self.prune_below, seed),
            solver=solver,
            verbose=self.verbose,
        )

    def _labels(self, Y: sp.csr_array, weight: Float32) -> Labels:
        frequency = label_mass(Y, weight)
        head = most_frequent(frequency, self.head_labels)
        split = Y
        if head.size:
            is_tail = np.ones(Y.shape[1], bool)
            is_tail[head] = False
            split = keep_entries(Y, is_tail[Y.indices])
        return Labels(Y, split, head, frequency)

    def _hold_out(
        self, X: Any, Y: sp.csr_array, weight: Float32, validation: Any, random: np.random.RandomState
    ) -> tuple[Any, ...]:
        """Return the examples to learn from, and those held out, if any."""
        if validation is None:
            return X, Y, weight, None
        if isinstance(validation, (tuple, list)) and len(validation) == 2:
            X_valid, Y_valid = check_fit_input(validation[0], validation[1], Y.shape[1])
            if X_valid.shape[1] != X.shape[1] or Y_valid.shape[1] != Y.shape[1]:
                raise ValueError(
                    f"validation has {X_valid.shape[1]} features and {Y_valid.shape[1]} labels, "
                    f"but X and Y have {X.shape[1]} and {Y.shape[1]}"
                )
            return X, Y, weight, _with_labels(X_valid, Y_valid)
        if not _is_number(validation) or not 0 < validation < 1:
            raise ValueError(f"validation must be (X, Y) or a share between 0 and 1, got {validation!r}")
        order = random.permutation(Y.shape[0])
        n_held = max(1, round(validation * Y.shape[0]))
        if n_held == Y.shape[0]:
            raise ValueError(f"validation={validation} leaves none of the {n_held} examples to learn from")
        held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
        return X[kept], Y[kept], weight[kept], _with_labels(X[held], Y[held])

    def _flatten(self, tree: GrownTree, labels: Labels, best_leaves: BestLeaves, X: Any) -> None:
        """Turn the grown tree into flat arrays."""
        n_nodes = len(tree.child)
        self.children_ = np.array(tree.child, np.int32)
        self.depth_ = np.array(tree.depth, np.int32)
        self.bias_ = np.array(tree.bias, np.float32)
        self.noise_ = np.array(tree.noise, np.float64)
        for name in ("eigenvalue", "mass", "purity", "balance"):
            setattr(self, f"{name}_", np.array(getattr(tree, name), np.float64))
        self.heaviest_labels_ = np.concatenate(tree.heaviest)[:n_nodes]
        self.routers_ = _stacked(tree, X.shape[1])
        self.leaf_nodes_ = np.concatenate([nodes for nodes, _, _ in tree.candidates])
        counts = sp.vstack([counts for _, counts, _ in tree.candidates], format="csr")
        order = np.argsort(self.leaf_nodes_)
        self.leaf_nodes_, counts = self.leaf_nodes_[order], take_rows(counts, order)
        label_mass = np.concatenate([mass for _, _, mass in tree.candidates])[order]
        self.leaf_mass_ = np.asarray(label_mass, np.float64)
        self._leaf_of_node = np.full(n_nodes, -1, np.int32)
        self._leaf_of_node[self.leaf_nodes_] = np.arange(self.leaf_nodes_.size)
        self.leaf_candidates_ = candidate_table(counts, label_mass)  # from here on the tree can route
        self.orphans_ = np.zeros(0, np.int64)
        if self.orphans:
            counts = self._add_orphans(counts, labels, best_leaves, X)
            self.leaf_candidates_ = candidate_table(counts, label_mass)

    def _add_orphans(self, counts: sp.csr_array, labels: Labels, best_leaves: BestLeaves, X: Any) -> sp.csr_array:
        """Return the counts of the candidates with the orphans among them."""
        is_candidate = np.zeros(counts.shape[1], bool)
        is_candidate[counts.indices] = True
        self.orphans_ = np.flatnonzero((labels.frequency > 0) & ~is_candidate)
        if not self.orphans_.size:
            return counts
        nodes = best_leaves.leaf[self.orphans_]
        lost = nodes < 0  # pruning left no example of the label in any leaf
        leaves = self._leaf_of_node[np.where(lost, self.leaf_nodes_[0], nodes)]
        if lost.any():
            leaves[lost] = self._usual_leaf(X, labels.all, self.orphans_[lost])
        rows = np.concatenate([np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr)), leaves])
        columns = np.concatenate([counts.indices, self.orphans_])
        values = np.concatenate([counts.data, np.maximum(best_leaves.count[self.orphans_], _ORPHAN_COUNT)])
        return sp.csr_array((values, (rows, columns)), shape=counts.shape)

    def _usual_leaf(self, X: Any, Y: sp.csr_array, wanted: Int64) -> Int64:
        """Return the leaf that most examples of each label are routed to."""
        by_label = Y[:, wanted].tocoo()
        rows, place = np.unique(by_label.coords[0], return_inverse=True)
        leaf = self.route(X[rows])[place]
        shape = (wanted.size, self.leaf_nodes_.size)
        reached = sp.csr_array((np.ones(leaf.size), (by_label.coords[1], leaf)), shape=shape)
        return np.asarray(reached.argmax(axis=1)).ravel()

    def update(self, X: Any, Y: sp.csr_array, sample_weight: Any = None) -> None:
        """Count the labels of further examples in the leaves that they reach; see `Filter.update`."""
        if self.macro:
            raise ValueError("a tree with macro=True cannot take further examples; fit it again")
        super().update(X, Y, sample_weight)

    # ------------------------------------------------------------------------------------------------------------ use

    def route(self, X: Any) -> Int32:
        """Return the leaf of every example, decided by w.x > b at each node; see `Filter.route`."""
        return self._descend(X, None)

    def sample_route(self, X: Any, rng: np.random.Generator) -> Int32:
        """Return a random leaf, right with probability Phi((w.x - b) / sigma) each time; see `Filter.sample_route`."""
        return self._descend(X, int(rng.integers(2**63)))

    def leaf_probabilities(self, X: Any, smallest: float = 0.0) -> sp.csr_array:
        """Return the probability of every leaf: the product along its route; see `Filter.leaf_probabilities`."""
        X = self._checked(X)
        features = Features(X, thread_count(self.n_jobs))
        rows, nodes = np.arange(X.shape[0], dtype=np.int32), np.zeros(X.shape[0], np.int64)
        probability = np.ones(X.shape[0])
        found = [(rows[:0], self._leaf_of_node[:0], probability[:0])]
        while rows.size:
            at_leaf = self.children_[nodes] < 0
            found.append((rows[at_leaf], self._leaf_of_node[nodes[at_leaf]], probability[at_leaf]))
            rows, nodes, probability = (values[~at_leaf] for values in (rows, nodes, probability))
            order = np.argsort(nodes, kind="stable")
            rows, nodes, probability = rows[order], nodes[order], probability[order]
            right = self._probability_right(self._margins(features, rows, nodes), nodes)
            left_child = self.children_[nodes].astype(np.int64)
            rows, nodes = np.tile(rows, 2), np.concatenate([left_child, left_child + 1])
            probability = np.concatenate([probability * (1 - right), probability * right])
            followed = probability > smallest
            rows, nodes, probability = rows[followed], nodes[followed], probability[followed]
        all_rows, leaves, values = (np.concatenate(part) for part in zip(*found, strict=True))
        shape = (X.shape[0], self.leaf_nodes_.size)
        return sp.csr_array((values.astype(np.float32), (all_rows, leaves)), shape=shape)

    def paths(self, x: Any) -> list[list[Step]]:
        """Return the way of one example, decided by w.x > b at each node; see `Filter.paths`."""
        features = Features(self._checked_row(x), 1)
        row, node, probability = np.zeros(1, np.int32), 0, 1.0
        way = []
        while self.children_[node] >= 0:
            at = np.array([node])
            product = self._margins(features, row, at)
            right = float(self._probability_right(product, at)[0])
            margin = float(product[0]) - float(self.bias_[node])
            way.append(Step(node, margin, probability))
            probability *= right if margin > 0 else 1 - right
            node = int(self.children_[node]) + (margin > 0)
        return [[*way, Step(node, 0.0, probability)]]

    def diagnostics(self, X: Any, Y: Any, holdout: tuple[Any, Any] | None = None) -> TreeDiagnostics:
        """Measure the tree on its training examples and, if given, on others.

        Parameters
        ----------
        X, Y : as in `fit`
            The training examples.
        holdout : (X, Y), optional
            Other examples.
        """
        check_is_fitted(self, "leaf_candidates_")
        others = None if holdout is None else check_fit_input(*holdout, self.n_labels_)
        return diagnose(self, check_fit_input(X, Y, self.n_labels_), others)

    def describe(self, node: int, label_names: Sequence[str] | None = None) -> list[str]:
        """Return the most frequent labels of a node, as in the paper's Table 2.

        Parameters
        ----------
        node : int
            0 is the root; `children_` has the others.
        label_names : sequence of c str, optional
            The names of the labels; their numbers when left out.
        """
        check_is_fitted(self, "leaf_candidates_")
        if not 0 <= node < self.children_.size:
            raise ValueError(f"there is no node {node}; nodes go from 0 to {self.children_.size - 1}")
        labels = self.heaviest_labels_[node]
        return [str(label) if label_names is None else label_names[label] for label in labels[labels >= 0]]

    def _probability_right(self, margins: Float32, nodes: Int64) -> npt.NDArray[np.float64]:
        return probability_right(margins, self.bias_[nodes], self.noise_[nodes])

    def _descend(self, X: Any, seed: int | None) -> Int32:
        """Move every example from the root to a leaf, at random if there is a seed."""
        X = self._checked(X)
        n_threads = thread_count(self.n_jobs)
        if is_sparse(X):
            nodes = self._native_tree().descend_csr(*csr_parts(X), X.shape[1], seed, n_threads)
        else:
            nodes = self._native_tree().descend_dense(X, seed, n_threads)
        return self._leaf_of_node[nodes]

    def _native_tree(self) -> _core.Tree:
        """Return the tree as the native core keeps it, made when it is first needed."""
        if not hasattr(self, "_tree"):
            arrays = csr_parts(self.routers_)
            self._tree = _core.Tree(self.children_, self.bias_, self.noise_, *arrays, self.n_features_in_)
        return self._tree

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_tree", None)
        return state

    def _margins(self, features: Features, rows: Int32, nodes: Int64) -> Float32:
        """Return w.x for rows at nodes, which must be grouped."""
        starts = np.flatnonzero(np.diff(nodes, prepend=-1))
        offsets = np.append(starts, nodes.size)
        return features.router_margins(self.routers_, rows, offsets, nodes[starts])


def _is_number(value: object) -> bool:
    """Tell whether a parameter is a real number."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _with_labels(X: Any, Y: sp.csr_array) -> tuple[Any, sp.csr_array]:
    if not Y.nnz:
        raise ValueError("no held-out example has a label, so that there is no recall to measure; hold out more")
    return X, Y


def _stacked(tree: GrownTree, n_features: int) -> sp.csr_array:
    """Return the routers as one matrix with a row for every node."""
    shape = (len(tree.child), n_features)
    if not tree.routers:
        return sp.csr_array(shape, dtype=np.float32)
    sizes = np.zeros(shape[0], np.int64)
    sizes[np.concatenate(tree.split_nodes)] = np.concatenate([np.diff(part.indptr) for part in tree.routers])
    data, indices = (np.concatenate([getattr(p, name) for p in tree.routers]) for name in ("data", "indices"))
    return sp.csr_array((data, indices, np.concatenate([[0], np.cumsum(sizes)])), shape=shape)


def _cut(tree: GrownTree, monitor: Monitor) -> BestLeaves:
    """Cut the tree at the best depth; return the best leaves of the labels there."""
    assert monitor.kept is not None
    nodes, chosen, label_mass, best_leaves = monitor.kept
    depth = monitor.best_depth
    if depth == max(tree.depth):
        return best_leaves
    n_nodes = int(np.searchsorted(tree.depth, depth, side="right"))  # nodes are in the order of their depths
    tree.candidates = [part for part in tree.candidates if not part[0].size or tree.depth[part[0][0]] < depth]
    tree.candidates.append((nodes, chosen, label_mass))
    for name in ("child", "depth", "bias", "noise", "eigenvalue", "mass", "purity", "balance"):
        del getattr(tree, name)[n_nodes:]
    for node in nodes.tolist():
        tree.child[node] = -1
        tree.purity[node] = tree.balance[node] = np.nan
    tree.routers, tree.split_nodes = tree.routers[:depth], tree.split_nodes[:depth]
    return best_leaves
