"""Decisions of the default recipe that do not depend on where its rows are: on one machine, or spread over many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, row_range
from labelprism._weights import label_mass
from labelprism.filters import SpectralForest
from labelprism.heads.blend import (
    DEFAULT_BLEND,
    NOT_REACHED,
    BlendWeights,
    blend_and_likelihood,
    combined,
    is_true_label,
    log_head,
)
from labelprism.heads.label_clusters import LabelClusters, merged_classes
from labelprism.heads.label_space import Mining, SievingSpace, Vectors, label_lists
from labelprism.heads.near_examples import MOST_ENTRIES
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.recipe_calibration import Calibration, learned_calibration
from labelprism.recipe_settings import MOST_CANDIDATES, RecipeSettings

Float64 = npt.NDArray[np.float64]

_MOST_MORE_CANDIDATES = 50  # however many labels a row has
_MANY_LABELS = 50_000
_USUAL_SHARE = 0.5  # of a label's own classifier, where there are no held-out rows to ask
_ROWS_FOR_EACH = 64  # that is held out, where rows are many
_OWN_SHARES = (0.3, _USUAL_SHARE, 0.7)  # finer steps, or any further, gain nothing


class Opinions(NamedTuple):
    """What is said of the candidates of the held-out rows, entry by entry.

    Attributes
    ----------
    indptr, labels : int arrays of shapes (n + 1,) and (m,)
        The candidates of each row.
    log_forest, cosine, margin : float32 arrays of shape (m,)
        By the forest, the centroids and the head.
    within, clusters : float32 arrays of shape (m,) or None
        Where labels were clustered: the mean margin of the label's classifiers inside its clusters, and the mean of log
        p of its clusters.
    examples : float32 array of shape (m,) or None
        The logarithm of the votes of near examples.
    space : float32 array of shape (m,) or None
        The cosine in the space of features and labels.
    """

    indptr: Int64
    labels: Int32
    log_forest: Float32
    cosine: Float32
    margin: npt.NDArray[Any]
    within: Float32 | None = None
    clusters: Float32 | None = None
    examples: Float32 | None = None
    space: Float32 | None = None


class Learned(NamedTuple):
    """What was learned on held-out rows."""

    blend: BlendWeights = DEFAULT_BLEND
    calibration: Calibration = Calibration()
    uses_clusters: bool = True
    """Whether clusters of labels, where there are any, help."""
    own_share: float = _USUAL_SHARE
    """Of a label's own classifier in the mean of its classifiers; see `mean_of_classes`."""
    uses_examples: bool = False
    """Whether near examples help."""
    uses_space: bool = False
    """Whether the space of features and labels helps."""


class _Way(NamedTuple):
    """A blend that was tried on held-out rows."""

    own_share: float
    blend: BlendWeights
    likelihood: float
    features: Float64


class DataSize(NamedTuple):
    """How much there is to learn from."""

    n_rows: int
    n_labels: int
    labels_per_row: float
    """On average."""
    n_entries: int
    """Stored values of all rows."""
    n_held_out: int
    """Rows that the blend is learned on."""

    @property
    def examples_per_label(self) -> float:
        """On average."""
        return self.n_rows * self.labels_per_row / max(self.n_labels, 1)


def _more_candidates(per_label: float, labels_per_row: float) -> int:
    """Return how many candidates more a row has for its labels beyond the first."""
    return min(round(per_label * max(labels_per_row - 1, 0)), _MOST_MORE_CANDIDATES)


