"""The default recipe: a forest as F, one-vs-rest classifiers as H, label centroids, and a learned blend of all three.

A tenth of the rows, at most 1,500, is held out from forest, centroids and head alike, and the blend is learned on what
the three say of these rows. Then centroids and head take them in: the head goes on from where it was, which costs
little, and the forest stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, as_csr, as_label_matrix, csr_parts
from labelprism._threads import thread_count
from labelprism.filters import SpectralForest
from labelprism.heads.blend import DEFAULT_BLEND, BlendWeights, is_true_label, learn_blend, log_head
from labelprism.heads.centroids import centroids, label_sums
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.metrics import inverse_propensity

Objective = Literal["precision", "propensity"]
Arrays = dict[str, npt.NDArray[Any]]

_MOST_MORE_CANDIDATES = 50  # however many labels a row has


@dataclass(frozen=True)
class RecipeSettings:
    """Every choice of the recipe, so that the effect of each step can be measured.

    Parameters
    ----------
    forest, head : dict
        Parameters of `SpectralForest` and `OneVsRestHead` that differ from their defaults.
    forest_candidates, centroid_candidates : int
        How many candidates the forest and the centroids bring in; 0 centroids: without them.
    training_candidates : int
        The same of the forest for the examples that the head learns from.
    candidates_per_label : float
        So many more of both for every label that rows have on average beyond the first, at most 50 more.
    centroid_features : int
        How many features a centroid keeps.
    longest_list : int
        Centroids are looked for among so many labels of each feature, those of its largest values.
    wide_search : tuple of two ints
        What `centroid_candidates` and `longest_list` become where that finds more: see `wide_gain`.
    wide_gain : float
        By how much of the held-out rows' labels the wide search must find more for it to be taken; with 1 or more it
        is not tried.
    held_out : int
        The most rows that the blend is learned on.
    training_smallest, training_noise_scale : float
        How widely the forest routes the examples that the head learns from; see `SpectralForest.training_candidates`.
    use_head, use_learned_blend : bool
        Whether there is a head; whether the blend is learned, or `heads.blend.DEFAULT_BLEND`.
    unit_rows : bool
        Whether rows are made unit first.
    """

    forest: Mapping[str, Any] = field(default_factory=lambda: {"n_trees": 3, "stop_labels": 30, "smallest": 0.1})
    head: Mapping[str, Any] = field(default_factory=dict)
    forest_candidates: int = 50
    training_candidates: int = 50
    candidates_per_label: float = 5.0
    centroid_candidates: int = 10
    centroid_features: int = 200
    longest_list: int = 64
    wide_search: tuple[int, int] = (20, 256)
    wide_gain: float = 0.015
    held_out: int = 1500
    training_smallest: float = 0.4
    training_noise_scale: float = 0.33
    use_head: bool = True
    use_learned_blend: bool = True
    unit_rows: bool = True


PRESETS: dict[str, RecipeSettings] = {
    "default": RecipeSettings(),
    "fast": RecipeSettings(
        forest={"n_trees": 1, "stop_labels": 50, "smallest": 0.05},
        head={"passes": 3, "rare_examples": 10.0},
        candidates_per_label=0.0,
        wide_gain=1.0,
        held_out=700,
    ),
}


class _Rows(NamedTuple):
    """The training rows, those that are held out last."""

    X: sp.csr_array
    Y: sp.csr_array
    n_seen: int

    @property
    def seen(self) -> tuple[sp.csr_array, sp.csr_array]:
        return self.X[: self.n_seen], self.Y[: self.n_seen]

    @property
    def held_out(self) -> tuple[sp.csr_array, sp.csr_array]:
        return self.X[self.n_seen :], self.Y[self.n_seen :]


class _Found(NamedTuple):
    """Candidates of all rows, and what forest and centroids say of those of held-out rows, the last ones."""

    indptr: Int64
    labels: Int32
    log_forest: Float32
    cosine: Float32


class DefaultRecipe:
    """A model of the default recipe; `fit_default` makes it.

    Attributes
    ----------
    stage_seconds_ : dict of str to float
        How long each stage of training took; empty for models made by `from_arrays`.
    blend_ : BlendWeights
    """

    stage_seconds_: dict[str, float]

    def __init__(
        self, forest: SpectralForest, head: sp.csr_array, bias: Float32, centre: sp.csr_array, counts: Int64,
        blend: BlendWeights, settings: RecipeSettings,
    ) -> None:  # fmt: skip
        self.forest_, self.head_, self.bias_, self.centroids_ = forest, head, bias, centre
        self.label_counts_, self.blend_, self.settings = counts, blend, settings
        self.stage_seconds_ = {}
        self.n_features_in_ = int(centre.shape[1])
        self.n_labels_ = int(centre.shape[0])
        self._predictor = _predictor(forest, centre, head, bias, counts, blend, settings)
        self._predict_row = self._predictor.predict_row
        self._smallest = float(forest.smallest)

    def predict_topk(self, X: Any, k: int = 5, n_jobs: int | None = None) -> tuple[Int32, Float32]:
        """Return the k best labels of every row, best first, and their scores.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        k : int
            Rows with fewer candidates end in labels of -1 with scores of -inf.
        n_jobs : int, optional

        Returns
        -------
        int32 and float32 arrays of shape (n, k)
        """
        # One row at a time is what a server does; it must not pay for checks that the native core repeats.
        if getattr(X, "format", None) == "csr" and X.shape == (1, self.n_features_in_) and X.dtype == np.float32:
            indices = X.indices
            if indices.dtype == np.int32:
                return self._predict_row(indices, X.data, k, self._smallest)
        X = as_csr(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {self.n_features_in_}")
        return self._predictor.predict(*csr_parts(X), k, self._smallest, thread_count(n_jobs))

    def arrays(self) -> Arrays:
        """Return all that the model has learned as flat arrays."""
        forest = self.forest_
        scale = _row_largest(forest.routers_) / np.float32(127)
        codes = forest.routers_.data / np.repeat(np.where(scale > 0, scale, 1), np.diff(forest.routers_.indptr))
        return {
            "forest_children": forest.children_,
            "forest_bias": forest.bias_,
            "forest_noise": forest.noise_,
            **_packed("forest_routers", forest.routers_, np.rint(codes).astype(np.int8)),
            "forest_routers_scale": scale,
            **_packed("forest_leaves", forest.leaf_candidates_, forest.leaf_candidates_.data.astype(np.float16)),
            **_packed("head", self.head_, self.head_.data.astype(np.float16)),
            "head_bias": self.bias_,
            **_packed("centroids", self.centroids_, self.centroids_.data.astype(np.float16)),
            "label_counts": self.label_counts_,
        }

    def meta(self) -> dict[str, Any]:
        """Return what `from_arrays` needs beside the arrays, fit for JSON."""
        settings = {f.name: getattr(self.settings, f.name) for f in fields(self.settings)}
        settings.update(forest=dict(self.settings.forest), head=dict(self.settings.head))
        return {
            "n_features": self.n_features_in_,
            "n_labels": self.n_labels_,
            "n_trees": int(self.forest_.n_trees),
            "smallest": self._smallest,
            "blend": self.blend_._asdict(),
            "settings": settings,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> DefaultRecipe:
        """Make a model of what `arrays` and `meta` returned; predictions are the same to the bit."""
        d, c, n_trees = (_size(meta, name) for name in ("n_features", "n_labels", "n_trees"))
        smallest = float(meta["smallest"])
        if not 0 <= smallest <= 1:
            raise ValueError(f"smallest must be from 0 to 1, got {smallest}; the model is damaged")
        forest = SpectralForest(n_trees=n_trees, smallest=smallest)
        children = np.ascontiguousarray(arrays["forest_children"])
        routers = _unpacked("forest_routers", arrays, d)
        leaves = _unpacked("forest_leaves", arrays, c)
        data = routers.data * np.repeat(np.asarray(arrays["forest_routers_scale"]), np.diff(routers.indptr))
        forest.children_ = children
        forest.bias_, forest.noise_ = (np.ascontiguousarray(arrays[f"forest_{name}"]) for name in ("bias", "noise"))
        forest.routers_ = sp.csr_array((data, routers.indices, routers.indptr), shape=routers.shape)
        forest.leaf_nodes_ = np.flatnonzero(children < 0)
        forest.leaf_candidates_ = leaves
        forest.n_features_in_ = d
        forest._cached_scorer = None
        return cls(
            forest,
            _unpacked("head", arrays, d),
            np.ascontiguousarray(arrays["head_bias"]),
            _unpacked("centroids", arrays, d),
            np.ascontiguousarray(arrays["label_counts"]),
            BlendWeights(**meta["blend"]),
            RecipeSettings(**meta["settings"]),
        )


def fit_default(
    X: Any,
    Y: Any,
    *,
    preset: str | RecipeSettings = "default",
    objective: Objective = "precision",
    n_jobs: int | None = None,
    random_state: int = 0,
) -> DefaultRecipe:
    """Train the default recipe.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, d)
        Made unit row by row inside.
    Y : sparse matrix or array of shape (n, c)
    preset : {"default", "fast"} or RecipeSettings
    objective : {"precision", "propensity"}
        What the blend is learned for: nDCG and precision, or their propensity-scored kin, which favour rare labels.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int
    """
    if objective not in ("precision", "propensity"):
        raise ValueError(f'objective must be "precision" or "propensity", got {objective!r}')
    if isinstance(preset, str) and preset not in PRESETS:
        raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {preset!r}")
    settings = PRESETS[preset] if isinstance(preset, str) else preset
    X, Y = as_csr(X), as_label_matrix(Y)
    if X.shape[0] != Y.shape[0] or X.shape[0] == 0 or Y.shape[1] == 0:
        raise ValueError(f"X and Y must have the same rows, at least one, and labels; got {X.shape} and {Y.shape}")
    return _Training(settings, objective, n_jobs, random_state).run(X, Y)


class _Training:
    """The stages of `fit_default`."""

    def __init__(self, settings: RecipeSettings, objective: Objective, n_jobs: int | None, seed: int) -> None:
        self.settings, self.objective, self.n_jobs, self.seed = settings, objective, n_jobs, seed
        self.n_threads = thread_count(n_jobs)
        self.seconds: dict[str, float] = {}
        self._since = perf_counter()

    def run(self, X: sp.csr_array, Y: sp.csr_array) -> DefaultRecipe:
        rows = self._split(normalize(X) if self.settings.unit_rows else X, Y)
        self._ask_for_more_candidates(Y.nnz / Y.shape[0])
        self._note("split")
        forest = SpectralForest(**self.settings.forest, n_jobs=self.n_jobs, random_state=self.seed).fit(*rows.seen)
        leaves = forest.leaf_candidates_
        leaves.data = _rounded(leaves.data)
        self._note("forest")
        sums = label_sums(*rows.seen)
        centre = self._centroids(sums)
        self._note("centroids")
        found = self._candidates(forest, centre, rows)
        self._note("candidates")
        head = self._head(rows, found)
        self._note("head")
        blend = self._blend(rows, found, head)
        self._note("blend")
        if rows.n_seen < X.shape[0]:
            sums = sp.csr_array(sums + label_sums(*rows.held_out))
            sums.sort_indices()
            centre = self._centroids(sums)
        counts = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        model = DefaultRecipe(forest, head.weights_, head.bias_, centre, counts, blend, self.settings)
        self._note("layout")
        model.stage_seconds_ = self.seconds
        return model

    def _ask_for_more_candidates(self, labels_per_row: float) -> None:
        """Ask for more candidates where rows have several labels: the wrong ones among them are what the head needs."""
        settings = self.settings
        more = min(round(settings.candidates_per_label * max(labels_per_row - 1, 0)), _MOST_MORE_CANDIDATES)
        self.settings = replace(
            settings,
            forest_candidates=settings.forest_candidates + more,
            training_candidates=settings.training_candidates + more,
        )

    def _note(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage], self._since = now - self._since, now

    def _split(self, X: sp.csr_array, Y: sp.csr_array) -> _Rows:
        n = X.shape[0]
        n_held_out = min(n // 10, self.settings.held_out) if self.settings.use_learned_blend else 0
        if n_held_out == 0:
            return _Rows(X, Y, n)
        drawn = np.random.default_rng(self.seed).permutation(n)[:n_held_out]
        is_held_out = np.zeros(n, bool)
        is_held_out[drawn] = True
        order = np.concatenate([np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)])
        return _Rows(X[order], Y[order], n - n_held_out)

    def _centroids(self, sums: sp.csr_array) -> sp.csr_array:
        longest = int(np.diff(sums.indptr).max(initial=1))
        found = centroids(sums, max(min(self.settings.centroid_features, longest), 1), self.n_threads)
        found.data = _rounded(found.data)
        return found

    def _candidates(self, forest: SpectralForest, centre: sp.csr_array, rows: _Rows) -> _Found:
        """Candidates of the seen rows by narrow routes, for the head; of the held-out rows as in prediction."""
        native = self._finder(forest, centre, self.settings)
        held = self._held_out(native, forest, rows)
        if held is not None and self.settings.centroid_candidates and self.settings.wide_gain < 1:
            n_candidates, longest_list = self.settings.wide_search
            wide = replace(self.settings, centroid_candidates=n_candidates, longest_list=longest_list)
            wide_native = self._finder(forest, centre, wide)
            wide_held = self._held_out(wide_native, forest, rows)
            Y = rows.held_out[1]
            found, wide_found = (is_true_label(h[0], h[1], Y).sum() for h in (held, wide_held))
            if wide_found - found > self.settings.wide_gain * Y.nnz:
                native, held, self.settings = wide_native, wide_held, wide
        narrow = (self.settings.training_smallest, self.settings.training_noise_scale)
        # Of the seen rows, which are many, only the labels are kept.
        indptr, labels = native.find(*csr_parts(rows.seen[0]), *narrow, self.n_threads, scored=False)[:2]
        if held is None:
            return _Found(indptr, labels, np.zeros(0, np.float32), np.zeros(0, np.float32))
        indptr = np.concatenate([indptr, held[0][1:] + indptr[-1]])
        return _Found(indptr, np.concatenate([labels, held[1]]), *held[2:4])

    def _finder(self, forest: SpectralForest, centre: sp.csr_array, settings: RecipeSettings) -> _core.Predictor:
        """Return a predictor without a head, for rows that are unit already."""
        c, d = centre.shape
        nothing = sp.csr_array((c, d), dtype=np.float32)
        settings = replace(settings, unit_rows=False, forest_candidates=settings.training_candidates)
        return _predictor(
            forest, centre, nothing, np.zeros(c, np.float32), np.zeros(c, np.int64), DEFAULT_BLEND, settings
        )

    def _held_out(self, native: _core.Predictor, forest: SpectralForest, rows: _Rows) -> Any:
        """Return the candidates of the held-out rows with what forest and centroids say; None where there are none."""
        if rows.n_seen == rows.X.shape[0]:
            return None
        return native.find(*csr_parts(rows.held_out[0]), forest.smallest, 1.0, self.n_threads)

    def _head(self, rows: _Rows, found: _Found) -> OneVsRestHead:
        head = OneVsRestHead(**self.settings.head, n_jobs=self.n_jobs, random_state=self.seed)
        if not self.settings.use_head:
            n, c = rows.Y.shape
            head.weights_ = sp.csr_array((c, rows.X.shape[1]), dtype=np.float32)
            head.bias_ = np.zeros(c, np.float32)
            head.held_out_margins_ = sp.csr_array((n, c), dtype=np.float32)
            return head
        is_held_out = np.zeros(rows.X.shape[0], np.uint8)
        is_held_out[rows.n_seen :] = 1
        head._fit(rows.X, rows.Y, found.indptr, found.labels, is_held_out)
        head.weights_.data = _rounded(head.weights_.data)
        return head

    def _blend(self, rows: _Rows, found: _Found, head: OneVsRestHead) -> BlendWeights:
        if rows.n_seen == rows.X.shape[0]:
            return DEFAULT_BLEND
        Y = rows.held_out[1]
        first = found.indptr[rows.n_seen]
        indptr, labels = found.indptr[rows.n_seen :] - first, found.labels[first:]
        margin = _values_at(head.held_out_margins_[rows.n_seen :], indptr, labels)
        counts = np.bincount(rows.seen[1].indices, minlength=Y.shape[1])
        said = (log_head(margin), found.log_forest, found.cosine, np.log1p(counts[labels]))
        features = np.stack(said, axis=1).astype(np.float64)
        importance = inverse_propensity(rows.Y)[labels] if self.objective == "propensity" else None
        return learn_blend(indptr, features, is_true_label(indptr, labels, Y), np.diff(Y.indptr), importance)


def _predictor(
    forest: SpectralForest, centre: sp.csr_array, head: sp.csr_array, bias: Float32, counts: Int64,
    blend: BlendWeights, settings: RecipeSettings,
) -> _core.Predictor:  # fmt: skip
    prior = (blend.frequency * np.log1p(counts)).astype(np.float32)
    return _core.Predictor(
        *(forest.scorer_, *csr_parts(centre), *csr_parts(head), bias, prior),
        head_weight=blend.head,
        forest_weight=blend.forest,
        centroid_weight=blend.centroid,
        forest_candidates=settings.forest_candidates,
        centroid_candidates=settings.centroid_candidates,
        longest_list=settings.longest_list,
        unit_rows=settings.unit_rows,
    )


def _values_at(matrix: sp.csr_array, indptr: Int64, columns: Int32) -> Float32:
    """Return the entries of a CSR matrix at given columns of its rows, 0 where there is none."""
    matrix.sort_indices()
    c = np.int64(matrix.shape[1])
    stored = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * c + matrix.indices
    asked = np.repeat(np.arange(matrix.shape[0]), np.diff(indptr)) * c + columns
    at = np.searchsorted(stored, asked)
    found = np.append(stored, -1)[at] == asked
    return np.asarray(np.where(found, np.append(matrix.data, np.float32(0))[at], np.float32(0)), np.float32)


def _rounded(values: Float32) -> Float32:
    """Round to what the model directory stores, so that a saved model predicts the same to the bit."""
    return values.astype(np.float16).astype(np.float32)


def _row_largest(matrix: sp.csr_array) -> Float32:
    largest = np.zeros(matrix.shape[0], np.float32)
    filled = np.flatnonzero(np.diff(matrix.indptr))
    if filled.size:
        largest[filled] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[filled])
    return largest


def _packed(name: str, matrix: sp.csr_array, values: npt.NDArray[Any]) -> Arrays:
    columns = matrix.indices.astype(np.uint16 if matrix.shape[1] <= 1 << 16 else np.int32)
    lengths = np.diff(matrix.indptr).astype(np.int32)
    return {f"{name}_lengths": lengths, f"{name}_columns": columns, f"{name}_values": values}


def _size(meta: Mapping[str, Any], name: str) -> int:
    value = meta[name]
    if type(value) is not int or not 0 < value < 1 << 31:
        raise ValueError(f"{name} must be a whole number from 1 to 2147483647, got {value!r}; the model is damaged")
    return value


def _unpacked(name: str, arrays: Mapping[str, npt.NDArray[Any]], n_columns: int) -> sp.csr_array:
    lengths = np.asarray(arrays[f"{name}_lengths"])
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    columns = np.asarray(arrays[f"{name}_columns"]).astype(np.int32)
    values = np.asarray(arrays[f"{name}_values"]).astype(np.float32)
    if (lengths < 0).any() or indptr[-1] != columns.size or columns.size != values.size:
        raise ValueError(f"the arrays {name} of the model do not fit together; it is damaged")
    if columns.size and not 0 <= int(columns.min()) <= int(columns.max()) < n_columns:
        raise ValueError(f"the arrays {name} of the model hold columns out of range; it is damaged")
    return sp.csr_array((values, columns, indptr), shape=(lengths.size, n_columns))
