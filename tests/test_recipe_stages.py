"""Decisions of the recipe: what is asked for with which data, and which blend held-out rows choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism.heads.blend import NOT_REACHED
from labelprism.recipe import PRESETS, RecipeSettings
from labelprism.recipe_stages import (
    DataSize,
    Opinions,
    held_out_rows,
    labelled_elsewhere,
    learned_blend,
    mining_of,
    settings_for_data,
    settings_without_sieve,
)

CLUSTERED = RecipeSettings(cluster_gain=-1e9)


@pytest.mark.parametrize(("strength", "with_clusters"), [(3.0, False), (3.0, True), (0.0, False), (-3.0, True)])
def test_votes_are_weighed_by_what_they_are_worth(strength: float, with_clusters: bool) -> None:
    rng = np.random.default_rng(0)
    n, per_row = 400, 10
    is_true = np.arange(n * per_row) % per_row == 0
    margin = (is_true - 1 + 0.7 * rng.standard_normal(is_true.size)).astype(np.float32)
    votes = (strength * is_true + rng.standard_normal(is_true.size)).astype(np.float32)
    silent = np.zeros(is_true.size, np.float32)
    indptr, labels = np.arange(n + 1, dtype=np.int64) * per_row, np.tile(np.arange(per_row, dtype=np.int32), n)
    Y = sp.csr_array((np.ones(n), np.zeros(n, np.int32), np.arange(n + 1)), shape=(n, per_row))
    inside = (margin, margin) if with_clusters else (None, None)
    settings = replace(CLUSTERED, example_gain=15.0, space_gain=15.0)
    for name in ("examples", "space"):
        said = Opinions(indptr, labels, silent, silent, margin, *inside, **{name: votes})
        learned = learned_blend(said, Y, np.zeros(per_row), None, settings)
        # Votes against a label are none: they might make labels likelier, but experts are never turned round.
        assert getattr(learned, f"uses_{name}") == (strength > 0)
        assert (getattr(learned.blend, name) > 0.5) == (strength > 0)
        assert (learned.blend.clusters != 0) == with_clusters
    if strength > 0:  # where the space says it all already, votes are not asked for
        said = Opinions(indptr, labels, silent, silent, margin, *inside, votes, votes)
        learned = learned_blend(said, Y, np.zeros(per_row), None, settings)
        assert (learned.uses_space, learned.uses_examples, learned.blend.examples) == (True, False, 0.0)


@pytest.mark.parametrize(("own", "inside", "wanted"), [(2.0, 0.0, 0.7), (0.0, 2.0, 0.3), (1.0, 1.0, 0.5)])
def test_the_share_of_a_labels_own_classifier_is_what_makes_the_labels_likeliest(
    own: float, inside: float, wanted: float
) -> None:
    rng = np.random.default_rng(0)
    n, per_row = 400, 10
    is_true = np.arange(n * per_row) % per_row == 0
    margin, within = (
        (strength * is_true - 1 + 0.7 * rng.standard_normal(is_true.size)).astype(np.float32)
        for strength in (own, inside)
    )
    silent = np.zeros(is_true.size, np.float32)
    indptr, labels = np.arange(n + 1, dtype=np.int64) * per_row, np.tile(np.arange(per_row, dtype=np.int32), n)
    said = Opinions(indptr, labels, silent, silent, margin, within, silent)
    Y = sp.csr_array((np.ones(n), np.zeros(n, np.int32), np.arange(n + 1)), shape=(n, per_row))
    learned = learned_blend(said, Y, np.zeros(per_row), None, CLUSTERED)
    assert (learned.uses_clusters, learned.own_share) == (True, wanted)


@pytest.mark.parametrize(
    ("n_labels", "labels_per_row", "n_trees", "clusterings", "candidates", "in_training"),
    [
        (1500, 1.0, 1, 1, 25, 25),
        (1499, 1.0, 3, 0, 100, 100),
        (5000, 1.8, 1, 1, 27, 30),
        (5000, 3.0, 1, 1, 31, 37),
        (5000, 3.2, 2, 1, 32, 38),
        (50_000, 3.2, 2, 1, 32, 38),
        (50_001, 3.2, 2, 0, 32, 38),
        (5000, 4.9, 2, 1, 37, 48),
        (5000, 5.0, 3, 1, 37, 49),
        (5000, 6.0, 3, 1, 40, 55),
        (5000, 6.2, 3, 0, 41, 56),
        (10**5, 0.0, 1, 0, 25, 25),
        (10**5, 3.2, 2, 0, 42, 48),
    ],
)
def test_trees_take_the_place_of_clusters_and_of_a_space_where_these_say_little(
    n_labels: int, labels_per_row: float, n_trees: int, clusterings: int, candidates: int, in_training: int
) -> None:
    size = DataSize(20_000, n_labels, labels_per_row, 10**6, 100)
    adapted = settings_for_data(RecipeSettings(), size)
    assert (adapted.forest["n_trees"], adapted.label_clusterings) == (n_trees, clusterings)
    assert (adapted.forest_candidates, adapted.training_candidates) == (candidates, in_training)
    has_space = n_labels >= 1500 and labels_per_row <= 6
    assert adapted.space_passes == (8 if has_space else 0)
    # A space that finds candidates itself stands for trees and for more candidates.
    sieves = has_space and labels_per_row <= 3
    assert adapted.kept_candidates == (30 + round(4 * max(labels_per_row - 1, 0)) if sieves else 0)
    # Of more stored values a space is not learned.
    larger = settings_for_data(RecipeSettings(), size._replace(n_entries=2**26 + 1))
    assert (larger.space_passes, larger.kept_candidates) == (0, 0)
    assert larger.forest["n_trees"] >= 2
    without_held_out = settings_for_data(RecipeSettings(), size._replace(n_held_out=0))
    assert (without_held_out.space_passes, without_held_out.kept_candidates) == (0, 0)
    blind = settings_for_data(RecipeSettings(use_learned_blend=False), size)
    assert blind.kept_candidates == 0  # there are no held-out rows to ask whether it loses anything


def test_examples_of_the_head_have_fewer_candidates_than_rows_that_are_predicted() -> None:
    settings = RecipeSettings(training_candidates=7, training_votes=3, kept_candidates=31, training_share=0.25)
    own = settings.for_examples()
    assert (own.forest_candidates, own.vote_candidates, own.kept_candidates) == (7, 3, 8)
    assert own.centroid_candidates == settings.centroid_candidates
    assert replace(settings, vote_candidates=0).for_examples().vote_candidates == 0
    assert replace(settings, kept_candidates=1).for_examples().kept_candidates == 1
    assert replace(settings, kept_candidates=0).for_examples().kept_candidates == 0
    for share in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(ValueError, match="training_share must be above 0 and at most 1"):
            replace(settings, training_share=share)._check()
    for leaf_labels in (0, -1, 2.5, "all"):
        with pytest.raises(ValueError, match="sieved_leaf_labels must be a whole number from 1 on"):
            replace(settings, sieved_leaf_labels=leaf_labels)._check()
    for rate in ("candidates_per_label", "training_candidates_per_label", "kept_per_label", "candidates_per_doubling"):
        for bad in (-1.0, float("nan"), float("inf"), "many"):
            with pytest.raises(ValueError, match=f"^{rate} must be a number from 0 to 30000, got {bad!r}$"):
                RecipeSettings(**{rate: bad})._check()


@pytest.mark.parametrize(
    ("n_rows", "held_out", "most", "expected"),
    [
        (9, 1500, 3000, 0),
        (14_000, 1500, 3000, 1400),
        (96_000, 1500, 3000, 1500),
        (128_000, 1500, 3000, 2000),
        (1_000_000, 1500, 3000, 3000),
        (1_000_000, 4000, 3000, 4000),
        (1_000_000, 1500, 0, 1500),
        (1_000_000, 0, 0, 0),
    ],
)
def test_more_rows_are_held_out_of_many(n_rows: int, held_out: int, most: int, expected: int) -> None:
    settings = RecipeSettings(held_out=held_out, held_out_of_many=most)
    rows = held_out_rows(n_rows, settings, 0)
    assert rows.size == expected
    assert (np.diff(rows) > 0).all()
    assert held_out_rows(n_rows, replace(settings, use_learned_blend=False), 0).size == 0


def test_rows_are_labelled_elsewhere_if_others_have_one_of_their_labels() -> None:
    Y = sp.csr_array(np.array([[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], np.float32))
    # The first label is of the first two alone, the second and the last one of others too.
    assert labelled_elsewhere(Y, np.array([2, 2, 1, 3])).tolist() == [True, False, True, False, False]
    assert labelled_elsewhere(Y[:0], np.array([2, 2, 1, 3])).shape == (0,)


def test_nothing_is_looked_for_in_a_space_that_is_to_find_nothing() -> None:
    size = DataSize(100_000, 5000, 1.0, 10**6, 100)
    adapted = settings_for_data(RecipeSettings(space_candidates=0), size)
    assert mining_of(adapted) is None
    assert adapted.forest["stop_labels"] == 200  # trees find candidates in its place
    assert mining_of(settings_for_data(RecipeSettings(), size)) is not None


def test_forests_of_few_labels_are_not_for_those_that_a_space_finds() -> None:
    settings, size = RecipeSettings(space_from_labels=0), DataSize(20_000, 150, 1.0, 10**6, 100)
    adapted = settings_for_data(settings, size)
    assert (adapted.forest["n_trees"], adapted.forest["stop_labels"], adapted.forest_candidates) == (1, 200, 1)


def test_kept_candidates_stay_within_what_a_model_may_have() -> None:
    settings = RecipeSettings(kept_candidates=29_990)
    assert settings_for_data(settings, DataSize(100_000, 5000, 3.0, 10**6, 100)).kept_candidates == 30_000


@pytest.mark.parametrize("n_rows", [99_999, 100_000])
def test_many_rows_are_learned_from_less_often(n_rows: int) -> None:
    settings = RecipeSettings()
    adapted = settings_for_data(settings, DataSize(n_rows, 5000, 1.0, 10**6, 100))
    several = settings_for_data(settings, DataSize(n_rows, 5000, 4.0, 10**6, 100))
    assert several.space_passes == (8 if n_rows < 100_000 else 4)
    assert adapted.space_passes == 8  # rows look for candidates in it, or are few
    of_many_values = settings_for_data(settings, DataSize(n_rows, 5000, 1.0, 10**7, 100))
    assert of_many_values.space_passes == 4
    few = replace(settings, space_passes=2)
    assert settings_for_data(few, DataSize(n_rows, 5000, 1.0, 10**6, 100)).space_passes == 2


@pytest.mark.parametrize(
    ("preset", "n_labels", "labels_per_row", "n_trees", "leaf_labels", "candidates", "in_training"),
    [
        ("default", 5000, 1.0, 1, 200, 25, 25),  # a space keeps the nearest
        ("default", 5000, 4.0, 2, 60, 34, 43),
        ("accurate", 5000, 1.0, 9, 30, 50, 50),
        ("fast", 5000, 1.0, 1, 2**31 - 1, 1, 1),  # all labels in one leaf
        ("fast", 5000, 4.0, 1, 50, 32, 32),
        ("fast", 120, 5.0, 2, 50, 80, 80),
        ("fast", 159, 4.9, 1, 50, 80, 80),
        ("fast", 1499, 5.0, 2, 50, 80, 80),
        ("fast", 1500, 5.0, 1, 50, 36, 36),
        ("default", 1499, 5.0, 2, 60, 100, 100),
        ("default", 1499, 4.9, 3, 60, 100, 100),
        ("default", 99, 1.0, 3, 60, 100, 100),
        ("default", 100, 1.0, 2, 60, 100, 100),  # most labels are candidates anyway
        ("default", 200, 1.0, 2, 60, 100, 100),
        ("default", 201, 1.0, 3, 60, 100, 100),
        ("accurate", 159, 1.0, 9, 30, 50, 50),
    ],
)
def test_trees_are_shallow_where_a_space_keeps_the_nearest_candidates(
    preset: str,
    n_labels: int,
    labels_per_row: float,
    n_trees: int,
    leaf_labels: int,
    candidates: int,
    in_training: int,
) -> None:
    adapted = settings_for_data(PRESETS[preset], DataSize(20_000, n_labels, labels_per_row, 10**6, 100))
    assert (adapted.forest["n_trees"], adapted.forest["stop_labels"]) == (n_trees, leaf_labels)
    assert (adapted.forest_candidates, adapted.training_candidates) == (candidates, in_training)


@pytest.mark.parametrize("preset", ["default", "fast", "accurate"])
def test_many_rows_look_for_candidates_while_a_space_is_learned_in_place_of_trees(preset: str) -> None:
    settings, size = PRESETS[preset], DataSize(100_000, 5000, 2.0, 10**6, 100)
    adapted = settings_for_data(settings, size)
    if preset == "accurate":
        assert mining_of(adapted) is None
        assert adapted.forest["stop_labels"] == 30
        return
    kept = adapted.for_examples().kept_candidates
    assert mining_of(adapted) == (settings.mined_every, kept, kept)
    assert adapted.kept_candidates == settings.kept_candidates + 8  # twice as many more as elsewhere, for two labels
    assert adapted.for_examples().strong_features == 8
    assert adapted.centroid_candidates == 10
    assert settings_for_data(replace(settings, mined_centroids=3), size).centroid_candidates == 3
    assert adapted.forest["stop_labels"] == 2**31 - 1
    assert adapted.forest_candidates == 1
    few_rows = settings_for_data(settings, size._replace(n_rows=99_999))
    several = settings_for_data(settings, size._replace(labels_per_row=4.0))
    for other in (few_rows, several, settings_for_data(replace(settings, mined_every=0), size)):
        assert mining_of(other) is None
        assert other.for_examples().strong_features == 16


@pytest.mark.parametrize(
    ("n_rows", "n_entries", "n_labels", "has_head"),
    [
        (100_000, 10**7, 25_001, False),
        (100_000, 10**7, 25_000, True),  # labels have eight examples
        (100_000, 10**7 - 1, 25_001, True),
        (99_999, 10**7, 25_001, True),  # too few rows to look for candidates
    ],
)
def test_there_is_no_head_where_a_space_tells_many_rows_of_rare_labels_apart(
    n_rows: int, n_entries: int, n_labels: int, has_head: bool
) -> None:
    settings, size = PRESETS["default"], DataSize(n_rows, n_labels, 2.0, n_entries, 100)
    adapted = settings_for_data(settings, size)
    assert adapted.use_head == has_head
    mining = mining_of(adapted)
    if not has_head:
        assert mining == (2, 3, 3)  # in the second half of four passes again
        assert adapted.label_clusterings == 0
        without = settings_without_sieve(adapted, settings.use_head)
        assert (without.use_head, without.kept_candidates, without.space_candidates) == (True, 0, 0)
    elif n_rows == 100_000:
        assert mining is not None
        assert mining.n_kept == adapted.for_examples().kept_candidates > 3
    assert not settings_for_data(replace(settings, use_head=False), size).use_head
    for preset in ("accurate", "fast"):
        assert settings_for_data(PRESETS[preset], size).use_head == (has_head or preset == "accurate")


def test_near_examples_are_not_asked_where_labels_have_few() -> None:
    def longest(n_rows: int, settings: RecipeSettings) -> int:
        return settings_for_data(settings, DataSize(n_rows, 10_000, 2.0, 10**6, 100)).longest_example_list

    assert longest(40_000, RecipeSettings()) == 1024
    assert longest(39_999, RecipeSettings()) == 0
    assert longest(5, PRESETS["accurate"]) == 1024


@pytest.mark.parametrize(("labels_per_row", "wanted"), [(1.0, 10), (3.0, 10), (3.1, 0), (6.0, 0), (14.0, 0)])
def test_centroids_and_votes_bring_in_no_candidates_where_rows_have_several_labels(
    labels_per_row: float, wanted: int
) -> None:
    size = DataSize(20_000, 5000, labels_per_row, 10**6, 100)
    adapted, accurate = (settings_for_data(own, size) for own in (RecipeSettings(), PRESETS["accurate"]))
    assert adapted.centroid_candidates == wanted
    assert adapted.vote_candidates == (0 if labels_per_row > 6 else 20 if labels_per_row <= 3 else 30)
    assert (accurate.centroid_candidates, accurate.vote_candidates) == (10, 40)


@pytest.mark.parametrize(
    ("n_labels", "forest", "in_training", "votes", "centroids"),
    [(159, 100, 100, 0, 0), (1499, 100, 100, 0, 0), (1500, 28, 31, 20, 10)],
)
def test_where_labels_are_few_the_forest_alone_finds_candidates(
    n_labels: int, forest: int, in_training: int, votes: int, centroids: int
) -> None:
    adapted = settings_for_data(RecipeSettings(), DataSize(5000, n_labels, 2.0, 10**5, 100))
    assert (adapted.forest_candidates, adapted.training_candidates) == (forest, in_training)
    assert (adapted.vote_candidates, adapted.centroid_candidates) == (votes, centroids)


@pytest.mark.parametrize(("n_rows", "clusterings"), [(75_000, 1), (75_001, 0)])
def test_labels_with_examples_enough_of_their_own_are_not_clustered(n_rows: int, clusterings: int) -> None:
    size = DataSize(n_rows, 5000, 2.0, 10**6, 100)
    assert settings_for_data(RecipeSettings(), size).label_clusterings == clusterings
    assert settings_for_data(PRESETS["accurate"], size).label_clusterings == 5


def test_the_forest_not_knowing_a_label_has_a_price_of_its_own() -> None:
    """Labels of half the rows are unknown to the forest, which knows better for the others."""
    n, per_row = 600, 8
    rng = np.random.default_rng(0)
    is_true = np.arange(n * per_row) % per_row == 0
    is_unknown = is_true & (np.arange(n * per_row) // per_row % 2 == 0)
    log_forest = np.where(is_unknown, NOT_REACHED, rng.uniform(-6, -3, n * per_row) + 2 * is_true).astype(np.float32)
    silent = np.zeros(n * per_row, np.float32)
    indptr, labels = np.arange(n + 1, dtype=np.int64) * per_row, np.tile(np.arange(per_row, dtype=np.int32), n)
    Y = sp.csr_array((np.ones(n), np.zeros(n, np.int32), np.arange(n + 1)), shape=(n, per_row))
    blend = learned_blend(
        Opinions(indptr, labels, log_forest, silent, silent), Y, np.ones(per_row), None, RecipeSettings()
    ).blend
    assert blend.forest > 0.5
    assert blend.forest * NOT_REACHED + blend.unreached > blend.forest * -4  # as good as a label that is well known


def test_votes_bring_in_rare_labels_where_these_are_the_objective() -> None:
    size = DataSize(20_000, 5000, 14.0, 10**6, 100)
    frequent, rare = (
        settings_for_data(RecipeSettings().for_objective(name), size) for name in ("precision", "propensity")
    )
    assert (frequent.vote_candidates, frequent.for_examples().vote_candidates) == (0, 0)
    assert (rare.vote_candidates, rare.for_examples().vote_candidates) == (30, 30)