def settings_for_data(settings: RecipeSettings, size: DataSize) -> RecipeSettings:
    """Adapt the settings to how many rows, labels and values there are, and how many labels rows have.

    Rows of several labels have more candidates: the wrong ones among them are what the head needs. So have rows where
    labels are very many, and the true ones harder to find, and where they are so few that the forest alone can find
    them. Centroids find none that votes do not where rows have several, nor votes any that matter where they have many.
    Clusters of labels say little where rows have many labels of one cluster, where clusters are few or very many, or
    where labels have examples enough of their own, and a space of features and labels tells little of rows with many
    labels, or of few labels: one tree more is in place of either, as where rows have several labels, and two are in
    place of both, as where they have many. A space that finds candidates itself, which it cannot well for rows of
    several labels, stands for more trees, for deep ones, and for more candidates; where rows are many, and look for
    candidates in it while it is learned, for all trees.

    Parameters
    ----------
    settings : RecipeSettings
    size : DataSize
    """
    n_labels, labels_per_row = size.n_labels, size.labels_per_row
    # Held-out rows tell whether a space helps.
    has_space = settings.use_learned_blend and size.n_held_out > 0
    has_space = has_space and settings.space_passes > 0 and n_labels >= settings.space_from_labels
    has_space = has_space and labels_per_row <= settings.space_up_to_labels_per_row and size.n_entries <= MOST_ENTRIES
    sieves = has_space and settings.kept_candidates > 0 and labels_per_row <= settings.sieve_up_to_labels_per_row
    more = _more_candidates(settings.candidates_per_label, labels_per_row)
    more_in_training = _more_candidates(settings.training_candidates_per_label, labels_per_row)
    more_kept = _more_candidates(settings.kept_per_label, labels_per_row)
    doublings = 0.0 if sieves else max(np.log2(max(n_labels, 1) / _MANY_LABELS), 0.0)
    further = round(settings.candidates_per_doubling * doublings)
    retrieves = n_labels >= settings.retrieval_from_labels
    least = 0 if retrieves else settings.candidates_of_few
    has_centroids = retrieves and labels_per_row <= settings.centroids_up_to_labels_per_row
    may_vote = retrieves and settings.vote_candidates > 0
    has_votes = may_vote and labels_per_row <= settings.votes_up_to_labels_per_row
    votes = settings.vote_candidates + (0 if has_centroids else settings.centroid_candidates) + further
    mines = sieves and settings.mined_every > 0 and settings.space_candidates > 0
    mines = mines and size.n_rows >= settings.mined_from_rows
    passes = _space_passes(settings, size, size.n_rows >= settings.many_rows and not mines)
    if mines:
        has_head = settings.use_head and _needs_head(settings, size)
        near = min(settings.centroid_candidates, settings.mined_centroids)
        settings = replace(settings, sieved_leaf_labels=2**31 - 1, use_head=has_head, centroid_candidates=near)
    has_trees = not sieves or n_labels > settings.sieved_leaf_labels
    settings = replace(
        settings,
        forest_candidates=max(settings.forest_candidates + more + further, least) if has_trees else 1,
        training_candidates=max(settings.training_candidates + more_in_training + further, least) if has_trees else 1,
        vote_candidates=votes if has_votes else 0,
        votes_for_new_labels=votes if may_vote else 0,
        centroid_candidates=settings.centroid_candidates if has_centroids else 0,
        kept_candidates=min(settings.kept_candidates + (1 + mines) * more_kept, MOST_CANDIDATES) if sieves else 0,
        mined_every=min(settings.mined_every, -(-passes // 2)) if mines else 0,
        longest_own_list=settings.longest_own_list * size.n_entries / size.n_rows if sieves else 0.0,
        space_passes=passes,
    )
    if size.examples_per_label < settings.examples_from_examples_per_label:
        settings = replace(settings, longest_example_list=0)
    is_clustered = _is_clustered(settings, size)
    has_both, has_neither = is_clustered and has_space, not is_clustered and not has_space
    needs_tree = not sieves and (labels_per_row >= settings.more_trees_from_labels_per_row or not has_both)
    needs_two = not sieves and (labels_per_row >= settings.most_trees_from_labels_per_row or has_neither)
    return replace(
        settings,
        label_clusterings=settings.label_clusterings if is_clustered else 0,
        forest=_forest_for_data(settings, size, sieves, settings.more_trees * (needs_tree + needs_two)),
        space_passes=settings.space_passes if has_space else 0,
    )


def _needs_head(settings: RecipeSettings, size: DataSize) -> bool:
    """Tell whether a head is needed where rows look for candidates in a space while it is learned."""
    has_examples = size.examples_per_label >= settings.head_from_examples_per_label
    return has_examples or size.n_entries < settings.many_values


def _is_clustered(settings: RecipeSettings, size: DataSize) -> bool:
    # Not all in one cluster.
    fewest, most = max(settings.cluster_from_labels, settings.cluster_labels + 1), settings.cluster_up_to_labels
    is_clustered = settings.use_head and settings.label_clusterings > 0 and fewest <= size.n_labels <= most
    is_clustered = is_clustered and size.labels_per_row <= settings.cluster_up_to_labels_per_row
    return is_clustered and size.examples_per_label <= settings.cluster_up_to_examples_per_label


def _space_passes(settings: RecipeSettings, size: DataSize, takes_fewer: bool) -> int:
    passes = min(settings.space_passes, settings.space_passes_of_many) if takes_fewer else settings.space_passes
    return min(passes, settings.space_passes_of_many_values) if size.n_entries >= settings.many_values else passes


def _forest_for_data(settings: RecipeSettings, size: DataSize, sieves: bool, more_trees: int) -> dict[str, Any]:
    if not sieves and size.n_labels < settings.retrieval_from_labels:
        found = settings.candidates_of_few
        if settings.forest_of_fewest and 1 <= found <= size.n_labels <= 2 * found:
            return {**settings.forest, **settings.forest_of_fewest}
        if settings.forest_of_few and size.labels_per_row >= settings.most_trees_from_labels_per_row:
            return {**settings.forest, **settings.forest_of_few}
    forest = SpectralForest(**settings.forest)
    leaf_labels = max(forest.stop_labels, settings.sieved_leaf_labels) if sieves else forest.stop_labels
    return {**settings.forest, "n_trees": forest.n_trees + more_trees, "stop_labels": leaf_labels}


def mining_of(settings: RecipeSettings) -> Mining | None:
    """Return how rows look for candidates in a space while it is learned, by settings from `settings_for_data`."""
    if not settings.mined_every:
        return None
    found = settings.for_examples().kept_candidates if settings.use_head else settings.mined_without_head
    return Mining(settings.mined_every, found, found)


def settings_without_sieve(settings: RecipeSettings, use_head: bool) -> RecipeSettings:
    """Return the settings where a space was asked to keep candidates, and does not; `use_head` as it was before."""
    return replace(settings, kept_candidates=0, space_candidates=0, use_head=use_head)


def asks_examples(settings: RecipeSettings, n_labels: int, n_entries: int) -> bool:
    """Tell whether it is tried if near examples help, for so many labels, and examples of so many stored values."""
    is_wanted = settings.use_learned_blend and settings.longest_example_list > 0
    return is_wanted and n_labels >= settings.examples_from_labels and n_entries <= MOST_ENTRIES


def sieving_space(
    features: Vectors, labels: Vectors, held_out: Any, found: tuple[Int64, Int32], settings: RecipeSettings, seed: int,
    n_threads: int = 1,
) -> SievingSpace:  # fmt: skip
    """Return a space, with lists of labels if it is to sieve candidates.

    It is if that is asked for, and if among the candidates of held-out rows there are as many true labels as before, or
    hardly fewer.

    Parameters
    ----------
    features, labels : Vectors
    held_out : tuple
        Held-out rows, X (n, d), their labels, Y (n, c), sorted, and perhaps more.
    found : tuple of int64 and int32 arrays
        CSR of the candidates of these rows that were found without the space.
    settings : RecipeSettings
        As from `settings_for_data`.
    seed : int
    n_threads : int
    """
    without = SievingSpace(features, labels, None)
    if settings.kept_candidates == 0:
        return without
    space = without._replace(lists=label_lists(labels, seed, n_threads))
    X, Y = held_out[:2]
    kept = space.kept(X, *found, settings.space_candidates, settings.kept_candidates, n_threads)
    n_before, n_after = (np.count_nonzero(is_true_label(*candidates, Y)) for candidates in (found, kept))
    return space if n_after >= (1 - settings.sieve_loss) * n_before else without


def held_out_rows(n: int, settings: RecipeSettings, seed: int) -> Int64:
    """Return the numbers of the rows to hold out, of n, ascending: those of them that are `labelled_elsewhere`."""
    most = max(settings.held_out, min(n // _ROWS_FOR_EACH, settings.held_out_of_many))
    n_held_out = min(n // 10, most) if settings.use_learned_blend else 0
    if n_held_out == 0:
        return np.zeros(0, np.int64)
    return np.sort(np.random.default_rng(seed).permutation(n)[:n_held_out])


def labelled_elsewhere(Y: sp.csr_array, counts: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which of some rows have a label that rows beyond them have too.

    The others would tell the blend nothing if they were held out, and nobody else could learn their labels.

    Parameters
    ----------
    Y : csr_array of shape (n, c)
        The labels of these rows.
    counts : array of shape (c,)
        How many rows have each label, these and all others.
    """
    among_these = label_mass(Y, None)
    n_known = np.concatenate([[0], np.cumsum(counts[Y.indices] > among_these[Y.indices])])
    return np.asarray(n_known[Y.indptr[1:]] > n_known[Y.indptr[:-1]])


def learned_blend(
    said: Opinions, Y: sp.csr_array, counts: Float64, importance: Float64 | None, settings: RecipeSettings,
    n_threads: int = 1,
) -> Learned:  # fmt: skip
    """Learn the blend on held-out rows, and the probabilities that its scores stand for.

    Where labels were clustered, it is learned with what that adds, for several shares of the label's own classifier,
    and without it. The likeliest way is taken if the labels become likelier by `cluster_gain`: rows with many labels of
    one cluster may do better without. The votes of near examples are taken if it rises by `example_gain` with them, and
    before all that the space of features and labels if it rises by `space_gain`.

    Parameters
    ----------
    said : Opinions
    Y : csr_array of shape (n, c), sorted
        The labels of the rows.
    counts : float64 array of shape (c,)
        The weight of each label's examples among the other rows.
    importance : float64 array of shape (c,) or None
        See `blend_and_likelihood`.
    settings : RecipeSettings
        Whether the blend is learned, or is `DEFAULT_BLEND`; what clusters must gain.
    n_threads : int
        The result does not depend on it.
    """
    is_true, n_true = is_true_label(said.indptr, said.labels, Y), np.diff(Y.indptr)
    of_entry = None if importance is None else importance[said.labels]
    unreached = said.log_forest <= np.float32(NOT_REACHED)
    others = [said.log_forest, said.cosine, np.log1p(counts[said.labels]), unreached]

    def mean_margin(own_share: float) -> npt.NDArray[Any]:
        if said.within is None or own_share == 1.0:
            return said.margin
        return np.asarray(np.float32(own_share) * said.margin + np.float32(1 - own_share) * said.within)

    def tried(own_share: float, clusters: bool = False, examples: bool = False, space: bool = False) -> _Way:
        wanted = {"clusters": clusters, "examples": examples, "space": space}
        last = max((place + 1 for place, is_wanted in enumerate(wanted.values()) if is_wanted), default=0)
        # Experts that are left out say nothing, where others come after them.
        further = [getattr(said, name) if is_wanted else np.zeros(unreached.size) for name, is_wanted in wanted.items()]
        experts = [log_head(mean_margin(own_share)), *others, *further[:last]]
        features = np.stack(experts, axis=1, dtype=np.float64)
        blend, likelihood = DEFAULT_BLEND, 0.0
        if settings.use_learned_blend:
            blend, likelihood = blend_and_likelihood(said.indptr, features, is_true, n_true, of_entry, n_threads)
        unused = {name: 0.0 for name, is_wanted in wanted.items() if not is_wanted}
        return _Way(own_share, blend._replace(**unused), likelihood, features)

    without = tried(1.0)
    uses_space = False
    if said.space is not None:
        placed = tried(1.0, space=True)
        # A weight that would have been below 0 gains likelihood too, but not as it is kept.
        if placed.blend.space > 0 and placed.likelihood - without.likelihood > settings.space_gain:
            uses_space, without = True, placed
    chosen, uses_clusters = without, True
    if said.within is not None and said.clusters is not None:
        shares = _OWN_SHARES if settings.use_learned_blend else (_USUAL_SHARE,)
        best = max((tried(share, True, space=uses_space) for share in shares), key=lambda way: way.likelihood)
        uses_clusters = not settings.use_learned_blend or best.likelihood - without.likelihood > settings.cluster_gain
        chosen = best if uses_clusters else without
    uses_examples = False
    if said.examples is not None:
        voted = tried(chosen.own_share, chosen is not without, True, uses_space)
        uses_examples = voted.blend.examples > 0 and voted.likelihood - chosen.likelihood > settings.example_gain
        chosen = voted if uses_examples else chosen
    scores = combined(chosen.features, np.array(chosen.blend[: chosen.features.shape[1]]))
    calibration = learned_calibration(said.indptr, scores, is_true)
    return Learned(chosen.blend, calibration, uses_clusters, chosen.own_share, uses_examples, uses_space)


def values_at(matrix: sp.csr_array, indptr: Int64, columns: Int32) -> Float32:
    """Return the entries of a CSR matrix at given columns of its rows, 0 where there is none."""
    matrix.sort_indices()
    c = np.int64(matrix.shape[1])
    stored = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * c + matrix.indices
    asked = np.repeat(np.arange(matrix.shape[0]), np.diff(indptr)) * c + columns
    at = np.searchsorted(stored, asked)
    found = np.append(stored, -1)[at] == asked
    return np.asarray(np.where(found, np.append(matrix.data, np.float32(0))[at], np.float32(0)), np.float32)


def said_of_held_out(
    margins: sp.csr_array, indptr: Int64, labels: Int32, clusters: LabelClusters | None
) -> tuple[Float32, Float32 | None, Float32 | None]:
    """Return what classifiers say of the candidates of held-out rows: the last three of `Opinions`.

    Parameters
    ----------
    margins : csr_array of shape (n, n_classes)
        Of all classes of the candidates; see `LabelClusters`. Of the labels, if there are no clusters.
    indptr, labels : int arrays of shapes (n + 1,) and (m,)
        The candidates of each row.
    clusters : LabelClusters or None
    """
    head = values_at(margins, indptr, labels)
    if clusters is None:
        return head, None, None
    within, log_p = np.zeros_like(head), np.zeros_like(head)
    share = np.float32(1 / clusters.n_clusterings)
    for k in range(clusters.n_clusterings):
        within += share * values_at(margins, indptr, clusters.within(k, labels))
        log_p += share * log_head(values_at(margins, indptr, clusters.of_clusters(k, labels)))
    return head, within, log_p


def kept_classes(
    weights: sp.csr_array, bias: Float32, clusters: LabelClusters | None, n_labels: int, own_share: float,
    settings: RecipeSettings, n_threads: int = 1,
) -> tuple[sp.csr_array, Float32]:  # fmt: skip
    """Return the classifiers that a model keeps: of the labels, then of the clusters if these are used.

    Parameters
    ----------
    weights : csr_array of shape (n_classes, d)
    bias : float32 array of shape (n_classes,)
    clusters : LabelClusters or None
    n_labels : int
    own_share : float
        See `Learned`.
    settings : RecipeSettings
    n_threads : int
    """
    if clusters is None:
        return row_range(weights, 0, n_labels), bias[:n_labels]
    drop = OneVsRestHead(**settings.head).drop
    return merged_classes(weights, bias, clusters, own_share, drop, n_threads)


def rounded(values: Float32, n_threads: int = 1) -> Float32:
    """Round to what the model directory stores, so that a saved model predicts the same to the bit."""
    return _core.round_to_half(values, n_threads)
