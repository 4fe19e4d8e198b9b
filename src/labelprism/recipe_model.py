"""A model of the default recipe: flat arrays, laid out for prediction, in memory or mapped from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, as_csr, csr_of, csr_parts, row_range
from labelprism._threads import thread_count
from labelprism.filters import SpectralForest
from labelprism.filters.base import Step
from labelprism.heads.blend import BlendWeights
from labelprism.heads.label_clusters import LabelClusters
from labelprism.heads.label_space import label_space
from labelprism.heads.near_examples import near_examples
from labelprism.recipe_calibration import Calibration, log_softmax_by_row
from labelprism.recipe_settings import MOST_CANDIDATES, RecipeSettings

Arrays = dict[str, npt.NDArray[Any]]

_FOREST_TABLES = ("blocks", "tables", "buckets", "dense", "leaf_begin", "leaf_label", "leaf_share")
_VOTE_TABLES = {"vote_begin": np.int64, "vote_label": np.int32, "vote_share": np.uint16}  # older models have none
_LABEL_TABLES = ("lists", "list_labels", "pairs", "words", "near_begin", "near_label", "near_cosine")
_RETIRED_SETTINGS = {
    *("wide_search", "wide_gain", "widest_search", "widest_gain", "trees_in_place_of_clusters"),
    *("more_clusterings", "more_clusterings_from_labels", "more_clusterings_up_to_labels", "space_tolerance"),
    "passes_of_many",
}
_BLOCK_NODES = 7  # forest_tables.hpp
_ALL_ALLOWED = np.zeros(0, np.uint8)
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)


class LabelFacts(NamedTuple):
    """One number of each kind for every label.

    Attributes
    ----------
    bias : float32 array of shape (c,) or (c + clusters,)
        That of the head; after it, the biases of clusters where there are any.
    counts : float64 array of shape (c,)
        The weight of the label's examples.
    norms : float64 array of shape (c,)
        The norm of their sum, of which the centroid is the direction.
    """

    bias: Float32
    counts: npt.NDArray[np.float64]
    norms: npt.NDArray[np.float64]


class Experts(NamedTuple):
    """What is said of candidates, entry by entry."""

    score: Float32
    forest: Float32
    head: Float32
    centroid: Float32
    clusters: Float32
    examples: Float32
    space: Float32


class DefaultRecipe:
    """A model of the default recipe; `fit_default` makes it.

    Parameters
    ----------
    arrays : dict of str to array
        All that was learned; see `recipe_arrays`. They are used as they are, never copied, but for the vectors of
        labels in lists.
    meta : dict
        The rest, fit for JSON.

    Attributes
    ----------
    arrays, meta : dict
    stage_seconds_ : dict of str to float
        How long each stage of training took; empty for models that were not trained here.
    blend_ : BlendWeights
    calibration_ : Calibration
    label_counts_ : float64 array of shape (c,)
        The weight of each label's examples; their number, if examples have no weights.
    bias_ : float32 array of shape (c,)
        That of the head.
    """

    stage_seconds_: dict[str, float]

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
        self.arrays, self.meta = dict(arrays), dict(meta)
        self.stage_seconds_ = {}
        sizes = (_size(meta, name) for name in ("n_features", "n_labels", "n_trees"))
        self.n_features_in_, self.n_labels_, self.n_trees_ = sizes
        self.settings = _known_settings(meta["settings"])
        blend = {
            "unreached": 0.0,
            "clusters": 0.0,
            "examples": 0.0,
            "space": 0.0,
            **meta["blend"],
        }  # older models may not know of these
        self.blend_ = BlendWeights(**{name: _number(blend, name) for name in BlendWeights._fields})
        self.calibration_ = Calibration(**{name: _number(meta["calibration"], name) for name in Calibration._fields})
        self._smallest = _number(meta, "smallest")
        if not 0 <= self._smallest <= 1:
            raise ValueError(f"smallest must be from 0 to 1, got {self._smallest}; the model is damaged")
        self.label_counts_, self.bias_ = self.arrays["label_counts"], self.arrays["head_bias"]
        self._scorer = self._made_scorer()
        self._examples, self._space = near_examples(self.arrays), label_space(self.arrays)
        self._predictor = self._made_predictor(self.settings)
        self._predict_row = self._predictor.predict_row

    def _made_scorer(self) -> _core.ForestScorer:
        tables = [self.arrays[f"forest_{name}"] for name in _FOREST_TABLES]
        _check_children(self.arrays["forest_children"], self.n_trees_, self.arrays["forest_leaf_begin"].size - 1)
        return _core.ForestScorer.from_tables(self.n_trees_, self.n_features_in_, self.n_labels_, *tables)

    def _made_predictor(self, settings: RecipeSettings) -> _core.Predictor:
        counts, blend = self.label_counts_, self.blend_
        if counts.shape != (self.n_labels_,) or counts.dtype != np.float64 or not counts.min() >= 0:
            raise ValueError("label_counts does not fit the labels; the model is damaged")
        if self.bias_.shape != (self.n_labels_,):
            raise ValueError("head_bias must have an entry for every label; the model is damaged")
        tables: Any = [self.arrays[f"label_{name}"] for name in _LABEL_TABLES]
        tables += [self.arrays.get(f"label_{name}", np.zeros(0, dtype)) for name, dtype in _VOTE_TABLES.items()]
        prior = (blend.frequency * np.log1p(counts)).astype(np.float32)
        clusters = self.arrays.get("cluster_of", np.zeros((0, self.n_labels_), np.int32))
        bias = np.concatenate([self.bias_, self.arrays.get("cluster_bias", np.zeros(0, np.float32))])
        arrays: Any = (*tables, clusters, bias, prior, self._examples, self._space)
        return _core.Predictor(
            self._scorer,
            *arrays,
            head_weight=blend.head,
            forest_weight=blend.forest,
            centroid_weight=blend.centroid,
            unreached_weight=blend.unreached,
            clusters_weight=blend.clusters,
            examples_weight=blend.examples,
            space_weight=blend.space,
            forest_candidates=settings.forest_candidates,
            centroid_candidates=settings.centroid_candidates,
            vote_candidates=settings.vote_candidates,
            space_candidates=settings.space_candidates,
            kept_candidates=settings.kept_candidates,
            unit_rows=settings.unit_rows,
            strong_features=settings.strong_features,
        )

    def __getstate__(self) -> dict[str, Any]:  # plain values only: native parts are made anew
        return {"arrays": {name: np.asarray(array) for name, array in self.arrays.items()}, "meta": self.meta}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["arrays"], state["meta"])  # type: ignore[misc]

    # ------------------------------------------------------------------------------------------------------- prediction

    def predict_topk(
        self, X: Any, k: int = 5, n_jobs: int | None = None, allowed: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Int32, Float32]:
        """Return the k best labels of every row, best first, and their scores.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        k : int
            Rows with fewer candidates end in labels of -1 with scores of -inf.
        n_jobs : int, optional
        allowed : bool array of shape (c,), optional
            Which labels may be returned; all that look for candidates do so among these only, and if they
            are no more than the candidates of a row, all of them are.

        Returns
        -------
        int32 and float32 arrays of shape (n, k)
        """
        if allowed is None and (found := self.predict_row(X, k)) is not None:
            return found
        flags = _ALL_ALLOWED if allowed is None else np.ascontiguousarray(allowed, np.uint8)
        parts = csr_parts(self._checked(X))
        return self._predictor.predict(*parts, k, self._smallest, flags, thread_count(n_jobs))

    def predict_row(self, X: Any, k: int) -> tuple[Int32, Float32] | None:
        """Return what `predict_topk` does for a single row, sooner; None for all that is not just as a model has it.

        One row at a time is what a server does; it must not pay for checks that the native core repeats.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, d)
        k : int
        """
        if getattr(X, "format", None) != "csr" or X.shape != (1, self.n_features_in_):
            return None
        indices, data = X.indices, X.data
        if indices.dtype != _INT32 or data.dtype != _FLOAT32 or type(k) is not int or not 0 < k <= MOST_CANDIDATES:
            return None
        labels, scores = np.empty((1, k), _INT32), np.empty((1, k), _FLOAT32)
        self._predict_row(indices, data, self._smallest, labels, scores)
        return labels, scores

    @property
    def most_candidates(self) -> int:
        """How many candidates a row has at most (but for rows without features, of which a space keeps all)."""
        own = self.settings
        found = own.forest_candidates + own.centroid_candidates + own.vote_candidates
        return min(own.kept_candidates if "space_lists" in self.arrays else found, self.n_labels_)

    def candidates(self, X: Any, n_jobs: int | None = None) -> sp.csr_array:
        """Return the candidates of every row, with log p_F.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        n_jobs : int, optional

        Returns
        -------
        csr_array of shape (n, c), float32
            Stored entries are the candidates; labels that the forest does not know of have log 1e-4.
        """
        X = self._checked(X)
        found = self._predictor.find(*csr_parts(X), self._smallest, 1.0, thread_count(n_jobs), scored=False)
        return sp.csr_array((found[2], found[1], found[0]), shape=(X.shape[0], self.n_labels_))

    def training_candidates(self, X: sp.csr_array, n_jobs: int | None = None) -> sp.csr_array:
        """Return candidates of rows that the head is to learn from.

        As many as in `fit_default`, and by routes as narrow.

        Parameters
        ----------
        X : csr_array of shape (n, d)
            Unit rows, where the model makes them so.
        n_jobs : int, optional

        Returns
        -------
        csr_array of shape (n, c)
        """
        narrow = (self.settings.training_smallest, self.settings.training_noise_scale)
        wanted = self.settings.for_examples()
        predictor = self._predictor if wanted == self.settings else self._made_predictor(wanted)
        found = predictor.find(*csr_parts(X), *narrow, thread_count(n_jobs), scored=False)
        return sp.csr_array((found[2], found[1], found[0]), shape=(X.shape[0], self.n_labels_))

    def leaf_probabilities(self, X: sp.csr_array, n_jobs: int | None = None) -> sp.csr_array:
        """Return the probability of every leaf in its tree, by narrow routes, as the head's examples took them.

        Parameters
        ----------
        X : csr_array of shape (n, d)
            Unit rows, where the model makes them so.
        n_jobs : int, optional

        Returns
        -------
        csr_array of shape (n, n_leaves)
        """
        narrow = (self.settings.training_smallest, self.settings.training_noise_scale)
        indptr, leaves, values = self._scorer.leaf_probabilities(*csr_parts(X), *narrow, thread_count(n_jobs))
        n_leaves = self.arrays["forest_leaf_begin"].size - 1
        return sp.csr_array((values, leaves, indptr), shape=(X.shape[0], n_leaves))

    def experts(self, X: Any, candidates: sp.csr_array, n_jobs: int | None = None) -> Experts:
        """Return what the experts say of given candidates, and the blend of it.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        candidates : csr_array of shape (n, c), sorted
            Stored entries are the candidates.
        n_jobs : int, optional

        Returns
        -------
        Experts
            Arrays in the order of the entries: scores, log p_F, margins of the head, cosines, the means of log p of the
            labels' clusters, the logarithms of the votes of near examples and the cosines in the space of features and
            labels; the last three are empty where the model has none.
        """
        X = self._checked(X)
        if candidates.shape != (X.shape[0], self.n_labels_):
            raise ValueError(
                f"candidates must have the rows of X and {self.n_labels_} labels, ({X.shape[0]}, {self.n_labels_}); "
                f"got {candidates.shape}"
            )
        given = np.asarray(candidates.indptr, np.int64), np.asarray(candidates.indices, np.int32)
        return Experts(*self._predictor.score_candidates(*csr_parts(X), *given, self._smallest, thread_count(n_jobs)))

    def score_candidates(self, X: Any, candidates: sp.csr_array, n_jobs: int | None = None) -> sp.csr_array:
        """Return the scores of given candidates: those of `predict_topk`, whether it would have found them or not.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        candidates : csr_array of shape (n, c), sorted
        n_jobs : int, optional

        Returns
        -------
        csr_array of shape (n, c), float32
            With the entries of `candidates`; one may be 0.
        """
        score = self.experts(X, candidates, n_jobs).score
        return sp.csr_array((score, candidates.indices, candidates.indptr), shape=candidates.shape)

    def probabilities(self, scores: sp.csr_array) -> Float32:
        """Return the probability that labels are true, for the scores of all candidates of each row.

        Parameters
        ----------
        scores : csr_array of shape (n, c)
            Stored entries are the candidates.

        Returns
        -------
        float32 array of shape (nnz,)
        """
        slope, row_slope, intercept = self.calibration_
        logit = slope * scores.data + row_slope * log_softmax_by_row(scores) + intercept
        return np.asarray(expit(logit), np.float32)

    def _checked(self, X: Any) -> sp.csr_array:
        X = as_csr(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {self.n_features_in_}")
        return X

    # -------------------------------------------------------------------------------------------------------- inside it

    @cached_property
    def forest_(self) -> SpectralForest:
        """The forest; its routers are read back from the tables when it is first asked for."""
        labels = self.arrays["forest_leaf_label"]
        if labels.size and not 0 <= labels.min() <= labels.max() < self.n_labels_:  # predictions pass over such labels
            raise ValueError("the leaves of the forest hold labels out of range; the model is damaged")
        forest = SpectralForest(n_trees=self.n_trees_, smallest=self._smallest)
        children = self.arrays["forest_children"]
        tables = {name: self.arrays[f"forest_{name}"] for name in _FOREST_TABLES}
        block, place = _places(children, self.n_trees_, tables["blocks"])
        inner = np.flatnonzero(children >= 0)
        floats = tables["blocks"].view(np.float32)
        forest.children_ = children
        forest.bias_, forest.noise_ = (np.zeros(children.size, np.float32) for _ in range(2))
        forest.bias_[inner] = floats[block[inner], 8 + place[inner]]
        forest.noise_[inner] = floats[block[inner], 8 + _BLOCK_NODES + place[inner]]
        indptr, indices, data = self._scorer.routers()
        n_places = indptr.size - 1
        ends = np.append(indptr, indptr[-1])  # one more row, which is empty, for the leaves
        by_place = sp.csr_array((data, indices, ends), shape=(n_places + 1, self.n_features_in_))
        row = np.full(children.size, n_places)
        row[inner] = _BLOCK_NODES * block[inner] + place[inner]
        forest.routers_ = by_place[row]
        forest.leaf_nodes_ = np.flatnonzero(children < 0)
        share = tables["leaf_share"].view(np.float16).astype(np.float32) * self.n_trees_
        leaves = (np.log(np.maximum(share, 1e-12)), labels, tables["leaf_begin"])
        forest.leaf_candidates_ = sp.csr_array(leaves, shape=(forest.leaf_nodes_.size, self.n_labels_))
        forest.n_features_in_ = self.n_features_in_
        forest.leaf_mass_ = self.arrays["forest_leaf_mass"]
        forest._cached_scorer = self._scorer
        return forest

    @cached_property
    def _weights(self) -> tuple[sp.csr_array, sp.csr_array]:
        begin, label, head, centroid = self._predictor.weights()
        n_clusters = self.arrays["cluster_bias"].size if "cluster_bias" in self.arrays else 0
        shape = (self.n_features_in_, self.n_labels_ + n_clusters)
        by_label = (sp.csr_array(sp.csr_array((w, label, begin), shape=shape).T.tocsr()) for w in (head, centroid))
        head_of, centroid_of = by_label
        for matrix in (head_of, centroid_of):
            matrix.eliminate_zeros()
        return head_of, centroid_of

    @property
    def head_(self) -> sp.csr_array:
        """The weights of the head, of shape (c, d)."""
        return row_range(self._weights[0], 0, self.n_labels_)

    @property
    def cluster_weights_(self) -> sp.csr_array:
        """The weights of the classifiers of clusters, of shape (clusters, d)."""
        return row_range(self._weights[0], self.n_labels_, self._weights[0].shape[0])

    @property
    def centroids_(self) -> sp.csr_array:
        """The label centroids, of shape (c, d)."""
        return row_range(self._weights[1], 0, self.n_labels_)

    def head_bias(self, label: int) -> float:
        """Return the bias of a label's classifier."""
        return float(self.bias_[label])

    def head_contributions(self, x: Any, label: int) -> tuple[Int32, Float32]:
        """Return what each feature of a row adds to the margin of a label.

        Parameters
        ----------
        x : sparse matrix or array of shape (1, d)
        label : int

        Returns
        -------
        features : int32 array
        contributions : float32 array
            They and `head_bias` add up to the margin.
        """
        row = self._unit(x)
        n = row.nnz
        each = sp.csr_array((np.ones(n, np.float32), row.indices, np.arange(n + 1)), shape=(n, self.n_features_in_))
        given = sp.csr_array((np.ones(n), np.full(n, label), np.arange(n + 1)), shape=(n, self.n_labels_))
        weights = self.experts(each, given).head - self.bias_[label]
        return row.indices, np.asarray(weights * row.data, np.float32)

    def paths(self, x: Any) -> list[list[Step]]:
        """Return the most probable way of a row through each tree; see `Filter.paths`.

        Parameters
        ----------
        x : sparse matrix or array of shape (1, d)
        """
        return self.forest_.paths(self._unit(x))

    def _unit(self, x: Any) -> sp.csr_array:
        row = self._checked(x)
        if row.shape[0] != 1:
            raise ValueError(f"expected one row, got {row.shape[0]}")
        norm = float(np.sqrt(np.square(row.data, dtype=np.float64).sum()))
        if not self.settings.unit_rows or norm == 0:
            return row
        return sp.csr_array((row.data / np.float32(norm), row.indices, row.indptr), shape=row.shape)


