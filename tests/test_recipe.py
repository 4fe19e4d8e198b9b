"""The default recipe: it learns, is the same for every n_jobs, for one row and many, saved and live."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from recipe_data import FEW, ROUTED, planted
from sklearn.preprocessing import normalize

from labelprism import _core, _reference, recipe_stages
from labelprism.heads.blend import log_head
from labelprism.heads.label_space import SievingSpace, as_floats, kept_space, label_vectors, space_cosines
from labelprism.heads.near_examples import example_votes, kept_examples
from labelprism.metrics import precision_at_k
from labelprism.recipe import PRESETS, DefaultRecipe, RecipeSettings, fit_default
from labelprism.recipe_stages import asks_examples
from labelprism.recipe_update import updated

CLUSTERED = replace(ROUTED, label_clusterings=2, cluster_labels=6, cluster_from_labels=0, cluster_gain=-1e9)
WITH_EXAMPLES = replace(ROUTED, examples_from_labels=0, example_gain=-1e9)
WITH_SPACE = replace(ROUTED, space_from_labels=0, space_gain=-1e9, kept_candidates=0)
SIEVED = replace(
    WITH_SPACE,
    kept_candidates=8,
    space_candidates=4,
    sieve_loss=1.0,
    space_gain=1e9,
    longest_own_list=0.0,
    sieved_leaf_labels=5,
)
BY_LABEL = replace(SIEVED, longest_own_list=1e9)
ALL_KINDS = {
    "default": RecipeSettings(),
    "retrieval": RecipeSettings(**FEW),
    "routed": ROUTED,
    "clusters": CLUSTERED,
    "examples": WITH_EXAMPLES,
    "space": WITH_SPACE,
    "sieve": SIEVED,
    "by label": BY_LABEL,
    "no trees": replace(SIEVED, sieved_leaf_labels=30),
    "mined": replace(SIEVED, mined_from_rows=0, mined_every=2),
    "no head": replace(SIEVED, mined_from_rows=0, many_values=0, head_from_examples_per_label=1e9),
    "all": replace(
        CLUSTERED,
        examples_from_labels=0,
        example_gain=-1e9,
        longest_example_list=50,
        space_from_labels=0,
        space_gain=-1e9,
        kept_candidates=10,
        sieve_loss=1.0,
        sieved_leaf_labels=5,
    ),
}


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]:
    X, Y = planted(900)
    return X[:600], Y[:600], X[600:], Y[600:]


@pytest.fixture(scope="module", params=list(ALL_KINDS.values()), ids=list(ALL_KINDS))
def settings(request: pytest.FixtureRequest) -> RecipeSettings:
    return request.param


@pytest.fixture(scope="module")
def model(data: Any, settings: RecipeSettings) -> DefaultRecipe:
    return fit_default(*data[:2], preset=settings)


def test_learns(data: Any, model: DefaultRecipe) -> None:
    labels, scores = model.predict_topk(data[2], 5)
    assert labels.shape == scores.shape == (300, 5)
    assert (labels.dtype, scores.dtype) == (np.int32, np.float32)
    assert precision_at_k(data[3], labels, 1) > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_threads_change_nothing(data: Any, settings: RecipeSettings, model: DefaultRecipe, n_jobs: int) -> None:
    other = fit_default(*data[:2], preset=settings, n_jobs=n_jobs)
    assert set(model.arrays) == set(other.arrays)
    for name, array in model.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)
    for a, b in zip(model.predict_topk(data[2], 7), other.predict_topk(data[2], 7, n_jobs=n_jobs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("k", [1, 5, 100])
def test_one_row_is_as_many(data: Any, model: DefaultRecipe, k: int) -> None:
    labels, scores = model.predict_topk(data[2], k)
    for i in range(40):
        for row in (data[2][i : i + 1], sp.csr_matrix(data[2][i : i + 1]), data[2][i : i + 1].toarray()):
            one, score = model.predict_topk(row, k)
            np.testing.assert_array_equal(one[0], labels[i])
            np.testing.assert_array_equal(score[0], scores[i])


@pytest.mark.parametrize("name", _core.instruction_sets())
def test_the_bits_do_not_depend_on_the_instruction_set(data: Any, model: DefaultRecipe, name: str) -> None:
    expected = model.predict_topk(data[2], 7)
    before = _core.instruction_set()
    _core.use_instruction_set(name)
    try:
        again = DefaultRecipe(model.arrays, model.meta)
    finally:
        _core.use_instruction_set(before)
    for one, two in zip(expected, again.predict_topk(data[2], 7), strict=True):
        np.testing.assert_array_equal(one, two)


def test_saved_arrays_predict_the_same_to_the_bit(data: Any, model: DefaultRecipe) -> None:
    again = DefaultRecipe(model.arrays, json.loads(json.dumps(model.meta)))
    for a, b in zip(model.predict_topk(data[2], 9), again.predict_topk(data[2], 9), strict=True):
        np.testing.assert_array_equal(a, b)


def test_labels_score_the_same_among_few_candidates_and_among_all(data: Any, model: DefaultRecipe) -> None:
    n, c = data[2].shape[0], model.n_labels_
    given = np.stack([np.arange(n) % (c - 1), np.full(n, c - 1)], axis=1)
    few = sp.csr_array((np.ones(2 * n), given.ravel(), 2 * np.arange(n + 1)), shape=(n, c))
    among_few, among_all = model.experts(data[2], few), model.experts(data[2], sp.csr_array(np.ones((n, c))))
    for one, two in zip(among_few, among_all, strict=True):
        if one.size:
            np.testing.assert_array_equal(one.reshape(n, 2), np.take_along_axis(two.reshape(n, c), given, axis=1))


def test_weights_lie_label_by_label_or_feature_by_feature_and_are_the_same(data: Any) -> None:
    by_feature, by_label = (fit_default(*data[:2], preset=settings) for settings in (SIEVED, BY_LABEL))
    assert by_feature.arrays["label_lists"].shape[0] == data[0].shape[1]
    assert by_label.arrays["label_lists"].shape[0] == data[1].shape[1] != data[0].shape[1]
    for name in ("head_", "centroids_"):
        assert abs(getattr(by_feature, name) - getattr(by_label, name)).max() == 0, name
    one, two = by_feature.predict_topk(data[2], 5), by_label.predict_topk(data[2], 5)
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_allclose(one[1], two[1], rtol=1e-5, atol=1e-5)
    # A model that learns on stays as it is, unless labels have come to have too many weights.
    again = updated(by_label, *data[:2])
    assert again.arrays["label_lists"].shape[0] == data[1].shape[1]
    again = updated(replace_settings(by_label, longest_own_list=0.5), *data[:2])
    assert again.arrays["label_lists"].shape[0] == data[0].shape[1]


def replace_settings(model: DefaultRecipe, **changes: Any) -> DefaultRecipe:
    return DefaultRecipe(model.arrays, {**model.meta, "settings": {**model.meta["settings"], **changes}})


def test_damaged_arrays_are_refused(model: DefaultRecipe) -> None:
    for name, change in (
        ("label_lists", lambda a: a + 30_000),
        ("label_pairs", lambda a: a[:-1]),
        ("label_near_cosine", lambda a: a[:-1]),
        ("label_vote_share", lambda a: a[:-1]),
        ("forest_leaf_share", lambda a: a[:-1]),
        ("forest_children", lambda a: a[:-1]),
        ("head_bias", lambda a: a[:-1]),
        ("label_counts", lambda a: a[:-1]),
        ("cluster_of", lambda a: a + 1),
        ("cluster_of", lambda a: a - 1),
        ("cluster_of", lambda a: a[:, :-1].copy()),
        ("cluster_of", lambda a: a[:0]),
        ("cluster_bias", lambda a: a[:-1]),
        ("cluster_bias", lambda a: a[:0]),
        ("head_bias", lambda a: np.append(a, a[:2])),
    ):
        if name not in model.arrays or not model.arrays[name].size:
            continue
        arrays = {**model.arrays, name: change(model.arrays[name])}
        with pytest.raises(ValueError, match=r"damaged|for every label|fit together|cut off|out of range"):
            DefaultRecipe(arrays, model.meta)


def _log_p_of_clusters(model: DefaultRecipe, X: sp.csr_array) -> npt.NDArray[Any]:
    """Return the mean of log p of every label's clusters, of shape (n, c); 0 without clusters."""
    if "cluster_of" not in model.arrays:
        return np.zeros((X.shape[0], model.n_labels_))
    margins = X @ model.cluster_weights_.toarray().T + model.arrays["cluster_bias"]
    return log_head(margins)[:, model.arrays["cluster_of"]].mean(axis=1)


