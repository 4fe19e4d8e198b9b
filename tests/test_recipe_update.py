"""New rows for a model: what they teach, what stays, and labels that were not there before."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism.heads.label_space import as_floats, kept_space, label_vectors
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.recipe import DefaultRecipe, RecipeSettings, fit_default
from labelprism.recipe_update import updated

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

ALL_X, ALL_Y = planted(n=1500, c=40, seed=3)
X, Y = ALL_X[:1200], ALL_Y[:1200]
X_TEST, Y_TEST = ALL_X[1200:], ALL_Y[1200:]
OLD = slice(0, 500)
NEW = slice(500, 1200)


@pytest.fixture(scope="module", params=["default", "clusters", "examples", "space"])
def small(request: pytest.FixtureRequest) -> DefaultRecipe:
    """A model of the first rows."""
    clusters = {
        "label_clusterings": 2 if request.param == "clusters" else 0,
        "examples_from_labels": 0,
        "example_gain": -1e9 if request.param == "examples" else 1e9,
        "space_from_labels": 0,
        "space_gain": -1e9 if request.param == "space" else 1e9,
        "cluster_labels": 10,
        "cluster_from_labels": 0,
        "cluster_gain": -1e9,
        "retrieval_from_labels": 0,
    }
    return fit_default(X[OLD], Y[OLD], preset=RecipeSettings(**clusters))


def first_is_right(model: DefaultRecipe, X: Any, Y: sp.csr_array) -> float:
    best = model.predict_topk(X, 1)[0][:, 0]
    return float(np.mean([label in Y.indices[Y.indptr[i] : Y.indptr[i + 1]] for i, label in enumerate(best)]))


def test_new_rows_teach() -> None:
    has_early_labels = np.array([Y.indices[Y.indptr[i] : Y.indptr[i + 1]].max(initial=0) < 20 for i in range(1200)])
    model = fit_default(X[has_early_labels], Y[has_early_labels])
    before = first_is_right(model, X_TEST, Y_TEST)
    after = first_is_right(updated(model, X[~has_early_labels], Y[~has_early_labels]), X_TEST, Y_TEST)
    assert before < 0.7
    assert after > 0.9


def test_the_given_model_stays(small: DefaultRecipe) -> None:
    arrays = {name: array.copy() for name, array in small.arrays.items()}
    updated(small, X[NEW], Y[NEW])
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, small.arrays[name])


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_nothing(small: DefaultRecipe, n_jobs: int) -> None:
    one, many = updated(small, X[NEW], Y[NEW]), updated(small, X[NEW], Y[NEW], n_jobs=n_jobs)
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, many.arrays[name])


def test_a_new_label_is_found_where_its_rows_are(small: DefaultRecipe) -> None:
    column = sp.csr_array((np.ones(30), (np.arange(30), np.zeros(30, int))), shape=(30, 1))
    X_new = sp.csr_array(sp.vstack([X[[7]]] * 30, "csr"))
    Y_new = sp.csr_array(sp.hstack([sp.csr_array((30, 40)), column], "csr"))
    model = updated(small, X_new, Y_new)
    assert model.n_labels_ == 41
    labels = model.predict_topk(X[[7]], 3)[0]
    assert labels[0, 0] == 40
    leaves = model.forest_.leaf_candidates_[:, [40]]
    assert 0 < leaves.nnz <= 3 * small.n_trees_  # in the leaves that the row reaches, and nowhere else
    other = [i for i in range(50) if Y[[7]].multiply(Y[[i]]).nnz == 0]
    assert (model.predict_topk(X[other], 1)[0] != 40).all()


def test_labels_that_are_only_announced_change_nothing_for_the_others(small: DefaultRecipe) -> None:
    model = updated(small, X[:0], sp.csr_array((0, 45), dtype=np.float32))
    assert model.n_labels_ == 45
    for name in ("head_", "centroids_"):
        before, after = getattr(small, name), getattr(model, name)[:40]
        assert abs(after - before).max() == 0, name
    (best, scores), (now, scores_now) = small.predict_topk(X_TEST, 3), model.predict_topk(X_TEST, 3)
    np.testing.assert_array_equal(now[:, 0], best[:, 0])
    same = (now == best).all(axis=1)
    assert same.mean() > 0.98  # shares of votes are rounded again: the last candidates of a few rows are others
    np.testing.assert_allclose(scores_now[same], scores[same], rtol=1e-4, atol=1e-4)


def test_labels_move_in_the_space_and_features_stay(small: DefaultRecipe) -> None:
    kept = kept_space(small.arrays)
    if kept is None:
        pytest.skip("the model has no space")
    features, before = kept
    moved = kept_space(updated(small, X[NEW], Y[NEW]).arrays)
    assert moved is not None
    np.testing.assert_array_equal(moved[0].steps, features.steps)
    of_all = label_vectors(normalize(X), Y, None, features)
    np.testing.assert_allclose(as_floats(moved[1].vectors), as_floats(of_all.vectors), atol=0.02)
    np.testing.assert_allclose(moved[1].norms, of_all.norms, rtol=0.02, atol=1e-3)
    assert (moved[1].norms > before.norms).any()


def test_new_rows_are_among_the_examples(small: DefaultRecipe) -> None:
    if "example_begin" not in small.arrays:
        pytest.skip("the model has no examples")
    weight = np.full(700, 2.0, np.float32)
    twice = updated(updated(small, X[500:800], Y[500:800]), X[800:1200], Y[800:1200])
    at_once, weighted = updated(small, X[NEW], Y[NEW]), updated(small, X[NEW], Y[NEW], weight)
    assert at_once.arrays["example_label_begin"].size == 1201
    for name in ("begin", "row", "label_begin", "label"):
        np.testing.assert_array_equal(twice.arrays[f"example_{name}"], at_once.arrays[f"example_{name}"])
    assert weighted.arrays["example_weight"].tolist() == [1.0] * 500 + [2.0] * 700


def test_a_new_label_joins_the_clusters_of_its_neighbour_with_its_first_rows(small: DefaultRecipe) -> None:
    if "cluster_of" not in small.arrays:
        pytest.skip("the model has no clusters")
    announced = updated(small, X[:0], sp.csr_array((0, 41), dtype=np.float32))
    twin = np.argmax(small.label_counts_)
    rows = np.flatnonzero(Y[OLD][:, [twin]].toarray())
    column = sp.csr_array(np.ones((rows.size, 1)))
    Y_new = sp.csr_array(sp.hstack([sp.csr_array((rows.size, 40)), column], "csr"))
    for model in (small, announced):
        of_label = updated(model, X[rows], Y_new).arrays["cluster_of"]
        np.testing.assert_array_equal(of_label[:, 40], of_label[:, twin])
        np.testing.assert_array_equal(of_label[:, :40], small.arrays["cluster_of"])


def test_new_rows_are_learned_with_as_many_candidates_as_the_others() -> None:
    settings = RecipeSettings(forest_candidates=30, training_candidates=5, candidates_of_few=0)
    model = fit_default(X[OLD], Y[OLD], preset=settings)
    assert np.diff(model.training_candidates(X).indptr).max() == 5
    assert np.diff(model.candidates(X).indptr).max() > 5
    older = {k: v for k, v in model.meta["settings"].items() if not k.startswith("training_")}
    assert DefaultRecipe(model.arrays, {**model.meta, "settings": older}).settings.training_share == 1.0
    before_mining = {k: v for k, v in model.meta["settings"].items() if not k.startswith("mined_")}
    as_before = DefaultRecipe(model.arrays, {**model.meta, "settings": {**before_mining, "passes_of_many": 3}}).settings
    assert (as_before.mined_every, as_before.for_examples().strong_features) == (0, 16)
    forged = {**model.meta["settings"], "training_share": "half"}
    with pytest.raises(ValueError, match=r"training_share must be above 0.*the model is damaged"):
        DefaultRecipe(model.arrays, {**model.meta, "settings": forged})


def test_labels_that_are_new_get_votes_where_others_have_none() -> None:
    settings = RecipeSettings(retrieval_from_labels=0, votes_up_to_labels_per_row=0.0, centroids_up_to_labels_per_row=9)
    model = fit_default(X[OLD], Y[OLD], preset=settings)
    assert (model.settings.vote_candidates, model.arrays["label_vote_label"].size) == (0, 0)
    known = updated(model, X[NEW], Y[NEW])
    assert (known.settings.vote_candidates, known.arrays["label_vote_label"].size) == (0, 0)
    wider = sp.csr_array((Y[NEW].data, Y[NEW].indices, Y[NEW].indptr), shape=(700, 41))
    later = updated(model, X[NEW], wider)
    assert later.settings.vote_candidates == 20
    assert later.arrays["label_vote_label"].size > 0
    assert updated(later, X[:5], wider[:5]).settings.vote_candidates == 20
    never = fit_default(X[OLD], Y[OLD], preset=replace(settings, vote_candidates=0))
    assert updated(never, X[NEW], wider).settings.vote_candidates == 0


def test_a_space_keeps_fewer_candidates_of_rows_that_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def noted(self: OneVsRestHead, X: Any, Y: Any, indptr: Any, classes: Any, is_held_out: Any, *rest: Any, **k: Any):
        asked.update(lengths=np.diff(indptr), is_held_out=is_held_out.astype(bool))
        return fit(self, X, Y, indptr, classes, is_held_out, *rest, **k)

    fit = OneVsRestHead._fit
    monkeypatch.setattr(OneVsRestHead, "_fit", noted)
    sieve = {
        "kept_candidates": 10,
        "training_share": 0.4,
        "kept_per_label": 0.0,
        "sieve_loss": 1.0,
    }
    model = fit_default(
        X[OLD],
        Y[OLD],
        preset=RecipeSettings(space_from_labels=0, retrieval_from_labels=0, label_clusterings=0, **sieve),
    )
    has_place = np.diff(X[OLD].indptr) > 0
    assert has_place.all()
    assert asked["lengths"][asked["is_held_out"]].max() == 10
    assert asked["lengths"][~asked["is_held_out"]].max() == 4
    assert np.diff(model.training_candidates(X[NEW]).indptr).max() == 4
    assert np.diff(model.candidates(X[NEW]).indptr).max() == 10


def test_a_model_without_a_head_stays_without() -> None:
    model = fit_default(X[OLD], Y[OLD], preset=RecipeSettings(use_head=False))
    more = sp.csr_array((Y[NEW].data, Y[NEW].indices, Y[NEW].indptr), shape=(700, 42))
    after = updated(model, X[NEW], more)
    assert after.head_.nnz == 0
    assert after.bias_.tolist() == [0.0] * 42
    assert first_is_right(after, X_TEST, Y_TEST) > 0.9


def test_counts_and_norms_add_up(small: DefaultRecipe) -> None:
    model, whole = updated(small, X[NEW], Y[NEW]), fit_default(X, Y)
    np.testing.assert_array_equal(model.label_counts_, whole.label_counts_)
    np.testing.assert_allclose(model.arrays["label_norms"], whole.arrays["label_norms"], rtol=1e-2)
    both = model.centroids_.multiply(whole.centroids_).sum(axis=1)
    assert np.asarray(both)[whole.label_counts_ > 0].min() > 0.98
    added = model.arrays["forest_leaf_mass"].sum() - small.arrays["forest_leaf_mass"].sum()
    assert added == pytest.approx(Y[NEW].nnz * model.n_trees_, rel=0.1)


def test_weights_are_repetitions(small: DefaultRecipe) -> None:
    twice = np.repeat(np.arange(500, 700), 2)
    model = updated(small, X[500:700], Y[500:700], np.full(200, 2, np.float32))
    repeated = updated(small, X[twice], Y[twice])
    np.testing.assert_allclose(model.label_counts_, repeated.label_counts_)
    np.testing.assert_allclose(model.arrays["forest_leaf_mass"], repeated.arrays["forest_leaf_mass"], rtol=1e-5)
    assert abs(model.head_ - repeated.head_).max() < 0.2


def test_nothing_new_changes_nothing(small: DefaultRecipe) -> None:
    assert updated(small, X[:0], Y[:0]) is small


def test_wrong_shapes_are_refused(small: DefaultRecipe) -> None:
    with pytest.raises(ValueError, match="new rows must have"):
        updated(small, X[NEW][:, :-1], Y[NEW])
    with pytest.raises(ValueError, match="new rows must have"):
        updated(small, X[NEW], Y[NEW][:, :-1])