def _known_settings(given: Mapping[str, Any]) -> RecipeSettings:
    """Return the settings of a model, which may be older than votes, and have settings that are no more."""
    before: dict[str, float] = {
        "vote_candidates": 0,
        "label_clusterings": 0,
        "longest_example_list": 0,
        "space_passes": 0,
    }
    before |= {"space_candidates": 0, "kept_candidates": 0, "mined_every": 0, "longest_own_list": 0.0}
    before |= {"training_votes": given.get("vote_candidates", 0), "training_share": 1.0}
    settings = RecipeSettings(**{**before, **{k: v for k, v in given.items() if k not in _RETIRED_SETTINGS}})
    try:
        settings._check()
    except ValueError as error:
        raise ValueError(f"{error}; the model is damaged") from None
    return settings


def forest_tables(forest: SpectralForest) -> Arrays:
    """Return the arrays of a fitted forest; see `recipe_arrays`."""
    tables = forest.scorer_.tables()
    return {
        "forest_children": forest.children_,
        "forest_leaf_mass": forest.leaf_mass_,
        **{f"forest_{name}": tables[name] for name in _FOREST_TABLES},
    }


def recipe_arrays(
    forest: Arrays, head: sp.csr_array, centre: sp.csr_array, labels: LabelFacts, settings: RecipeSettings,
    clusters: LabelClusters | None = None, n_threads: int = 1,
) -> Arrays:  # fmt: skip
    """Return the arrays of a model.

    Parameters
    ----------
    forest : dict of str to array
        As from `forest_tables`.
    head : csr_array of shape (c, d) or (c + clusters, d)
        The weights of the head, after them those of clusters where there are any.
    centre : csr_array of shape (c, d)
        The centroids.
    labels : LabelFacts
    settings : RecipeSettings
        How long the lists of labels are that retrieval looks at.
    clusters : LabelClusters, optional
    n_threads : int
        The result does not depend on it.
    """
    c = centre.shape[0]
    of_clusters = {} if clusters is None else {"cluster_of": clusters.of_label, "cluster_bias": labels.bias[c:]}
    return {
        **forest,
        **label_arrays(head, centre, labels.norms, settings, n_threads),
        **of_clusters,
        "head_bias": labels.bias[:c],
        "label_counts": labels.counts,
        "label_norms": labels.norms,
    }