def _votes(model: DefaultRecipe, X: sp.csr_array) -> npt.NDArray[Any]:
    """Return the logarithms of the votes of near examples for every label, of shape (n, c); 0 without examples."""
    n, c = X.shape[0], model.n_labels_
    if "example_begin" not in model.arrays:
        return np.zeros((n, c))
    ends, labels = np.arange(n + 1, dtype=np.int64) * c, np.tile(np.arange(c, dtype=np.int32), n)
    return example_votes(kept_examples(model.arrays), X, ends, labels, c).reshape(n, c)


def test_scores_are_those_of_the_twin(data: Any, model: DefaultRecipe) -> None:
    X = normalize(data[2])
    log_forest = model.forest_.candidates(X, model.settings.forest_candidates)
    centre, head = model.centroids_.toarray(), model.head_.toarray()
    of_clusters, votes, cosines = _log_p_of_clusters(model, X), _votes(model, X), _cosines_in_space(model, X)
    # Candidates that a space does not keep may fill up, with scores of their own.
    n_scored = model.settings.kept_candidates if "space_lists" in model.arrays else 20
    labels, scores = model.predict_topk(data[2], n_scored)
    blend = model.blend_
    prior = blend.frequency * np.log1p(model.label_counts_)
    for i in range(20):
        part = slice(log_forest.indptr[i], log_forest.indptr[i + 1])
        reached = np.log(np.exp(log_forest.data[part]) + 1e-4)
        found = dict(zip(log_forest.indices[part].tolist(), reached.tolist(), strict=True))
        x = X[[i]].toarray()[0]
        near = [label for label in labels[i] if label >= 0 and label not in found]
        assert (
            len(near)
            <= model.settings.centroid_candidates + model.settings.vote_candidates + model.settings.space_candidates
        )
        expected = _reference.blended_row(
            x,
            found,
            near,
            centre,
            head,
            model.bias_,
            prior,
            (blend.head, blend.forest, blend.centroid, blend.unreached),
        )
        further = blend.clusters * of_clusters[i] + blend.examples * votes[i] + blend.space * cosines[i]
        expected = {label: score + further[label] for label, score in expected.items()}
        got = {int(label): float(score) for label, score in zip(labels[i], scores[i], strict=True) if label >= 0}
        assert got == pytest.approx({k: v for k, v in expected.items() if k in got}, abs=1e-3)


