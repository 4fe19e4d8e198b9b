"""The default recipe: a forest as F, one-vs-rest classifiers as H, label centroids, a space, and a blend of all.

A tenth of the rows, at most `RecipeSettings.held_out`, is held out from all experts alike, and the blend is learned on
what they say of these rows. Then centroids and head take them in, but for classifiers of labels that no other row has:
the head goes on from where it was, which costs little, and the forest stays as it is. Some data need no forest, or no
head: `settings_for_data` tells.
"""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, as_csr, as_label_matrix, csr_parts, picked_rows, row_range
from labelprism._stages import Checkpoint, NoStages, Stages, digest
from labelprism._threads import thread_count
from labelprism._weights import check_sample_weight, label_mass, weighted_rows
from labelprism.filters import SpectralForest
from labelprism.heads.centroids import label_centroids, moved_centroids
from labelprism.heads.label_clusters import LabelClusters, classes_of_rows, label_clusters
from labelprism.heads.label_space import (
    LearnedSpace,
    SievingSpace,
    Vectors,
    label_vectors,
    learned_space,
    space_arrays,
    space_cosines,
)
from labelprism.heads.near_examples import Examples, example_arrays, example_votes, strongest_examples
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.metrics import inverse_propensity
from labelprism.recipe_model import (
    DefaultRecipe,
    LabelFacts,
    forest_tables,
    label_arrays,
    recipe_arrays,
    recipe_meta,
)
from labelprism.recipe_settings import PRESETS, RecipeSettings
from labelprism.recipe_stages import (
    DataSize,
    Learned,
    Opinions,
    asks_examples,
    held_out_rows,
    kept_classes,
    labelled_elsewhere,
    learned_blend,
    mining_of,
    rounded,
    said_of_held_out,
    settings_for_data,
    settings_without_sieve,
    sieving_space,
)

__all__ = ["PRESETS", "DefaultRecipe", "RecipeSettings", "fit_default"]

Objective = Literal["precision", "propensity"]
ValidationRows = tuple[sp.csr_array, sp.csr_array]
Float64 = npt.NDArray[np.float64]

_BLOCK_ROWS = 1 << 16  # rows whose candidates are looked for at once


class _Rows(NamedTuple):
    """All rows, those that are held out last."""

    X: sp.csr_array
    Y: sp.csr_array
    weight: Float32 | None
    n_seen: int
    is_joined: bool  # whether held-out rows are learned from in the end

    @property
    def seen(self) -> _Part:
        return self._part(0, self.n_seen)

    @property
    def held_out(self) -> _Part:
        return self._part(self.n_seen, self.X.shape[0])

    @property
    def learned(self) -> _Part:
        return self._part(0, self.X.shape[0] if self.is_joined else self.n_seen)

    def _part(self, begin: int, end: int) -> _Part:
        weight = None if self.weight is None else self.weight[begin:end]
        return _Part(row_range(self.X, begin, end), row_range(self.Y, begin, end), weight)


class _Part(NamedTuple):
    """Some of the rows."""

    X: sp.csr_array
    Y: sp.csr_array
    weight: Float32 | None


