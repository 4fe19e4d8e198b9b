"""The default recipe: a forest as F, one-vs-rest classifiers as H, label centroids, and a learned blend of all three.

A tenth of the rows, at most 1,500, is held out from forest, centroids and head alike, and the blend is learned on what
the three say of these rows. Then centroids and head take them in: the head goes on from where it was, which costs
little, and the forest stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, as_csr, as_label_matrix, csr_parts
from labelprism._threads import thread_count
from labelprism._weights import check_sample_weight, weighted_rows
from labelprism.filters import SpectralForest
from labelprism.heads.blend import DEFAULT_BLEND, BlendWeights, is_true_label, learn_blend, log_head
from labelprism.heads.centroids import centroids, label_sums, row_norms
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.metrics import inverse_propensity
from labelprism.recipe_model import (
    Calibration,
    DefaultRecipe,
    LabelFacts,
    label_arrays,
    log_softmax_by_row,
    recipe_arrays,
    recipe_meta,
)
from labelprism.recipe_settings import PRESETS, RecipeSettings

__all__ = ["PRESETS", "DefaultRecipe", "RecipeSettings", "fit_default"]

Objective = Literal["precision", "propensity"]
Float64 = npt.NDArray[np.float64]
ValidationRows = tuple[sp.csr_array, sp.csr_array]

_MOST_MORE_CANDIDATES = 50  # however many labels a row has
_FEWEST_TO_CALIBRATE = 10  # true and wrong candidates each


class _Rows(NamedTuple):
    """All rows, those that are held out last."""

    X: sp.csr_array
    Y: sp.csr_array
    weight: Float32 | None
    n_seen: int
    is_joined: bool  # whether held-out rows are learned from in the end

    @property
    def seen(self) -> _Part:
        return self._part(slice(self.n_seen))

    @property
    def held_out(self) -> _Part:
        return self._part(slice(self.n_seen, None))

    @property
    def learned(self) -> _Part:
        return self._part(slice(None if self.is_joined else self.n_seen))

    def _part(self, rows: slice) -> _Part:
        return _Part(self.X[rows], self.Y[rows], None if self.weight is None else self.weight[rows])


class _Part(NamedTuple):
    """Some of the rows."""

    X: sp.csr_array
    Y: sp.csr_array
    weight: Float32 | None


class _Found(NamedTuple):
    """Candidates of all rows, and what forest and centroids say of those of held-out rows, the last ones."""

    indptr: Int64
    labels: Int32
    log_forest: Float32
    cosine: Float32


def fit_default(
    X: Any,
    Y: Any,
    *,
    preset: str | RecipeSettings = "default",
    objective: Objective = "precision",
    n_jobs: int | None = None,
    random_state: int = 0,
    sample_weight: npt.ArrayLike | None = None,
    validation: tuple[Any, Any] | None = None,
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
    sample_weight : array-like of shape (n,), optional
        How much each row counts, 0 or more: in the forest, the centroids, the head's loss and the labels' frequencies.
    validation : tuple of X and Y, optional
        Rows that the blend is learned on and nothing else, instead of held-out training rows.
    """
    if objective not in ("precision", "propensity"):
        raise ValueError(f'objective must be "precision" or "propensity", got {objective!r}')
    if isinstance(preset, str) and preset not in PRESETS:
        raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {preset!r}")
    settings = PRESETS[preset] if isinstance(preset, str) else preset
    X, Y = as_csr(X), as_label_matrix(Y)
    if X.shape[0] != Y.shape[0] or X.shape[0] == 0 or Y.shape[1] == 0:
        raise ValueError(f"X and Y must have the same rows, at least one, and labels; got {X.shape} and {Y.shape}")
    X, Y, given = weighted_rows(X, Y, check_sample_weight(sample_weight, X.shape[0]))
    weight = None if given is None else given.astype(np.float32)
    checked = None if validation is None else _checked_validation(*validation, X.shape[1], Y.shape[1])
    return _Training(settings, objective, n_jobs, random_state).run(X, Y, weight, checked)


def _checked_validation(X: Any, Y: Any, d: int, c: int) -> ValidationRows:
    X, Y = as_csr(X, "X of validation"), as_label_matrix(Y, "Y of validation")
    if X.shape[0] != Y.shape[0] or X.shape[0] == 0 or (X.shape[1], Y.shape[1]) != (d, c):
        raise ValueError(
            f"validation must have {d} features and {c} labels, and the same rows in X and Y, at least one; "
            f"got {X.shape} and {Y.shape}"
        )
    return X, Y


