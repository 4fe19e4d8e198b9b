"""`SpectralForest`: F of the default recipe, a few trees of refined routers whose leaves are averaged."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, Float32, Int32, as_csr, check_whole, csr_of, csr_parts, is_sparse
from labelprism._stages import Stages
from labelprism._threads import thread_count
from labelprism._weights import check_sample_weight, weighted_rows
from labelprism.filters.base import SMALLEST_PROBABILITY, SMALLEST_ROUTE, Filter, Step, check_fit_input
from labelprism.filters.forest_growth import grow_forest
from labelprism.filters.node import has_one_label
from labelprism.filters.routing import probability_right

_ALL_ROWS = 2**62


class SpectralForest(Filter):
    """A forest of spectral label trees whose routers are refined by supervision.

    Each node finds a direction that keeps the examples of a label together, as `SpectralTree` does, but only roughly;
    then every label takes a side, every example the side of most of its labels, and a linear classifier learns them.
    Examples near a boundary go both ways, with probability Phi(margin / noise): a little while the trees grow, which
    costs time, and more freely when they are used. The score of a label is the mean over trees of the sum over leaves
    of p(leaf | x) p(label | leaf).

    Parameters
    ----------
    n_candidates : int, default=200
        k, how many labels `candidates` returns for an example.
    n_trees : int, default=2
        Trees differ by their random numbers alone.
    max_depth : int, default=20
        The depth limit; a root has depth 0.
    stop_labels : int, default=50
        A node whose so many heaviest labels hold `target_recall` of its label mass is a leaf.
    min_rows : int, default=50
        So is a node of fewer examples.
    target_recall : float, default=0.999
        See `stop_labels`.
    smallest_share : float, default=0.02
        A split that would send less than this share of the mass to one side is not made.
    routing : {"fractional", "hard"}, default="fractional"
        Whether examples may go both ways while trees grow.
    noise : float, default=0.3
        The width of the routing Gaussian when the forest is used, in units of the classifiers' margins.
    growth_noise : float, default=0.1
        The same while trees grow.
    prune_below : float, default=0.2
        While trees grow, an example whose probability to reach a node is below this is kept by chance, such that
        expected counts stay what they are.
    smallest : float, default=0.05
        When the forest is used, branches whose probability falls to this or below are not followed, except the way
        that is the more probable one at every node: each tree has at least one leaf for every example.
    refine_rounds : int, default=2
        How often labels take sides anew; with 0 routers stay as the eigenproblem gives them, split at the median,
        and `noise` and `growth_noise` are lambda / m, as in the paper.
    refine_passes : int, default=2
        Passes of dual coordinate descent in each round, at most.
    refine_cost : float, default=1.0
        C of the classifiers' squared hinge loss.
    solver : {"sketch", "krylov"}, default="sketch"
        How directions are found: roughly and fast, or as by `SpectralTree`.
    sketch_steps : int, default=2
        Steps of the sketch.
    n_blocks : int, default=1
        Blocks of 8 vectors of the solver "krylov".
    cg_iterations : int, default=0
        Its conjugate gradient steps, where rows have several labels; with 0 the diagonal stands for all of Y'DY.
    max_rows : int, optional
        Routers learn from at most so many examples of a node, taken at random; from all when left out.
    min_feature_rows : int, default=2
        Routers have no weights for features that fewer of the node's examples have.
    drop_weight : float, default=0.03
        Nor for those whose weights are smaller than this share of the node's largest.
    drop_share : float, default=0.001
        Labels with less than this share of a leaf's mass are left out of it.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the order of examples, of the directions and of the pruning.

    Attributes
    ----------
    children_ : int32 array of shape (n_nodes,)
        The left child of each node, -1 for leaves; the right child is the next node. The first `n_trees` are the roots.
    bias_, noise_ : float32 arrays of shape (n_nodes,)
        An example goes right with probability Phi((w.x - bias) / noise); of no meaning for leaves.
    routers_ : csr_array of shape (n_nodes, d)
        w, whole multiples of the largest weight of the node over 127; empty rows for leaves.
    leaf_candidates_ : csr_array of shape (n_leaves, c)
        The labels of each leaf with the logarithm of their share in its mass.
    leaf_nodes_ : int64 array of shape (n_leaves,)
        The node of each leaf.
    leaf_mass_ : float32 array of shape (n_leaves,)
        The labels of the training examples that reached each leaf, with their weights.
    """

    def __init__(
        self,
        n_candidates: int = 200,
        n_trees: int = 2,
        max_depth: int = 20,
        *,
        stop_labels: int = 50,
        min_rows: int = 50,
        target_recall: float = 0.999,
        smallest_share: float = 0.02,
        routing: Literal["fractional", "hard"] = "fractional",
        noise: float = 0.3,
        growth_noise: float = 0.1,
        prune_below: float = 0.2,
        smallest: float = 0.05,
        refine_rounds: int = 2,
        refine_passes: int = 2,
        refine_cost: float = 1.0,
        solver: Literal["sketch", "krylov"] = "sketch",
        sketch_steps: int = 2,
        n_blocks: int = 1,
        cg_iterations: int = 0,
        max_rows: int | None = None,
        min_feature_rows: int = 2,
        drop_weight: float = 0.03,
        drop_share: float = 0.001,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_candidates = n_candidates
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.stop_labels = stop_labels
        self.min_rows = min_rows
        self.target_recall = target_recall
        self.smallest_share = smallest_share
        self.routing = routing
        self.noise = noise
        self.growth_noise = growth_noise
        self.prune_below = prune_below
        self.smallest = smallest
        self.refine_rounds = refine_rounds
        self.refine_passes = refine_passes
        self.refine_cost = refine_cost
        self.solver = solver
        self.sketch_steps = sketch_steps
        self.n_blocks = n_blocks
        self.cg_iterations = cg_iterations
        self.max_rows = max_rows
        self.min_feature_rows = min_feature_rows
        self.drop_weight = drop_weight
        self.drop_share = drop_share
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------------ fit

    def fit(self, X: Any, Y: Any, sample_weight: Any = None, *, stages: Stages | None = None) -> SpectralForest:
        """Grow the forest.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
            Rows should have similar norms.
        Y : sparse matrix or array of shape (n, c), or n label numbers
        sample_weight : array of shape (n,), optional
            How much each row counts; only the ratios matter, and rows of weight 0 are left out.
        stages : Stages, optional
            Where the forest is kept after each level; see `labelprism.PrismClassifier.fit`, `checkpoint`.
        """
        self._check_parameters()
        X, Y = check_fit_input(X, Y)
        X, Y, sample_weight = weighted_rows(X, Y, check_sample_weight(sample_weight, Y.shape[0]))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        weight, n_threads = _mean_one(sample_weight), thread_count(self.n_jobs)
        grown = grow_forest(X, Y, weight, self._settings(Y, seed), n_threads, stages)
        self._take(grown, (X.shape[1], Y.shape[1]))
        if sample_weight is not None:  # growth saw weights with a mean of 1
            self.leaf_mass_ = self.leaf_mass_ * np.float32(np.mean(sample_weight))
        return self

    def _take(self, grown: _core.ForestArrays, shape: tuple[int, int]) -> None:
        """Make the attributes of the arrays that growth returns."""
        self.children_, self.bias_, self.noise_ = grown[:3]
        n_features, n_labels = shape
        n_nodes = self.children_.size
        self.routers_ = csr_of(*grown[3:6], (n_nodes, n_features))
        self.leaf_nodes_ = np.flatnonzero(self.children_ < 0)
        node_indptr, labels, shares, mass = grown[6:]
        self.leaf_mass_ = mass[self.leaf_nodes_]
        indptr = np.append(node_indptr[self.leaf_nodes_], node_indptr[-1])  # other nodes have no entries
        logarithms = np.log(np.maximum(shares, SMALLEST_PROBABILITY, dtype=np.float32))
        self.leaf_candidates_ = csr_of(indptr, labels, logarithms, (self.leaf_nodes_.size, n_labels))
        self.n_features_in_ = n_features
        self._cached_scorer: _core.ForestScorer | None = None

    def _settings(self, Y: sp.csr_array, seed: int) -> _core.ForestSettings:
        diagonal = self.cg_iterations == 0 or has_one_label(Y)
        max_rows = _ALL_ROWS if self.max_rows is None else self.max_rows
        return _core.ForestSettings(
            n_trees=self.n_trees,
            max_depth=self.max_depth,
            stop_labels=self.stop_labels,
            min_rows=self.min_rows,
            target_recall=self.target_recall,
            smallest_share=self.smallest_share,
            noise=self.noise,
            growth_noise=self.growth_noise,
            fractional=self.routing == "fractional",
            prune_below=self.prune_below,
            spectral_rows=max_rows,
            router_rows=max_rows,
            min_feature_rows=self.min_feature_rows,
            sketch_steps=self.sketch_steps if self.solver == "sketch" else 0,
            drop_weight=self.drop_weight,
            drop_share=self.drop_share,
            seed=seed,
            spectral=_core.SpectralSettings(self.n_blocks, max(self.cg_iterations, 1), diagonal, 0.0, seed),
            refine_rounds=self.refine_rounds,
            refine_passes=self.refine_passes,
            refine_cost=self.refine_cost,
        )

    def _check_parameters(self) -> None:
        for name, smallest, largest in (
            ("n_candidates", 1, MAX_COLUMNS),
            ("n_trees", 1, 1000),
            ("max_depth", 0, 100),
            ("stop_labels", 1, MAX_COLUMNS),
            ("min_rows", 1, MAX_COLUMNS),
            ("refine_rounds", 0, 100),
            ("refine_passes", 1, 1000),
            ("sketch_steps", 1, 100),
            ("n_blocks", 1, 32),
            ("cg_iterations", 0, MAX_COLUMNS),
            ("min_feature_rows", 1, MAX_COLUMNS),
        ):
            check_whole(name, getattr(self, name), smallest, largest)
        if self.max_rows is not None:
            check_whole("max_rows", self.max_rows, 1, MAX_COLUMNS)
        for name, choices in (("routing", ("fractional", "hard")), ("solver", ("sketch", "krylov"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name, low, high in (
            ("target_recall", 0.0, 1.0),
            ("smallest_share", 0.0, 0.5),
            ("noise", 0.0, np.inf),
            ("growth_noise", 0.0, np.inf),
            ("prune_below", 0.0, 1.0),
            ("smallest", 0.0, 1.0),
            ("refine_cost", 1e-6, 1e6),
            ("drop_weight", 0.0, 1.0),
            ("drop_share", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not low <= value <= high:
                raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}")

    # ------------------------------------------------------------------------------------------------------------ use

    @property
    def scorer_(self) -> _core.ForestScorer:
        """The forest laid out for scoring, for kernels that build on it; made when first asked for."""
        if self._cached_scorer is None:
            routers, leaves = csr_parts(self.routers_), csr_parts(self.leaf_candidates_)
            lengths = np.zeros(self.children_.size, np.int64)
            lengths[self.leaf_nodes_] = np.diff(leaves.indptr)
            self._cached_scorer = _core.ForestScorer(
                *(self.n_trees, self.children_, self.bias_, self.noise_, *routers, self.n_features_in_),
                *(np.concatenate([[0], np.cumsum(lengths)]), leaves.indices, np.exp(leaves.data), self.n_labels_),
                thread_count(self.n_jobs),
            )
        return self._cached_scorer

    def _keep_scorer(self) -> None:
        """Let go of the matrices, for who needs nothing but the scorer: they are more than twice as large."""
        _ = self.scorer_
        del self.routers_, self.leaf_candidates_

    def candidates(self, X: Any, k: int | None = None) -> sp.csr_array:
        """Return the most probable labels of every example, with their log-probabilities.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        k : int, optional
            How many (of equals the smaller label) to keep of each row; `n_candidates` when left out. Rows whose leaves
            hold fewer have fewer.

        Returns
        -------
        csr_array of shape (n, n_labels), float32
            Stored entries are the candidates; an entry may be 0, which is the logarithm of 1.
        """
        return self._candidates(X, k, self.smallest, 1.0)

    def training_candidates(self, X: Any, k: int | None = None) -> sp.csr_array:
        """Return candidates of the training examples, for a head to learn from, by narrow routes as in growth.

        Training examples lie farther from the boundaries than others, and a head needs hard negatives, not all that
        may ever be met: narrow routes take less time, and the head came out the same (docs/forest.md).

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        k : int, optional
            As in `candidates`.
        """
        scale = self.growth_noise / self.noise if self.refine_rounds > 0 and self.noise > 0 else 1.0
        return self._candidates(X, k, max(self.smallest, self.prune_below), scale)

    def _candidates(self, X: Any, k: int | None, smallest: float, noise_scale: float) -> sp.csr_array:
        parts = csr_parts(self._checked_csr(X))
        k = self.n_candidates if k is None else k
        check_whole("k", k, 1, MAX_COLUMNS)
        n_threads = thread_count(self.n_jobs)
        indptr, labels, scores = self.scorer_.candidates(*parts, k, smallest, noise_scale, n_threads)
        return sp.csr_array((scores, labels, indptr), shape=(indptr.size - 1, self.n_labels_))

    def leaf_probabilities(self, X: Any, smallest: float | None = None) -> sp.csr_array:
        """Return the probability of every leaf: in its tree, over the number of trees; see `Filter.leaf_probabilities`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        smallest : float, optional
            As the parameter `smallest` of the forest, which it is when left out.
        """
        parts = csr_parts(self._checked_csr(X))
        smallest = self.smallest if smallest is None else smallest
        indptr, leaves, values = self.scorer_.leaf_probabilities(*parts, smallest, 1.0, thread_count(self.n_jobs))
        table = sp.csr_array((values / self.n_trees, leaves, indptr), shape=(indptr.size - 1, self.leaf_nodes_.size))
        table.sort_indices()
        return table

    def update(self, X: Any, Y: sp.csr_array, sample_weight: Any = None) -> None:
        """Count the labels of further examples in the leaves that they reach; see `Filter.update`."""
        super().update(X, Y, sample_weight)
        self._cached_scorer = None

    def _likely_leaves(self, X: Any) -> sp.csr_array:
        return sp.csr_array(self.leaf_probabilities(X, max(self.smallest, SMALLEST_ROUTE)) * np.float32(self.n_trees))

    def route(self, X: Any) -> Int32:
        """Return the most probable leaf of every example; see `Filter.route`."""
        return self._choose_leaf(self.leaf_probabilities(X), None)

    def sample_route(self, X: Any, rng: np.random.Generator) -> Int32:
        """Return a random leaf of a random tree for every example; see `Filter.sample_route`."""
        return self._choose_leaf(self.leaf_probabilities(X), rng)

    def paths(self, x: Any) -> list[list[Step]]:
        """Return the most probable way of one example through each tree; see `Filter.paths`."""
        row: Any = self._checked_row(x)
        dense = row.toarray()[0] if is_sparse(row) else row[0]
        return [self._path(dense, tree) for tree in range(self.n_trees)]

    def _path(self, x: Float32, node: int) -> list[Step]:
        way, probability = [], 1.0
        while (child := int(self.children_[node])) >= 0:
            router = slice(*self.routers_.indptr[node : node + 2])
            product = self.routers_.data[router] @ x[self.routers_.indices[router]]
            way.append(Step(node, float(product - self.bias_[node]), probability))
            right = float(probability_right(product, self.bias_[node], self.noise_[node]))
            node = child + (right > 0.5)
            probability *= max(right, 1 - right)
        return [*way, Step(node, 0.0, probability)]

    def _choose_leaf(self, table: sp.csr_array, rng: np.random.Generator | None) -> Int32:
        """Return the leaf of the largest probability in each row, or one drawn by the probabilities."""
        key = table.data.astype(np.float64)
        if rng is not None:
            key = np.log(key) + rng.gumbel(size=key.size)  # the largest of these is drawn by the probabilities
        row = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        order = np.lexsort((-table.indices, key, row))
        return np.asarray(table.indices[order[table.indptr[1:] - 1]], np.int32)

    def _checked_csr(self, X: Any) -> sp.csr_array:
        checked = self._checked(X)
        return checked if is_sparse(checked) else as_csr(checked)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_cached_scorer" in state:
            state["_cached_scorer"] = None  # native, and made again from the arrays
        return state


def _mean_one(weights: Any) -> Float32 | None:
    """Return weights with a mean of 1, which is what pruning is made for."""
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    return np.ascontiguousarray(weights / weights.mean(), np.float32)