class _Head(NamedTuple):
    """The classifiers of labels, or of classes, and what they say of the candidates of held-out rows."""

    weights: sp.csr_array
    bias: Float32
    said: tuple[Float32, Float32 | None, Float32 | None]


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
    checkpoint: Checkpoint | None = None,
) -> DefaultRecipe:
    """Train the default recipe.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, d)
        Made unit row by row inside.
    Y : sparse matrix or array of shape (n, c)
    preset : {"default", "accurate", "fast"} or RecipeSettings
    objective : {"precision", "propensity"}
        What the blend is learned for: nDCG and precision, or their propensity-scored kin, which favour rare labels, and
        for which votes bring in more candidates; see `RecipeSettings.for_objective`.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int
    sample_weight : array-like of shape (n,), optional
        How much each row counts, 0 or more: in the forest, the centroids, the head's loss and the labels' frequencies.
    validation : tuple of X and Y, optional
        Rows that the blend is learned on and nothing else, instead of held-out training rows.
    checkpoint : Checkpoint, optional
        Where each stage is kept that is done, and taken from if it is there. The result does not depend on it.
    """
    if objective not in ("precision", "propensity"):
        raise ValueError(f'objective must be "precision" or "propensity", got {objective!r}')
    if isinstance(preset, str) and preset not in PRESETS:
        raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {preset!r}")
    settings = (PRESETS[preset] if isinstance(preset, str) else preset).for_objective(objective)
    settings._check()
    OneVsRestHead(**settings.head)._check_parameters()  # the forest checks its own before it grows
    X, Y = as_csr(X, n_threads=thread_count(n_jobs)), as_label_matrix(Y)
    if X.shape[0] != Y.shape[0] or X.shape[0] == 0 or Y.shape[1] == 0:
        raise ValueError(f"X and Y must have the same rows, at least one, and labels; got {X.shape} and {Y.shape}")
    X, Y, given = weighted_rows(X, Y, check_sample_weight(sample_weight, X.shape[0]))
    weight = None if given is None else given.astype(np.float32)
    checked = None if validation is None else _checked_validation(*validation, X.shape[1], Y.shape[1])
    if checkpoint is not None:
        parameters = {**asdict(settings), "objective": objective, "random_state": int(random_state)}
        checkpoint.begin(parameters, _digests(X, Y, weight, checked))
    stages = NoStages() if checkpoint is None else checkpoint
    return _Training(settings, objective, n_jobs, random_state, stages).run(X, Y, weight, checked)


