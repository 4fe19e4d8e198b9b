"""Every choice of the default recipe in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# While trees grow an example goes one way, that of its router, directions are found in one step, and routers learn from
# a sample where nodes are large: beside the other experts hardly anything is lost by it. Predictions take several ways.
_QUICK_GROWTH: dict[str, Any] = {"routing": "hard", "sketch_steps": 1, "max_rows": 20_000}
# Both ways, but by routes narrower than the forest's own.
_GROWTH: dict[str, Any] = {"growth_noise": 0.05, "prune_below": 0.3}
MOST_CANDIDATES = 30_000  # of one kind; predictor.hpp


@dataclass(frozen=True)
class RecipeSettings:
    """Every choice of the recipe, so that the effect of each step can be measured.

    Parameters
    ----------
    forest, head : dict
        Parameters of `SpectralForest` and `OneVsRestHead` that differ from their defaults. For `n_trees` see also
        `more_trees`.
    forest_candidates, centroid_candidates : int
        How many candidates the forest and the centroids bring in; 0 centroids: without them.
    centroids_up_to_labels_per_row : float
        Where rows have more labels than so many on average, centroids bring in none, and votes as many more,
    votes_up_to_labels_per_row : float
        and where they have more than so many votes bring in none either: rows find labels in several leaves; but see
        `for_objective`,
    votes_for_new_labels : int
        and so many where a model has learned labels that were not there before, which leaves hardly know; set by the
        recipe.
    retrieval_from_labels : int
        Where there are fewer labels, neither centroids nor votes bring in any: the forest finds them all,
    candidates_of_few : int
        and brings in at least so many then.
    forest_of_fewest, forest_of_few : dict
        Parameters of the forest where that is half of all labels to all of them, in place of more trees: most labels
        are candidates anyway; and where labels are few, and rows have `most_trees_from_labels_per_row` of them on
        average: there F stands alone, and trees that examples go down both ways tell more.
    training_candidates, training_votes : int
        Those of the forest and by votes for the examples that the head learns from.
    candidates_per_label, training_candidates_per_label : float
        So many more of the forest for every label that rows have on average beyond the first; and so many for the
        examples that the head learns from. At most 50 more in both cases.
    candidates_per_doubling : float
        So many more of the forest and by votes whenever the labels double beyond 50,000, where no space finds
        candidates.
    vote_candidates : int
        How many candidates the row's strongest features bring in: each divides its value among the labels that it
        occurs with, in proportion to how much of it they have; the labels of most votes are taken. 0: without votes.
    centroid_features : int
        How many features a centroid keeps.
    strong_features, mined_features : int
        How many features of a row, its strongest, look for centroids and vote; `mined_features` of the examples that
        the head learns from, where these also look for candidates in a space while it is learned.
    longest_list : int
        Centroids are looked for among so many labels of each feature, those of its largest values.
    longest_vote_list : int
        So many labels of each feature, those of its largest shares, may get its votes.
    held_out, held_out_of_many : int
        A tenth of the rows, but at most `held_out`, are held out to learn the blend on; or one in 64, if these are
        more, up to `held_out_of_many`.
    label_clusterings : int
        How many times the labels are clustered, for classifiers of clusters and of labels within them; see
        `labelprism.heads.label_clusters`.
    cluster_labels : int
        The most labels of a cluster.
    cluster_from_labels, cluster_up_to_labels : int
        Where there are fewer labels, or more, they are not clustered,
    cluster_up_to_labels_per_row : float
        nor where rows have more than so many of them on average,
    cluster_up_to_examples_per_label : float
        nor where labels have more examples than so many on average: they need not learn from their neighbours' then.
    more_trees : int
        So many trees more are grown where labels are not clustered, where no space is asked for,
    more_trees_from_labels_per_row : float
        or where rows have at least so many labels on average,
    most_trees_from_labels_per_row : float
        and as many again where they have at least so many, or where there are neither clusters nor a space.
    cluster_gain : float
        By how much the logarithm of the likelihood of the held-out rows' labels must rise with clusters for them to be
        taken.
    longest_example_list : int
        So many examples of each feature, those of its largest values, may be near a row and vote for their labels; see
        `labelprism.heads.near_examples`. 0: without them.
    examples_from_labels : int
        Where there are fewer labels it is not tried whether such votes help: there they would take most of the time of
        a prediction.
    examples_from_examples_per_label : float
        Nor where labels have fewer examples than so many on average: then centroids say as much.
    example_gain : float
        By how much the logarithm of the likelihood of the held-out rows' labels must rise with these votes for them to
        be taken: models are larger with them, and slower.
    space_passes : int
        How many times features learn from all rows where they lie in a space, near the labels they occur with; see
        `labelprism.heads.label_space`. 0: without it.
    space_from_labels : int
        Where there are fewer labels it is not tried whether that helps,
    space_up_to_labels_per_row : float
        nor where rows have more than so many of them on average.
    space_gain : float
        By how much the logarithm of the likelihood of the held-out rows' labels must rise with the space for it to be
        taken.
    kept_candidates : int
        How many candidates of a row a space keeps, those that lie nearest to it. No more trees, and no more candidates
        for many labels, are needed then. 0: it keeps all.
    kept_per_label : float
        So many more for every label that rows have on average beyond the first, at most 50 more, and twice as many
        where rows look for candidates while it is learned.
    space_candidates : int
        How many candidates such a space brings in before: the labels that lie nearest to the row.
    training_share : float
        Such a share of `kept_candidates` is kept for the examples that the head learns from.
    sieved_leaf_labels : int
        Where a space is asked to keep candidates, leaves of the forest have up to so many labels: it finds the nearest
        itself. If there are no more labels than that, no tree grows, and the forest brings in one candidate.
    mined_every : int
        Where a space is asked to keep candidates, rows look for candidates in it while it is learned, before the first
        pass and again every so many passes, or when half of them are done: what it is learned from then, and the head.
        No tree grows. 0: they do not.
    mined_from_rows : int
        Where there are fewer rows they do not either: trees cost little there.
    mined_centroids : int
        Where they do, centroids bring in at most so many candidates.
    mined_without_head : int
        How many labels each row finds where there is no head, which would learn from them too.
    head_from_examples_per_label : float
        Where rows look for candidates, and have `many_values`, there is no head if labels have fewer examples than so
        many on average: the space tells them apart as well.
    many_rows : int
        Where there are at least so many rows, fewer passes are enough:
    space_passes_of_many : int
        features of a space learn at most so many times, if rows do not look for candidates in it meanwhile.
    many_values, space_passes_of_many_values : int
        Where rows have at least `many_values` stored values in all, features of a space learn at most
        `space_passes_of_many_values` times.
    sieve_up_to_labels_per_row : float
        Where rows have more labels than so many on average, a space keeps all candidates, and brings in none,
    sieve_loss : float
        and also if the candidates of held-out rows would then have fewer of their labels than before, by more than such
        a share.
    longest_own_list : float
        Where a space keeps few candidates, the weights of a model lie label by label if labels have at most so many on
        average, times the features of a row: then fewer are read. 0: feature by feature.
    training_smallest, training_noise_scale : float
        How widely the forest routes the examples that the head learns from; see `SpectralForest.training_candidates`.
    use_head, use_learned_blend : bool
        Whether there is a head; whether the blend is learned, or `heads.blend.DEFAULT_BLEND`.
    unit_rows : bool
        Whether rows are made unit first.
    """

    forest: Mapping[str, Any] = field(
        default_factory=lambda: {"n_trees": 1, "stop_labels": 60, "smallest": 0.1, **_QUICK_GROWTH}
    )
    head: Mapping[str, Any] = field(default_factory=lambda: {"tolerance": 0.8})
    forest_candidates: int = 25
    training_candidates: int = 25
    training_votes: int = 0
    candidates_per_label: float = 3.0
    training_candidates_per_label: float = 6.0
    candidates_per_doubling: float = 10.0
    centroid_candidates: int = 10
    centroids_up_to_labels_per_row: float = 3.0
    votes_up_to_labels_per_row: float = 6.0
    votes_for_new_labels: int = 0
    vote_candidates: int = 20
    retrieval_from_labels: int = 1500
    candidates_of_few: int = 100
    forest_of_fewest: Mapping[str, Any] = field(default_factory=lambda: {"n_trees": 2})
    forest_of_few: Mapping[str, Any] = field(default_factory=lambda: {"n_trees": 2, "routing": "fractional"})
    centroid_features: int = 200
    strong_features: int = 16
    mined_features: int = 8
    longest_list: int = 64
    longest_vote_list: int = 32
    held_out: int = 1500
    held_out_of_many: int = 3000
    label_clusterings: int = 1
    cluster_labels: int = 50
    cluster_from_labels: int = 1500
    cluster_up_to_labels: int = 50_000
    cluster_up_to_labels_per_row: float = 6.0
    cluster_up_to_examples_per_label: float = 30.0
    more_trees: int = 1
    more_trees_from_labels_per_row: float = 2.0
    most_trees_from_labels_per_row: float = 5.0
    cluster_gain: float = 0.0
    longest_example_list: int = 1024
    examples_from_labels: int = 5000
    examples_from_examples_per_label: float = 8.0
    example_gain: float = 30.0
    space_passes: int = 8
    space_from_labels: int = 1500
    space_up_to_labels_per_row: float = 6.0
    space_gain: float = 5.0
    kept_candidates: int = 30
    kept_per_label: float = 4.0
    space_candidates: int = 10
    training_share: float = 0.5
    sieved_leaf_labels: int = 200
    mined_every: int = 3
    mined_from_rows: int = 100_000
    mined_centroids: int = 10
    mined_without_head: int = 3
    head_from_examples_per_label: float = 8.0
    many_rows: int = 100_000
    space_passes_of_many: int = 4
    many_values: int = 10_000_000
    space_passes_of_many_values: int = 4
    sieve_up_to_labels_per_row: float = 3.0
    sieve_loss: float = 0.01
    longest_own_list: float = 8.0
    training_smallest: float = 0.4
    training_noise_scale: float = 0.33
    use_head: bool = True
    use_learned_blend: bool = True
    unit_rows: bool = True

    def _check(self) -> None:
        """Raise a ValueError where a number is out of range, before anything has been learned for it."""
        least = {"forest_candidates": 1, "training_candidates": 1, "centroid_candidates": 0, "vote_candidates": 0}
        least |= {"longest_list": 1, "longest_vote_list": 1, "longest_example_list": 0, "space_passes": 0}
        least |= {"space_candidates": 0, "kept_candidates": 0, "training_votes": 0, "votes_for_new_labels": 0}
        least |= {"space_passes_of_many": 1, "strong_features": 1, "mined_features": 1, "candidates_of_few": 0}
        least |= {"held_out": 0, "held_out_of_many": 0, "mined_centroids": 0}
        least |= {"mined_every": 0, "mined_without_head": 1, "space_passes_of_many_values": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not lowest <= value <= MOST_CANDIDATES:
                raise ValueError(f"{name} must be a whole number from {lowest} to {MOST_CANDIDATES}, got {value!r}")
        rates = ("candidates_per_label", "training_candidates_per_label", "kept_per_label", "candidates_per_doubling")
        for name in rates:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= MOST_CANDIDATES:
                raise ValueError(f"{name} must be a number from 0 to {MOST_CANDIDATES}, got {value!r}")
        if not isinstance(self.training_share, int | float) or not 0 < self.training_share <= 1:
            raise ValueError(f"training_share must be above 0 and at most 1, got {self.training_share!r}")
        if not isinstance(self.sieved_leaf_labels, int) or self.sieved_leaf_labels < 1:
            raise ValueError(f"sieved_leaf_labels must be a whole number from 1 on, got {self.sieved_leaf_labels!r}")

    def for_objective(self, objective: str) -> RecipeSettings:
        """Return the settings for an objective, "precision" or "propensity".

        Rare labels of rows with many are found by votes, and known by the head if it has met them among candidates.
        """
        if objective != "propensity":
            return self
        return replace(self, votes_up_to_labels_per_row=1e9, training_votes=MOST_CANDIDATES)

    def for_examples(self) -> RecipeSettings:
        """Return the settings for the candidates of the examples that the head learns from.

        Their own labels are known, and too many wrong ones that are near crowd rare labels out.
        """
        kept = max(round(self.training_share * self.kept_candidates), 1) if self.kept_candidates else 0
        votes = min(self.training_votes, self.vote_candidates)
        features = self.mined_features if self.mined_every else self.strong_features
        return replace(
            self,
            forest_candidates=self.training_candidates,
            vote_candidates=votes,
            kept_candidates=kept,
            strong_features=min(features, self.strong_features),
        )


PRESETS: dict[str, RecipeSettings] = {
    "default": RecipeSettings(),
    "accurate": RecipeSettings(
        forest={"n_trees": 9, "stop_labels": 30, "smallest": 0.1, **_GROWTH},
        head={"tolerance": 0.3, "passes": 6},
        forest_candidates=50,
        training_candidates=50,
        training_votes=40,
        candidates_per_label=5.0,
        training_candidates_per_label=5.0,
        vote_candidates=40,
        centroids_up_to_labels_per_row=1e9,
        votes_up_to_labels_per_row=1e9,
        label_clusterings=5,
        cluster_labels=100,
        retrieval_from_labels=0,
        cluster_from_labels=0,
        cluster_up_to_labels=2**31 - 1,
        cluster_up_to_examples_per_label=1e9,
        more_trees=0,
        examples_from_labels=0,
        examples_from_examples_per_label=0.0,
        example_gain=5.0,
        space_passes=10,
        kept_candidates=80,
        kept_per_label=5.0,
        space_candidates=20,
        training_share=1.0,
        sieved_leaf_labels=30,
        mined_every=0,
        many_rows=2**31 - 1,
        many_values=2**63 - 1,
    ),
    "fast": RecipeSettings(
        forest={"n_trees": 1, "stop_labels": 50, "min_rows": 100, "smallest": 0.1, **_QUICK_GROWTH, "max_rows": 10_000},
        head={"rare_examples": 10.0, "tolerance": 1.2, "passes": 3},
        forest_candidates=20,
        training_candidates=20,
        candidates_per_label=4.0,
        training_candidates_per_label=4.0,
        centroid_candidates=20,
        vote_candidates=10,
        candidates_of_few=80,
        forest_of_fewest={},
        forest_of_few={"n_trees": 2, "routing": "fractional", "max_rows": 5000},
        label_clusterings=0,
        more_trees=0,
        space_passes=4,
        mined_every=2,
        mined_without_head=2,
        kept_candidates=20,
        sieved_leaf_labels=2**31 - 1,
    ),
}