def label_arrays(
    head: sp.csr_array, centre: sp.csr_array, norms: npt.NDArray[np.float64], settings: RecipeSettings,
    n_threads: int = 1,
) -> Arrays:  # fmt: skip
    """Return the arrays of head, centroids and votes; see `recipe_arrays`."""
    if head.shape[0] > centre.shape[0]:  # clusters have no centroids
        ends = np.full(head.shape[0] - centre.shape[0], centre.indptr[-1], centre.indptr.dtype)
        centre = csr_of(np.concatenate([centre.indptr, ends]), centre.indices, centre.data, head.shape)
    near = settings.longest_list if settings.centroid_candidates else 0
    votes = settings.longest_vote_list if settings.vote_candidates else 0
    longest = (centre.shape[1], near, votes)
    # Those of clusters are too long to be read label by label.
    by_label = norms.size == head.shape[0] and head.nnz + centre.nnz <= settings.longest_own_list * norms.size
    if settings.kept_candidates and by_label:
        head, centre = (matrix if matrix.has_sorted_indices else matrix.sorted_indices() for matrix in (head, centre))
    else:
        by_label = False
    tables = _core.Predictor.tables_of(*csr_parts(centre), *csr_parts(head), norms, *longest, by_label, n_threads)
    return {f"label_{name}": tables[name] for name in (*_LABEL_TABLES, *_VOTE_TABLES)}


