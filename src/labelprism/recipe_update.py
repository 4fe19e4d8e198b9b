"""New rows for a model of the default recipe: all that counts and weighs learns from them, the routers stay.

The labels of the new rows join the leaves that the rows reach, so labels that the model has not met yet get their
place; the classifiers go on from where they were, those of new labels from nothing; centroids move. Clusters of labels
stay as they are; a new label, when it has its first rows, joins those of the label whose centroid is nearest to its
own. Where near examples vote, the new rows are among them. In a space of features and labels, labels move towards their
new rows; features stay, and so do lists of labels, which new labels join in the same way. The blend and the calibration
stay as they were learned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism._arrays import Float32, Int32
from labelprism._threads import thread_count
from labelprism._weights import label_mass
from labelprism.heads.centroids import centroids, label_sums, row_norms
from labelprism.heads.label_space import joined_lists, kept_space, label_vectors, space_arrays
from labelprism.heads.near_examples import example_arrays, joined_examples, kept_examples, strongest_examples
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.recipe_model import Arrays, DefaultRecipe, label_arrays

__all__ = ["updated"]

_NO_LABEL_BIAS = -1.0  # one_vs_rest.cpp: where classifiers start
# What an error on a new row costs, to the cost in a training on the new rows alone: the old rows are not there to speak
# against it. Without it, ten updates in a row cost 2 points of P@1 on delicious (docs/models.md).
_COST_OF_NEW_ROWS = 0.1
_LABELS_AT_ONCE = 256  # new ones, whose cosines with all others are held


def updated(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None = None, n_jobs: int | None = None
) -> DefaultRecipe:
    """Return a model that has learned from new rows too; the given one stays as it is.

    Parameters
    ----------
    model : DefaultRecipe
    X : csr_array of shape (n, d)
    Y : csr_array of shape (n, c)
        Of at least as many labels as the model has; those beyond are new.
    weight : float32 array of shape (n,), optional
        How much each row counts, above 0.
    n_jobs : int, optional
    """
    if Y.shape[1] < model.n_labels_ or X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"new rows must have {model.n_features_in_} features and at least {model.n_labels_} labels, "
            f"got {X.shape[1]} and {Y.shape[1]}"
        )
    if X.shape[0] == 0 and Y.shape[1] == model.n_labels_:
        return model
    unit = normalize(X) if model.settings.unit_rows and X.shape[0] else X
    centre, norms = _moved_centroids(model, unit, Y, weight, thread_count(n_jobs))
    found = model.training_candidates(unit, n_jobs)
    (weights, bias), of_clusters = _learned_head(model, unit, Y, found, weight, n_jobs), {}
    if "cluster_of" in model.arrays:
        of_label = _joined_clusters(model.arrays["cluster_of"], centre, model.arrays["label_norms"] > 0)
        learned = _learned_clusters(model, unit, Y, found, of_label, weight, n_jobs)
        weights = sp.csr_array(sp.vstack([weights, learned.weights_], format="csr"))
        of_clusters = {"cluster_of": of_label, "cluster_bias": learned.bias_}
    settings = model.settings
    if Y.shape[1] > model.n_labels_ and settings.vote_candidates < settings.votes_for_new_labels:
        settings = replace(settings, vote_candidates=settings.votes_for_new_labels)
    arrays = {
        **model.arrays,
        **_filled_leaves(model, unit, Y, weight, n_jobs),
        **label_arrays(weights, centre, norms, settings, thread_count(n_jobs)),
        **of_clusters,
        **_more_examples(model, unit, Y, weight, thread_count(n_jobs)),
        **_moved_labels(model, unit, Y, weight, thread_count(n_jobs)),
        "head_bias": bias,
        "label_norms": norms,
        "label_counts": _longer(model.label_counts_, Y.shape[1]) + label_mass(Y, weight),
    }
    chosen = {**model.meta["settings"], "vote_candidates": settings.vote_candidates}
    return DefaultRecipe(arrays, {**model.meta, "n_labels": int(Y.shape[1]), "settings": chosen})


def _more_examples(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_threads: int
) -> Arrays:
    """Return the arrays of the examples that may be near a row, where there are any, with new ones among them."""
    if "example_begin" not in model.arrays:
        return {}
    longest = model.settings.longest_example_list
    new = strongest_examples(X, Y, weight, longest, n_threads)
    return example_arrays(joined_examples([kept_examples(model.arrays), new], longest, n_threads))


def _moved_labels(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_threads: int
) -> Arrays:
    """Return the arrays of the space of features and labels, where there is one, after new rows."""
    kept = kept_space(model.arrays)
    if kept is None:
        return {}
    features, labels = kept
    moved = label_vectors(X, Y, weight, features, n_threads, before=labels)
    lists = model.arrays.get("space_lists")
    if lists is not None:
        lists = joined_lists(lists, labels.vectors, moved.vectors, n_threads)
    return space_arrays(features, moved, lists)


def _learned_head(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, found: sp.csr_array, weight: Float32 | None,
    n_jobs: int | None,
) -> tuple[sp.csr_array, Float32]:  # fmt: skip
    """Return weights and biases after new rows, whose candidates are `found` by narrow routes."""
    if not model.settings.use_head:
        return _taller(model.head_, Y.shape[1]), _longer(model.bias_, Y.shape[1])
    head = OneVsRestHead(**model.settings.head, n_jobs=n_jobs, random_state=0)
    start = _taller(model.head_, Y.shape[1]), _longer(model.bias_, Y.shape[1], _NO_LABEL_BIAS)
    _went_on(head, X, Y, found, start, weight)
    return head.weights_, head.bias_


def _learned_clusters(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, found: sp.csr_array, of_label: Int32,
    weight: Float32 | None, n_jobs: int | None,
) -> OneVsRestHead:  # fmt: skip
    """Return the classifiers of clusters after new rows."""
    bias = np.asarray(model.arrays["cluster_bias"])
    members = _members(of_label, bias.size)
    candidates = sp.csr_array((np.ones(found.nnz, np.float32), found.indices, found.indptr), shape=Y.shape)
    head = OneVsRestHead(**model.settings.head, n_jobs=n_jobs, random_state=0)
    start = model.cluster_weights_, bias
    return _went_on(head, X, _entries(Y @ members), _entries(candidates @ members), start, weight)


def _went_on(
    head: OneVsRestHead, X: sp.csr_array, Y: sp.csr_array, candidates: sp.csr_array,
    start: tuple[sp.csr_array, Float32], weight: Float32 | None,
) -> OneVsRestHead:  # fmt: skip
    head.cost *= _COST_OF_NEW_ROWS
    indptr, classes = np.asarray(candidates.indptr, np.int64), np.asarray(candidates.indices, np.int32)
    head._fit(X, Y, indptr, classes, np.zeros(0, np.uint8), weight, start)
    return head


def _joined_clusters(of_label: Int32, centre: sp.csr_array, had_rows: npt.NDArray[np.bool_]) -> Int32:
    """Return the clusters of all labels.

    A label that had no rows so far joins those of the label with the nearest centroid among the ones that had.

    Parameters
    ----------
    of_label : int32 array of shape (clusterings, old labels)
    centre : csr_array of shape (labels, d)
    had_rows : bool array of shape (old labels,)
    """
    n_old, known = of_label.shape[1], np.flatnonzero(had_rows)
    joined = np.concatenate([of_label, np.zeros((of_label.shape[0], centre.shape[0] - n_old), np.int32)], axis=1)
    if not known.size:
        return joined
    joining = np.setdiff1d(np.arange(centre.shape[0]), known)
    by_feature = centre[known].T.tocsr()
    for begin in range(0, joining.size, _LABELS_AT_ONCE):
        labels = joining[begin : begin + _LABELS_AT_ONCE]
        nearest = np.asarray(sp.csr_array(centre[labels] @ by_feature).argmax(axis=1)).ravel()
        joined[:, labels] = of_label[:, known[nearest]]
    return joined


def _members(of_label: Int32, n_clusters: int) -> sp.csr_array:
    """Return which label is in which cluster, of shape (c, clusters)."""
    n_clusterings, c = of_label.shape
    ends = n_clusterings * np.arange(c + 1)
    return sp.csr_array((np.ones(of_label.size, np.float32), of_label.T.ravel(), ends), shape=(c, n_clusters))


def _entries(matrix: sp.csr_array) -> sp.csr_array:
    """Return which entries a matrix has, sorted, as ones."""
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return sp.csr_array((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _moved_centroids(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_threads: int
) -> tuple[sp.csr_array, npt.NDArray[np.float64]]:
    """Return the centroids of all examples, old and new, and the norms of their sums."""
    c = Y.shape[1]
    old_norms, centre = _longer(model.arrays["label_norms"], c), _taller(model.centroids_, c)
    scale = np.repeat(old_norms, np.diff(centre.indptr)).astype(np.float32)
    old = sp.csr_array((centre.data * scale, centre.indices, centre.indptr), shape=centre.shape)
    sums = sp.csr_array(old + label_sums(X, Y, weight, n_threads))
    sums.sort_indices()
    # A centroid was cut to its largest features; what was cut off still counts for the norm.
    cut_off = np.maximum(np.square(old_norms) - np.square(row_norms(old)), 0.0)
    norms = np.sqrt(np.square(row_norms(sums)) + cut_off)
    return centroids(sums, norms, model.settings.centroid_features, n_threads), norms


def _filled_leaves(
    model: DefaultRecipe, X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_jobs: int | None
) -> Arrays:
    """Return the arrays of the leaves with the labels of new rows in those that the rows reach."""
    table = model.leaf_probabilities(X, n_jobs)
    if weight is not None:
        table = sp.csr_array(sp.diags_array(weight) @ table)
    new = sp.csr_array(table.T.tocsr() @ Y)
    begin, label = model.arrays["forest_leaf_begin"], model.arrays["forest_leaf_label"]
    mass = np.asarray(model.arrays["forest_leaf_mass"], np.float64)
    share = model.arrays["forest_leaf_share"].view(np.float16).astype(np.float64) * model.n_trees_
    old = sp.csr_array((share * np.repeat(mass, np.diff(begin)), label, begin), shape=new.shape)
    counts = sp.csr_array(old + new)
    counts.sort_indices()
    mass = mass + np.asarray(new.sum(axis=1)).ravel()
    shares = counts.data / np.repeat(np.maximum(mass, 1e-12), np.diff(counts.indptr)) / model.n_trees_
    return {
        "forest_leaf_begin": np.asarray(counts.indptr, np.int64),
        "forest_leaf_label": np.asarray(counts.indices, np.int32),
        "forest_leaf_share": np.minimum(shares, 1.0).astype(np.float16).view(np.uint16),
        "forest_leaf_mass": mass.astype(np.float32),
    }


def _longer(values: npt.NDArray[Any], length: int, fill: float = 0.0) -> npt.NDArray[Any]:
    return np.concatenate([values, np.full(length - values.size, fill, values.dtype)])


def _taller(matrix: sp.csr_array, n_rows: int) -> sp.csr_array:
    indptr = np.concatenate([matrix.indptr, np.full(n_rows - matrix.shape[0], matrix.indptr[-1])])
    return sp.csr_array((matrix.data, matrix.indices, indptr), shape=(n_rows, matrix.shape[1]))