def _cosines_in_space(model: DefaultRecipe, X: sp.csr_array) -> npt.NDArray[np.float64]:
    """The cosines of all labels in the space of features and labels; 0 where there is none."""
    kept = kept_space(model.arrays)
    if kept is None:
        return np.zeros((X.shape[0], model.n_labels_))
    rows = X @ as_floats(kept[0]).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return np.asarray(rows @ as_floats(kept[1].vectors).astype(np.float64).T)


@pytest.mark.parametrize(
    "chosen",
    [
        RecipeSettings(use_head=False),
        RecipeSettings(centroid_candidates=0),
        RecipeSettings(vote_candidates=0),
        RecipeSettings(centroid_candidates=0, vote_candidates=0),
        RecipeSettings(use_learned_blend=False),
        RecipeSettings(use_learned_blend=False, examples_from_labels=0, example_gain=-1e9),
        RecipeSettings(longest_example_list=0, examples_from_labels=0, example_gain=-1e9),
        RecipeSettings(longest_example_list=1, examples_from_labels=0, example_gain=-1e9),
        RecipeSettings(space_passes=0, space_from_labels=0, space_gain=-1e9),
        RecipeSettings(use_learned_blend=False, space_from_labels=0, space_gain=-1e9),
        RecipeSettings(unit_rows=False),
        RecipeSettings(forest={"n_trees": 1}, head={"passes": 1}, longest_list=1),
        RecipeSettings(label_clusterings=2, cluster_labels=6, cluster_from_labels=0, use_head=False),
        RecipeSettings(label_clusterings=2, cluster_labels=6, cluster_from_labels=0, use_learned_blend=False),
        RecipeSettings(label_clusterings=1, cluster_labels=1, cluster_from_labels=0, cluster_gain=-1e9),
        RecipeSettings(label_clusterings=3, cluster_labels=1000, cluster_from_labels=0, cluster_gain=-1e9),
    ],
)
def test_every_step_can_be_left_out(data: Any, chosen: RecipeSettings) -> None:
    labels, _ = fit_default(*data[:2], preset=chosen).predict_topk(data[2], 1)
    assert precision_at_k(data[3], labels, 1) > 0.8