def recipe_meta(
    shape: tuple[int, int], forest: SpectralForest, blend: BlendWeights, calibration: Calibration,
    settings: RecipeSettings,
) -> dict[str, Any]:  # fmt: skip
    """Return what `DefaultRecipe` needs beside the arrays; shape is (c, d)."""
    chosen = {f.name: getattr(settings, f.name) for f in fields(settings)}
    chosen |= {name: dict(own) for name, own in chosen.items() if isinstance(own, Mapping)}
    return {
        "n_features": int(shape[1]),
        "n_labels": int(shape[0]),
        "n_trees": int(forest.n_trees),
        "smallest": float(forest.smallest),
        "blend": blend._asdict(),
        "calibration": calibration._asdict(),
        "settings": chosen,
    }


def _places(children: Int32, n_trees: int, blocks: Int32) -> tuple[Int64, Int64]:
    """Return the block of every inner node and its place there, as forest_tables.cpp numbers them."""
    block, place = (np.zeros(children.size, np.int64) for _ in range(2))
    level = np.arange(n_trees)
    block[:n_trees] = level
    first_next = blocks.shape[1] - (2 * _BLOCK_NODES + 1)
    while (level := level[children[level] >= 0]).size:
        below = []
        for side in range(2):
            child, at = children[level] + side, 2 * place[level] + 1 + side
            inside = at < _BLOCK_NODES
            block[child] = np.where(inside, block[level], blocks[block[level], first_next + at])
            place[child] = np.where(inside, at, 0)
            below.append(child)
        level = np.concatenate(below)
    return block, place


def _check_children(children: Int32, n_trees: int, n_leaves: int) -> None:
    """Make sure that every node but the roots is the child of one node before it, and that the leaves are as many."""
    inner = np.flatnonzero(children >= 0)
    left = np.sort(children[inner])
    pairs_follow_the_roots = n_trees + 2 * np.arange(inner.size)
    if (
        children.dtype != np.int32
        or children.size != n_trees + 2 * inner.size
        or children.size - inner.size != n_leaves
        or not np.array_equal(left, pairs_follow_the_roots)
        or not (children[inner] > inner).all()
    ):
        raise ValueError("the nodes of the forest do not fit together; the model is damaged")


def _number(meta: Mapping[str, Any], name: str) -> float:
    value = meta[name]
    if type(value) not in (int, float) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}; the model is damaged")
    return float(value)


def _size(meta: Mapping[str, Any], name: str) -> int:
    value = meta[name]
    if type(value) is not int or not 0 < value < 1 << 31:
        raise ValueError(f"{name} must be a whole number from 1 to 2147483647, got {value!r}; the model is damaged")
    return value