class _Training:
    """The stages of `fit_default`."""

    def __init__(self, settings: RecipeSettings, objective: Objective, n_jobs: int | None, seed: int) -> None:
        self.settings, self.objective, self.n_jobs, self.seed = settings, objective, n_jobs, seed
        self.n_threads = thread_count(n_jobs)
        self.seconds: dict[str, float] = {}
        self._since = perf_counter()

    def run(
        self, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, validation: ValidationRows | None
    ) -> DefaultRecipe:
        rows = self._split(X, Y, weight) if validation is None else self._joined(X, Y, weight, *validation)
        self._ask_for_more_candidates(Y.nnz / Y.shape[0])
        self._note("split")
        forest = SpectralForest(**self.settings.forest, n_jobs=self.n_jobs, random_state=self.seed).fit(*rows.seen)
        self._note("forest")
        sums = label_sums(*rows.seen)
        norms = row_norms(sums)
        centre = centroids(sums, norms, self.settings.centroid_features, self.n_threads)
        self._note("centroids")
        found = self._candidates(forest, centre, rows)
        self._note("candidates")
        head = self._head(rows, found)
        self._note("head")
        blend, calibration = self._blend(rows, found, head)
        self._note("blend")
        if rows.is_joined and rows.n_seen < rows.X.shape[0]:
            sums = sp.csr_array(sums + label_sums(*rows.held_out))
            sums.sort_indices()
            norms = row_norms(sums)
            centre = centroids(sums, norms, self.settings.centroid_features, self.n_threads)
        labels = LabelFacts(head.bias_, _label_counts(rows.learned), norms)
        arrays = recipe_arrays(forest, head.weights_, centre, labels, self.settings.longest_list)
        model = DefaultRecipe(arrays, recipe_meta(centre.shape, forest, blend, calibration, self.settings))
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

    def _unit(self, X: sp.csr_array) -> sp.csr_array:
        return normalize(X) if self.settings.unit_rows and X.shape[1] else X

    def _joined(
        self, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, X_held: sp.csr_array, Y_held: sp.csr_array
    ) -> _Rows:
        """Return training rows, and validation rows after them."""
        all_X, all_Y = (sp.csr_array(sp.vstack(pair, "csr")) for pair in ((X, X_held), (Y, Y_held)))
        if weight is not None:
            weight = np.concatenate([weight, np.ones(X_held.shape[0], np.float32)])
        return _Rows(self._unit(all_X), all_Y, weight, X.shape[0], False)

    def _split(self, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None) -> _Rows:
        X, n = self._unit(X), X.shape[0]
        n_held_out = min(n // 10, self.settings.held_out) if self.settings.use_learned_blend else 0
        if n_held_out == 0:
            return _Rows(X, Y, weight, n, True)
        drawn = np.random.default_rng(self.seed).permutation(n)[:n_held_out]
        is_held_out = np.zeros(n, bool)
        is_held_out[drawn] = True
        order = np.concatenate([np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)])
        return _Rows(X[order], Y[order], None if weight is None else weight[order], n - n_held_out, True)

    def _candidates(self, forest: SpectralForest, centre: sp.csr_array, rows: _Rows) -> _Found:
        """Candidates of the seen rows by narrow routes, for the head; of the held-out rows as in prediction."""
        native = self._finder(forest, centre, self.settings)
        held = self._held_out(native, forest, rows)
        if held is not None and self.settings.centroid_candidates and self.settings.wide_gain < 1:
            n_candidates, longest_list = self.settings.wide_search
            wide = replace(self.settings, centroid_candidates=n_candidates, longest_list=longest_list)
            wide_native = self._finder(forest, centre, wide)
            wide_held = self._held_out(wide_native, forest, rows)
            Y = rows.held_out.Y
            found, wide_found = (is_true_label(h[0], h[1], Y).sum() for h in (held, wide_held))
            if wide_found - found > self.settings.wide_gain * Y.nnz:
                native, held, self.settings = wide_native, wide_held, wide
        narrow = (self.settings.training_smallest, self.settings.training_noise_scale)
        # Of the seen rows, which are many, only the labels are kept.
        indptr, labels = native.find(*csr_parts(rows.seen.X), *narrow, self.n_threads, scored=False)[:2]
        if held is None:
            return _Found(indptr, labels, np.zeros(0, np.float32), np.zeros(0, np.float32))
        indptr = np.concatenate([indptr, held[0][1:] + indptr[-1]])
        return _Found(indptr, np.concatenate([labels, held[1]]), *held[2:4])

    def _finder(self, forest: SpectralForest, centre: sp.csr_array, settings: RecipeSettings) -> _core.Predictor:
        """Return a predictor without a head, for rows that are unit already."""
        nothing = sp.csr_array(centre.shape, dtype=np.float32)
        zeros = np.zeros(centre.shape[0], np.float32)
        arrays: Any = (*label_arrays(nothing, centre, settings.longest_list).values(), zeros, zeros)
        return _core.Predictor(
            forest.scorer_,
            *arrays,
            head_weight=0.0,
            forest_weight=1.0,
            centroid_weight=1.0,
            forest_candidates=settings.training_candidates,
            centroid_candidates=settings.centroid_candidates,
            unit_rows=False,
        )

    def _held_out(self, native: _core.Predictor, forest: SpectralForest, rows: _Rows) -> Any:
        """Return the candidates of the held-out rows with what forest and centroids say; None where there are none."""
        if rows.n_seen == rows.X.shape[0]:
            return None
        return native.find(*csr_parts(rows.held_out.X), forest.smallest, 1.0, self.n_threads)

    def _head(self, rows: _Rows, found: _Found) -> OneVsRestHead:
        head = OneVsRestHead(**self.settings.head, n_jobs=self.n_jobs, random_state=self.seed)
        if not self.settings.use_head:
            n, c = rows.Y.shape
            head.weights_ = sp.csr_array((c, rows.X.shape[1]), dtype=np.float32)
            head.bias_ = np.zeros(c, np.float32)
            head.held_out_margins_ = sp.csr_array((n, c), dtype=np.float32)
            return head
        learned = rows.learned
        n = learned.X.shape[0]
        indptr = found.indptr[: n + 1]
        is_held_out = np.zeros(n, np.uint8)
        is_held_out[rows.n_seen :] = 1
        head._fit(learned.X, learned.Y, indptr, found.labels[: indptr[-1]], is_held_out, learned.weight)
        head.weights_.data = _rounded(head.weights_.data)
        return head

    def _blend(self, rows: _Rows, found: _Found, head: OneVsRestHead) -> tuple[BlendWeights, Calibration]:
        if rows.n_seen == rows.X.shape[0]:
            return DEFAULT_BLEND, Calibration()
        X, Y, _ = rows.held_out
        first = found.indptr[rows.n_seen]
        indptr, labels = found.indptr[rows.n_seen :] - first, found.labels[first:]
        if rows.is_joined or not self.settings.use_head:
            margin = _values_at(head.held_out_margins_[rows.n_seen :], indptr, labels)
        else:
            margin = head.scores(X, sp.csr_array((np.ones(labels.size), labels, indptr), shape=Y.shape)).data
        counts = _label_counts(rows.seen)
        said = (log_head(margin), found.log_forest, found.cosine, np.log1p(counts[labels]))
        features = np.stack(said, axis=1).astype(np.float64)
        importance = inverse_propensity(rows.Y)[labels] if self.objective == "propensity" else None
        is_true = is_true_label(indptr, labels, Y)
        if not self.settings.use_learned_blend:
            blend = DEFAULT_BLEND
        else:
            blend = learn_blend(indptr, features, is_true, np.diff(Y.indptr), importance)
        return blend, _calibration(indptr, np.einsum("ij,j->i", features, np.array(blend)), is_true)


def _label_counts(rows: _Part) -> Float64:
    """Return the weight of each label's examples."""
    weight = None if rows.weight is None else np.repeat(rows.weight, np.diff(rows.Y.indptr))
    return np.bincount(rows.Y.indices, weight, rows.Y.shape[1]).astype(np.float64)


def _calibration(indptr: Int64, scores: Float64, is_true: npt.NDArray[np.bool_]) -> Calibration:
    """Return how often candidates of held-out rows are true, by their scores; see `Calibration`."""
    if min(is_true.sum(), (~is_true).sum()) < _FEWEST_TO_CALIBRATE:
        return Calibration()
    rows = sp.csr_array((scores, np.zeros(scores.size, np.int32), indptr), shape=(indptr.size - 1, 1))
    features = np.stack([scores, log_softmax_by_row(rows)], axis=1)
    centre, width = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
    curve = LogisticRegression(C=1e6, solver="newton-cholesky", max_iter=1000).fit((features - centre) / width, is_true)
    slopes = curve.coef_[0] / width
    if not slopes.sum() > 0:  # the better label of a row must not become the less probable one
        return Calibration()
    slope, row_slope = map(float, slopes)
    return Calibration(slope, row_slope, float(curve.intercept_[0] - slopes @ centre))


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