def test_models_without_votes_are_read_and_go_on_without(data: Any) -> None:
    model = fit_default(*data[:2], preset=RecipeSettings(vote_candidates=0))
    old = {name: array for name, array in model.arrays.items() if not name.startswith("label_vote_")}
    settings = {name: value for name, value in model.meta["settings"].items() if "vote" not in name}
    retired = {"wide_gain": 0.02, "wide_search": [20, 256], "widest_gain": 1.0, "widest_search": [60, 1024]}
    again = DefaultRecipe(old, {**model.meta, "settings": {**settings, **retired}})
    assert again.settings.vote_candidates == 0
    assert not model.arrays["label_vote_begin"].size
    for a, b in zip(model.predict_topk(data[2], 5), again.predict_topk(data[2], 5), strict=True):
        np.testing.assert_array_equal(a, b)
    later = updated(again, *data[:2], None, None)
    assert later.settings.vote_candidates == 0
    assert precision_at_k(data[3], later.predict_topk(data[2], 1)[0], 1) > 0.8


@pytest.mark.parametrize("name", ["forest_candidates", "centroid_candidates", "vote_candidates", "longest_vote_list"])
@pytest.mark.parametrize("value", [-1, 30_001, 2.5])
def test_numbers_of_candidates_are_checked_before_anything_grows(data: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        fit_default(*data[:2], preset=replace(PRESETS["default"], **{name: value}))


def test_votes_that_are_missing_are_missed(model: DefaultRecipe) -> None:
    if not model.settings.vote_candidates:
        pytest.skip("the forest alone finds candidates")
    without = {name: array for name, array in model.arrays.items() if not name.startswith("label_vote_")}
    with pytest.raises(ValueError, match="lists of votes"):
        DefaultRecipe(without, model.meta)
    for name in ("label_vote_label", "label_vote_share"):
        some = {own: array for own, array in model.arrays.items() if own != name}
        with pytest.raises(ValueError, match="do not fit together"):
            DefaultRecipe(some, model.meta)
    for value in (-1, 30_001):
        settings = {**model.meta["settings"], "vote_candidates": value}
        with pytest.raises(ValueError, match="vote_candidates"):
            DefaultRecipe(model.arrays, {**model.meta, "settings": settings})


def test_validation_rows_are_asked_of_classifiers_that_have_not_seen_them(data: Any, settings: RecipeSettings) -> None:
    X, Y, X_test, Y_test = data
    model = fit_default(X, Y, preset=settings, validation=(X_test[:150], Y_test[:150]))
    assert precision_at_k(Y_test[150:], model.predict_topk(X_test[150:], 1)[0], 1) > 0.9
    assert (model.blend_.clusters > 0) == (model.settings.label_clusterings > 0)
    np.testing.assert_array_equal(model.label_counts_, Y.sum(axis=0))  # nothing else has learned from them


@pytest.mark.parametrize("weight", [None, 1e-4])
@pytest.mark.parametrize("objective", ["precision", "propensity"])
def test_clusters_with_weights_and_objectives(data: Any, objective: Any, weight: float | None) -> None:
    weights = None if weight is None else np.where(np.arange(600) % 3, 1.0, weight)
    model = fit_default(*data[:2], preset=CLUSTERED, objective=objective, sample_weight=weights)
    assert "cluster_of" in model.arrays
    assert precision_at_k(data[3], model.predict_topk(data[2], 1)[0], 1) > 0.85


def test_too_many_places_are_refused(model: DefaultRecipe) -> None:
    settings = {**model.meta["settings"], "centroid_candidates": 30_000}
    clusters = {"cluster_bias": np.zeros(35_000, np.float32)} if "cluster_of" in model.arrays else {}
    if not clusters:
        pytest.skip("the model has no clusters")
    with pytest.raises(
        ValueError, match="too many centroid_candidates, vote_candidates, space_candidates and clusters"
    ):
        DefaultRecipe({**model.arrays, **clusters}, {**model.meta, "settings": settings})


def test_clusters_are_taken_where_they_make_the_labels_likelier(data: Any) -> None:
    plain = fit_default(*data[:2], preset=ROUTED)
    clustered, refused = (fit_default(*data[:2], preset=replace(CLUSTERED, cluster_gain=g)) for g in (-1e9, 1e9))
    assert "cluster_of" in clustered.arrays
    assert set(refused.arrays) == set(plain.arrays)
    for name, array in plain.arrays.items():  # and then nothing is left of them
        np.testing.assert_array_equal(array, refused.arrays[name], err_msg=name)
    assert refused.blend_ == plain.blend_


def test_examples_are_all_rows_and_taken_where_they_make_the_labels_likelier(data: Any) -> None:
    X, Y = data[:2]
    plain, voted, refused = (
        fit_default(X, Y, preset=settings)
        for settings in (ROUTED, WITH_EXAMPLES, replace(WITH_EXAMPLES, example_gain=1e9))
    )
    assert plain.blend_.examples == 0.0 < voted.blend_.examples
    assert set(refused.arrays) == set(plain.arrays)
    assert refused.blend_ == plain.blend_
    kept = kept_examples(voted.arrays)  # held-out rows last
    assert kept.lists.shape == X.shape[::-1]
    assert sorted(map(tuple, np.split(kept.labels, kept.label_indptr[1:-1]))) == sorted(
        tuple(Y.indices[Y.indptr[i] : Y.indptr[i + 1]]) for i in range(X.shape[0])
    )
    asked = []
    for n_labels, n_entries in ((4999, 9), (5000, 9), (5000, 2**26), (5000, 2**26 + 1)):
        asked.append(asks_examples(RecipeSettings(), n_labels, n_entries))
    assert asked == [False, True, True, False]


def test_a_space_is_of_all_rows_and_taken_where_it_makes_the_labels_likelier(data: Any) -> None:
    X, Y = data[:2]
    plain, placed, refused = (
        fit_default(X, Y, preset=settings) for settings in (ROUTED, WITH_SPACE, replace(WITH_SPACE, space_gain=1e9))
    )
    assert plain.blend_.space == 0.0 < placed.blend_.space
    assert set(refused.arrays) == set(plain.arrays)
    assert refused.blend_ == plain.blend_
    features, labels = kept_space(placed.arrays)  # type: ignore[misc]
    of_all = label_vectors(normalize(X), Y, None, features)  # held-out rows too
    np.testing.assert_allclose(labels.norms, of_all.norms, rtol=1e-4)
    found = placed.candidates(data[2])
    said = placed.experts(data[2], found).space
    asked = np.asarray(found.indptr, np.int64), np.asarray(found.indices, np.int32)
    unit = sp.csr_array(normalize(data[2]))
    np.testing.assert_allclose(said, space_cosines(features, labels.vectors, unit, *asked), atol=1e-6)


def test_a_space_keeps_the_nearest_candidates_and_brings_in_some(data: Any) -> None:
    X = sp.csr_array(normalize(data[2]))
    model = fit_default(*data[:2], preset=SIEVED)
    features, labels = kept_space(model.arrays)  # type: ignore[misc]
    space = SievingSpace(features, labels.vectors, model.arrays["space_lists"])
    found = DefaultRecipe({k: v for k, v in model.arrays.items() if k != "space_lists"}, model.meta).candidates(X)
    kept = model.candidates(X)
    n_kept = model.settings.kept_candidates
    indptr, wanted = space.kept(X, np.asarray(found.indptr, np.int64), np.asarray(found.indices, np.int32), 4, n_kept)
    np.testing.assert_array_equal(kept.indptr, indptr)
    np.testing.assert_array_equal(kept.indices, wanted)
    has_place = np.diff(X.indptr) > 0  # others keep all that they have found
    assert np.diff(kept.indptr)[has_place].max() == n_kept < np.diff(found.indptr)[has_place].min()
    brought_in = sp.csr_array((np.ones(kept.nnz), kept.indices, kept.indptr), shape=kept.shape) - (found != 0)
    assert (brought_in > 0).nnz > 0
    assert precision_at_k(data[3], model.predict_topk(data[2], 1)[0], 1) > 0.85


def test_candidates_that_are_not_kept_fill_up(data: Any) -> None:
    model = fit_default(*data[:2], preset=SIEVED)
    n_kept = model.settings.kept_candidates
    first, scores = model.predict_topk(data[2], n_kept)
    labels, more_scores = model.predict_topk(data[2], 25)
    for k in range(1, 25):  # the first labels do not depend on how many are asked for
        np.testing.assert_array_equal(model.predict_topk(data[2], k)[0], labels[:, :k])
    np.testing.assert_array_equal(labels[:, :n_kept], first)
    np.testing.assert_array_equal(more_scores[:, :n_kept], scores)
    assert (np.diff(more_scores[:, : n_kept + 3], axis=1) <= 0).all()
    assert (labels[:, n_kept:] >= 0).any()
    for row in labels:
        assert np.unique(row[row >= 0]).size == (row >= 0).sum()
    allowed = np.zeros(30, np.uint8)
    allowed[::2] = 1
    some = replace(SIEVED, forest_candidates=3, training_candidates=3)
    only = fit_default(*data[:2], preset=some).predict_topk(data[2], 5, allowed=allowed)[0]
    assert (only[only >= 0] % 2 == 0).all()


def test_allowed_labels_are_found_in_lists(data: Any) -> None:
    few = replace(SIEVED, forest_candidates=1, training_candidates=1, centroid_candidates=0, vote_candidates=0)
    model = fit_default(*data[:2], preset=few)
    X = data[2][np.diff(data[2].indptr) > 0]
    allowed = np.zeros(30, np.uint8)
    allowed[::2] = 1
    features, labels = kept_space(model.arrays)  # type: ignore[misc]
    everything = 30 * np.arange(X.shape[0] + 1), np.tile(np.arange(30, dtype=np.int32), X.shape[0])
    cosines = space_cosines(features, labels.vectors, sp.csr_array(normalize(X)), *everything).reshape(-1, 30)
    cosines[:, 1::2] = -1
    wanted = np.where(cosines.max(axis=1) > 0, cosines.argmax(axis=1), -1)
    found = model.predict_topk(X, 8, allowed=allowed)[0]  # all candidates, and perhaps more
    assert ((found == wanted[:, None]).any(axis=1) | (wanted < 0)).mean() > 0.99  # but for rounding
    assert (wanted >= 0).mean() > 0.9


def test_a_space_that_loses_labels_keeps_all_candidates(data: Any) -> None:
    placed, refused = (fit_default(*data[:2], preset=replace(SIEVED, sieve_loss=loss)) for loss in (1.0, -1.0))
    assert "space_lists" in placed.arrays
    assert "space_labels" in placed.arrays  # to sieve, though its cosines are no term of the blend
    assert placed.blend_.space == 0.0
    assert "space_labels" not in refused.arrays
    assert (refused.settings.kept_candidates, refused.settings.space_candidates) == (0, 0)
    older = {k: v for k, v in placed.meta["settings"].items() if k not in ("kept_candidates", "space_candidates")}
    arrays = {name: array for name, array in placed.arrays.items() if name != "space_lists"}
    assert DefaultRecipe(arrays, {**placed.meta, "settings": older}).settings.kept_candidates == 0
    several = replace(SIEVED, sieve_up_to_labels_per_row=1.0)
    assert "space_lists" not in fit_default(*data[:2], preset=several).arrays


def test_the_share_is_that_of_the_model(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    biases = []
    for share in (0.3, 0.5, 0.7):
        monkeypatch.setattr(recipe_stages, "_OWN_SHARES", (share,))
        biases.append(fit_default(*data[:2], preset=CLUSTERED).bias_)
    np.testing.assert_allclose(biases[1], (biases[0] + biases[2]) / 2, atol=1e-5)
    assert np.abs(biases[0] - biases[2]).max() > 0.01


def test_norms_of_rows_do_not_matter(data: Any, model: DefaultRecipe) -> None:
    labels, _ = model.predict_topk(data[2], 3)
    longer, _ = model.predict_topk(sp.csr_array(data[2] * np.float32(8)), 3)
    np.testing.assert_array_equal(labels, longer)


@pytest.mark.parametrize("objective", ["precision", "propensity"])
@pytest.mark.parametrize("preset", ["default", "accurate", "fast"])
def test_presets_and_objectives(data: Any, preset: str, objective: Any) -> None:
    model = fit_default(*data[:2], preset=preset, objective=objective)
    assert model.n_trees_ == {"default": 3, "accurate": 9, "fast": 1}[preset]
    assert precision_at_k(data[3], model.predict_topk(data[2], 1)[0], 1) > 0.85


@pytest.mark.parametrize("n_allowed", [30, 12, 4])
def test_the_first_labels_do_not_depend_on_how_many_are_wanted(data: Any, n_allowed: int) -> None:
    """Labels that fill up, where more are wanted than there are candidates, come after these."""
    few = replace(CLUSTERED, forest_candidates=4, centroid_candidates=2, vote_candidates=3)
    model = fit_default(*data[:2], preset=few)
    allowed = None if n_allowed == 30 else np.arange(30) < n_allowed
    longest, scores = model.predict_topk(data[2], 30, allowed=allowed)
    assert (scores[:, 1:] <= scores[:, :-1]).all()
    for k in (1, 3, 6, 9, 15):
        labels, shorter = model.predict_topk(data[2], k, allowed=allowed)
        np.testing.assert_array_equal(labels[labels >= 0], longest[:, :k][labels >= 0])
        np.testing.assert_array_equal(shorter[labels >= 0], scores[:, :k][labels >= 0])
    n_found = (longest >= 0).sum(axis=1)
    assert (n_found == n_allowed).all() if n_allowed < 30 else n_found.max() > 4 + 2 + 3


def test_labels_that_the_forest_finds_equally_probable() -> None:
    """Of these the first ones are its candidates, whether or not more are wanted."""
    X = sp.csr_array(np.ones((40, 1), np.float32))  # one leaf
    Y = sp.csr_array((np.ones(40), np.arange(40) % 20, np.arange(41)), shape=(40, 20))
    settings = RecipeSettings(forest_candidates=5, candidates_of_few=0, use_learned_blend=False)
    model = fit_default(X, Y, preset=settings)
    few, some, all_labels = (model.predict_topk(X[:1], k)[0][0] for k in (3, 5, 20))
    assert set(some) == set(range(5))
    np.testing.assert_array_equal(few, some[:3])
    np.testing.assert_array_equal(all_labels, [*some, *range(5, 20)])


def test_many_labels_are_clustered() -> None:
    X, Y = planted(7000, c=5000)
    model = fit_default(X, Y, preset=replace(RecipeSettings(), cluster_gain=-1e9))
    assert model.n_trees_ == 1
    assert model.arrays["cluster_of"].shape == (1, 5000)
    assert precision_at_k(Y, model.predict_topk(X, 1)[0], 1) > 0.9