def _digests(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, validation: ValidationRows | None
) -> dict[str, str]:
    """Return sums of all that is learned from, by the names that users know."""
    held_out = () if validation is None else (*csr_parts(validation[0]), *csr_parts(validation[1])[:2])
    shape = np.array([X.shape[1], Y.shape[1]])
    return {
        "X": digest(shape[:1], *csr_parts(X)),
        "y": digest(shape[1:], *csr_parts(Y)[:2]),
        "sample_weight": digest(weight),
        "validation": digest(*held_out),
    }


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

    def __init__(
        self, settings: RecipeSettings, objective: Objective, n_jobs: int | None, seed: int, stages: Stages
    ) -> None:
        self.asked = self.settings = settings
        self.objective, self.n_jobs, self.seed, self.stages = objective, n_jobs, seed, stages
        self.n_threads = thread_count(n_jobs)
        self.seconds: dict[str, float] = {}
        self._since = perf_counter()
        self._tables: tuple[Any, ...] | None = None

    def run(
        self, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, validation: ValidationRows | None
    ) -> DefaultRecipe:
        rows = self._split(X, Y, weight) if validation is None else self._joined(X, Y, weight, *validation)
        size = DataSize(Y.shape[0], Y.shape[1], Y.nnz / Y.shape[0], X.nnz, rows.X.shape[0] - rows.n_seen)
        self.settings = settings_for_data(self.settings, size)
        self._note("split")
        forest = SpectralForest(**self.settings.forest, n_jobs=self.n_jobs, random_state=self.seed)
        forest.fit(*rows.seen, stages=self.stages)
        forest._keep_scorer()
        self._note("forest")
        centre, norms = label_centroids(*rows.seen, self.settings.centroid_features, self.n_threads)
        self._note("centroids")
        found = self._candidates(forest, centre, norms, rows)
        self._note("candidates")
        learned_from = self._learned_space(rows, found)
        space = None if learned_from is None else self._space(rows, found, learned_from.features)
        if learned_from is not None and space is not None and space.lists is not None:
            found = self._sieved(forest, centre, norms, rows, found, space, learned_from.mined)
        else:
            self.settings = settings_without_sieve(self.settings, self.asked.use_head)
        self._tables = learned_from = None
        self._note("space")
        clusters = self._clusters(centre)
        head = self._head(rows, found, clusters)
        self._note("head")
        learned = self._blend(rows, found, head, space)
        clusters = clusters if learned.uses_clusters else None
        del found  # all that is not needed any more makes room for the tables
        self._note("blend")
        if rows.is_joined and rows.n_seen < rows.X.shape[0]:
            # Sums of the seen rows would have to be held all the time: they are taken again, held-out rows after them.
            how = (rows.n_seen, self.settings.centroid_features, self.n_threads)
            centre, norms = moved_centroids((centre, norms), *rows.learned, *how)
        weights, bias = kept_classes(
            head.weights, head.bias, clusters, rows.Y.shape[1], learned.own_share, self.settings, self.n_threads
        )
        labels = LabelFacts(bias, label_mass(rows.learned.Y, rows.learned.weight), norms)
        more = example_arrays(self._examples(rows.learned)) if learned.uses_examples else {}
        if space is not None and (learned.uses_space or space.lists is not None):
            placed = label_vectors(*rows.learned, space.features, self.n_threads)
            more |= space_arrays(space.features, placed, space.lists_of(placed, self.n_threads))
        del rows, head
        arrays = recipe_arrays(forest_tables(forest), weights, centre, labels, self.settings, clusters, self.n_threads)
        arrays |= more
        model = DefaultRecipe(
            arrays, recipe_meta(centre.shape, forest, learned.blend, learned.calibration, self.settings)
        )
        self._note("layout")
        model.stage_seconds_ = self.seconds
        return model

    def _note(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage], self._since = now - self._since, now

    def _unit(self, X: sp.csr_array, copy: bool = True) -> sp.csr_array:
        return normalize(X, copy=copy) if self.settings.unit_rows and X.shape[1] else X

    def _joined(
        self, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, X_held: sp.csr_array, Y_held: sp.csr_array
    ) -> _Rows:
        """Return training rows, and validation rows after them."""
        all_X, all_Y = (sp.csr_array(sp.vstack(pair, "csr")) for pair in ((X, X_held), (Y, Y_held)))
        if weight is not None:
            weight = np.concatenate([weight, np.ones(X_held.shape[0], np.float32)])
        return _Rows(self._unit(all_X, copy=False), all_Y, weight, X.shape[0], False)

    def _split(self, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None) -> _Rows:
        n = X.shape[0]
        held_out = held_out_rows(n, self.settings, self.seed)
        held_out = held_out[labelled_elsewhere(Y[held_out], label_mass(Y, None))]
        if not held_out.size:
            return _Rows(self._unit(X), Y, weight, n, True)
        order = np.concatenate([np.delete(np.arange(n), held_out), held_out])
        weight = None if weight is None else weight[order]
        ordered, Y = (picked_rows(matrix, order, self.n_threads) for matrix in (X, Y))
        return _Rows(self._unit(ordered, copy=False), Y, weight, n - held_out.size, True)

    def _candidates(self, forest: SpectralForest, centre: sp.csr_array, norms: Float64, rows: _Rows) -> _Found:
        """Return the candidates of all rows, those that are kept if there are any."""
        kept = self.stages.load("candidates")
        if kept is not None:
            return _Found(**kept)
        found = self._found(forest, centre, norms, rows)
        self.stages.save("candidates", found._asdict())
        return found

    def _found(self, forest: SpectralForest, centre: sp.csr_array, norms: Float64, rows: _Rows) -> _Found:
        """Candidates of the seen rows by narrow routes, for the head; of the held-out rows as in prediction."""
        settings, tables = self.settings, self._centroid_tables(centre, norms)
        native = self._finder(forest, tables, settings.for_examples())
        narrow = (settings.training_smallest, settings.training_noise_scale)
        # Of the seen rows, which are many, only the labels are kept.
        blocks = []
        for begin in range(0, rows.n_seen, _BLOCK_ROWS):
            X = csr_parts(row_range(rows.X, begin, min(begin + _BLOCK_ROWS, rows.n_seen)))
            blocks.append(native.find(*X, *narrow, self.n_threads, scored=False)[:2])
        said = (np.zeros(0, np.float32),) * 2
        if rows.n_seen < rows.X.shape[0]:
            native = self._finder(forest, tables, settings)
            held = native.find(*csr_parts(rows.held_out.X), forest.smallest, 1.0, self.n_threads)
            blocks.append(held[:2])
            said = held[2:4]
        lengths = np.concatenate([np.diff(indptr) for indptr, _ in blocks])
        labels = np.concatenate([labels for _, labels in blocks])
        return _Found(np.concatenate([[0], np.cumsum(lengths)]), labels, *said)

    def _learned_space(self, rows: _Rows, found: _Found) -> LearnedSpace | None:
        """Return a space, the one that is kept if there is any; None where it is not asked for."""
        if self.settings.space_passes == 0:
            return None
        kept = self.stages.load("space")
        if kept is not None:
            return LearnedSpace.of_arrays(kept)
        candidates = _rows_until(found.indptr, found.labels, rows.n_seen)
        passes, mining = self.settings.space_passes, mining_of(self.settings)
        learned = learned_space(*rows.seen, candidates, passes, self.seed, self.n_threads, mining)
        self.stages.save("space", learned.arrays())
        return learned

    def _space(self, rows: _Rows, found: _Found, features: Vectors) -> SievingSpace:
        """Return a space with its labels, and with lists if it is to sieve candidates."""
        labels = label_vectors(*rows.seen, features, self.n_threads).vectors
        held = _rows_from(found.indptr, found.labels, rows.n_seen)
        return sieving_space(features, labels, rows.held_out, held, self.settings, self.seed, self.n_threads)

    def _sieved(
        self, forest: SpectralForest, centre: sp.csr_array, norms: Float64, rows: _Rows, found: _Found,
        space: SievingSpace, mined: tuple[Int64, Int32] | None,
    ) -> _Found:  # fmt: skip
        """Return the candidates of all rows that the space keeps, or brings in; of seen rows those that were mined."""

        def kept(part: _Part, candidates: tuple[Int64, Int32], settings: RecipeSettings) -> tuple[Int64, Int32]:
            numbers = (settings.space_candidates, settings.kept_candidates, self.n_threads)
            return space.kept(part.X, *candidates, *numbers)

        first = _rows_until(found.indptr, found.labels, rows.n_seen)
        of_seen = kept(rows.seen, first, self.settings.for_examples()) if mined is None else mined
        of_held = kept(rows.held_out, _rows_from(found.indptr, found.labels, rows.n_seen), self.settings)
        native = self._finder(forest, self._centroid_tables(centre, norms), self.settings)
        asked = (*csr_parts(rows.held_out.X), *of_held)
        _, log_forest, _, cosine, *_ = native.score_candidates(*asked, forest.smallest, self.n_threads)
        indptr = np.concatenate([of_seen[0], of_seen[0][-1] + of_held[0][1:]])
        labels = np.concatenate([of_seen[1], of_held[1]])
        return _Found(indptr, labels, log_forest, cosine)

    def _centroid_tables(self, centre: sp.csr_array, norms: Float64) -> tuple[Any, ...]:
        """Return the arrays of a predictor that knows centroids and votes alone, which are made once."""
        if self._tables is None:
            nothing = sp.csr_array(centre.shape, dtype=np.float32)
            zeros = np.zeros(centre.shape[0], np.float32)
            no_clusters = np.zeros((0, centre.shape[0]), np.int32)
            tables = label_arrays(nothing, centre, norms, self.settings, self.n_threads)
            self._tables = (*tables.values(), no_clusters, zeros, zeros, None, None)
        return self._tables

    def _finder(self, forest: SpectralForest, tables: Any, settings: RecipeSettings) -> _core.Predictor:
        """Return a predictor without a head, for rows that are unit already."""
        return _core.Predictor(
            forest.scorer_,
            *tables,
            head_weight=0.0,
            forest_weight=1.0,
            centroid_weight=1.0,
            unreached_weight=0.0,
            clusters_weight=0.0,
            examples_weight=0.0,
            space_weight=0.0,
            forest_candidates=settings.forest_candidates,
            centroid_candidates=settings.centroid_candidates,
            vote_candidates=settings.vote_candidates,
            space_candidates=0,
            kept_candidates=0,
            unit_rows=False,
            strong_features=settings.strong_features,
        )

    def _clusters(self, centre: sp.csr_array) -> LabelClusters | None:
        """Return the clusterings of the labels that the head is to learn, if any."""
        if self.settings.label_clusterings == 0:
            return None
        wanted = (self.settings.label_clusterings, self.settings.cluster_labels)
        return label_clusters(centre, *wanted, self.seed, self.n_threads)

    def _head(self, rows: _Rows, found: _Found, clusters: LabelClusters | None) -> _Head:
        n_labels, held = rows.Y.shape[1], _rows_from(found.indptr, found.labels, rows.n_seen)
        if not self.settings.use_head:
            nothing = sp.csr_array((n_labels, rows.X.shape[1]), dtype=np.float32)
            return _Head(nothing, np.zeros(n_labels, np.float32), (np.zeros(held[1].size, np.float32), None, None))
        head = OneVsRestHead(**self.settings.head, n_jobs=self.n_jobs, random_state=self.seed)
        if clusters is not None:
            head._first_cluster = clusters.first_cluster
        learned = rows.learned
        is_held_out = np.zeros(learned.X.shape[0], np.uint8)
        is_held_out[rows.n_seen :] = 1
        Y, indptr, classes = self._classes(rows, found, clusters)
        known = indptr[: learned.X.shape[0] + 1]
        head._fit(learned.X, Y, known, classes[: known[-1]], is_held_out, learned.weight, stages=self.stages)
        head.weights_.data = rounded(head.weights_.data, self.n_threads)
        margins = head.held_out_margins_[rows.n_seen :]
        if not rows.is_joined:
            ends, asked = _rows_from(indptr, classes, rows.n_seen)
            candidates = sp.csr_array((np.ones(asked.size), asked, ends), shape=(ends.size - 1, Y.shape[1]))
            margins = head.scores(rows.held_out.X, candidates)
        return _Head(head.weights_, head.bias_, said_of_held_out(margins, *held, clusters))

    def _classes(self, rows: _Rows, found: _Found, clusters: LabelClusters | None) -> tuple[sp.csr_array, Int64, Int32]:
        """Return what the head learns: labels of the rows that it learns from, and candidates of all rows.

        With clusters, these are classes; see `LabelClusters`.
        """
        if clusters is None:
            return rows.learned.Y, found.indptr, found.labels
        own = csr_parts(rows.Y)
        candidates = (found.indptr, found.labels, own.indptr, own.indices)
        asked = clusters.candidate_classes(*candidates, rows.n_seen, self.n_threads)
        return (classes_of_rows(rows.learned.Y, clusters, self.n_threads), *asked)

    def _blend(self, rows: _Rows, found: _Found, head: _Head, space: SievingSpace | None) -> Learned:
        if rows.n_seen == rows.X.shape[0]:
            return Learned()
        indptr, labels = _rows_from(found.indptr, found.labels, rows.n_seen)
        importance = inverse_propensity(rows.Y) if self.objective == "propensity" else None
        votes = cosines = None
        if asks_examples(self.settings, rows.Y.shape[1], rows.seen.X.nnz):
            examples = self._examples(rows.seen)
            votes = example_votes(examples, rows.held_out.X, indptr, labels, rows.Y.shape[1], self.n_threads)
        if space is not None:
            cosines = space_cosines(*space[:2], rows.held_out.X, indptr, labels, self.n_threads)
        said = Opinions(indptr, labels, found.log_forest, found.cosine, *head.said, votes, cosines)
        counts = label_mass(rows.seen.Y, rows.seen.weight)
        return learned_blend(said, rows.held_out.Y, counts, importance, self.settings, self.n_threads)

    def _examples(self, part: _Part) -> Examples:
        return strongest_examples(*part, self.settings.longest_example_list, self.n_threads)


def _rows_until(indptr: Int64, labels: Int32, end: int) -> tuple[Int64, Int32]:
    """Return the candidates of the rows before `end`."""
    return indptr[: end + 1], labels[: indptr[end]]


def _rows_from(indptr: Int64, entries: Int32, row: int) -> tuple[Int64, Int32]:
    """Return lists of rows from one on."""
    first = indptr[row]
    return indptr[row:] - first, entries[first:]
