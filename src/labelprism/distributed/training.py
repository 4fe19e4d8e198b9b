"""The default recipe on a cluster: its stages as tasks on chunks of rows, subtrees and ranges of labels."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from time import perf_counter
from typing import Any

import dask
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Float32
from labelprism._stages import Checkpoint, NoStages, Stages
from labelprism.distributed.chunks import Chunk, Chunks, LabelCounts, labels_of, split_chunks
from labelprism.distributed.cluster import Cluster, Group
from labelprism.distributed.finding import (
    clusters_of,
    found_candidates,
    found_with,
    held_candidates,
    held_of,
    offered_by,
)
from labelprism.distributed.kept import (
    chunk_digest,
    data_digests,
    forest_arrays,
    kept_forest,
    kept_shard,
    shard_arrays,
)
from labelprism.distributed.label_shards import (
    Centroids,
    LabelRange,
    Shard,
    balanced_ranges,
    done,
    examples_of,
    expected_examples,
    expected_of_classes,
    fitted_shard,
    group_examples,
    group_sums,
    range_centroids,
    range_count,
    row_classes,
    stacked,
)
from labelprism.distributed.spread_growth import SpreadLimits
from labelprism.distributed.spread_space import Space, sieved_chunk, sieved_found, space_of
from labelprism.distributed.spread_tasks import total_of
from labelprism.distributed.subtrees import grown_forest
from labelprism.filters import SpectralForest
from labelprism.heads.label_clusters import LabelClusters
from labelprism.heads.label_space import space_arrays, space_cosines
from labelprism.heads.near_examples import (
    Examples,
    example_arrays,
    example_votes,
    joined_examples,
    strongest_examples,
)
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.metrics.ranking import inverse_propensity_of_counts
from labelprism.recipe_model import (
    Arrays,
    DefaultRecipe,
    LabelFacts,
    forest_tables,
    recipe_arrays,
    recipe_meta,
)
from labelprism.recipe_settings import RecipeSettings
from labelprism.recipe_stages import (
    DataSize,
    Learned,
    Opinions,
    asks_examples,
    held_out_rows,
    kept_classes,
    labelled_elsewhere,
    learned_blend,
    said_of_held_out,
    settings_for_data,
    settings_without_sieve,
)

Float64 = npt.NDArray[np.float64]

_SHARE_OF_MEMORY = 0.2  # of a worker, for the rows of a range of labels; they are copied once


class DistributedTraining:
    """The stages of training.

    Parameters
    ----------
    cluster : Cluster
    settings : RecipeSettings
    objective : {"precision", "propensity"}
    n_jobs : int or None
        Threads of a task that has a worker for itself.
    seed : int
    limits : SpreadLimits
    checkpoint : Checkpoint or None
        Where the forest and the classifiers are kept, and taken from if they are there.
    """

    def __init__(
        self, cluster: Cluster, settings: RecipeSettings, objective: str, n_jobs: int | None, seed: int,
        limits: SpreadLimits, checkpoint: Checkpoint | None = None,
    ) -> None:  # fmt: skip
        self.cluster, self.objective = cluster, objective
        self.asked = self.settings = settings.for_objective(objective)
        self.n_jobs, self.seed, self.limits, self.checkpoint = n_jobs, seed, limits, checkpoint
        self.stages: Stages = NoStages() if checkpoint is None else checkpoint
        self.clusters: LabelClusters | None = None
        self.seconds: dict[str, float] = {}
        self._since = perf_counter()

    def run(self, chunks: Chunks, validation: Chunk | None) -> tuple[DefaultRecipe, Float64]:
        """Train, and return the model and the weight of each label's examples.

        Parameters
        ----------
        chunks : Chunks
        validation : Chunk or None
            Rows to learn the blend on instead of held-out rows.
        """
        cluster = self.cluster
        self._begin_checkpoint(chunks, validation)
        n_rows = int(chunks.first_rows[-1])
        counts = chunks.counts.plain
        joins = validation is None
        held_out = held_out_rows(n_rows if joins else 0, self.settings, self.seed)
        held_out = held_out[labelled_elsewhere(labels_of(cluster, chunks, held_out), counts)]
        seen, held = split_chunks(cluster, chunks, held_out)
        n_held = n_rows - int(seen.first_rows[-1])
        if validation is not None:
            held = self._shipped("split", "validation", validation)
            n_held = validation.X.shape[0]
        n_entries = sum(facts.n_entries for facts in chunks.facts)
        labels_per_row = float(counts.sum()) / n_rows
        size = DataSize(n_rows, counts.size, labels_per_row, n_entries, n_held)
        self.settings = settings_for_data(self.settings, size)
        self._note("split")
        groups = cluster.groups(seen.futures)
        sums = self._label_sums(seen, groups)
        forest, parts = self._forest(seen)
        tables = cluster.submit("subtree-growth", "tables", forest_tables, forest, first=True)
        centres = self._centroids(sums, None)  # by workers that have nothing left to grow
        last_centres = self._centroids(sums, held) if joins and n_held else centres
        search = (tables, centres, held, self.settings)
        found = cluster.submit("candidates", "finder", found_with, *search, first=True)
        finds = [(chunk, found) for chunk in seen.futures]
        candidates = cluster.submit_all("candidates", "find", found_candidates, finds)
        cluster.watch(parts, "growing subtrees")
        self._note("forest")
        offered = cluster.fetch("candidates", cluster.submit("candidates", "offered", offered_by, found, first=True))
        self.clusters, clusters = self._clusters(centres)
        self._note("centroids")
        placed = self._space(seen, candidates, held, found, joins)
        if placed is not None and self.settings.kept_candidates:
            learning = self.settings.for_examples()
            numbers = [(placed, number) for number in range(len(seen.futures))]
            mined = cluster.submit_all("candidates", "mined", Space.mined_of, numbers)
            placed = cluster.submit("candidates", "space-alone", Space.without_mined, placed, first=True)
            each = zip(seen.futures, candidates, mined, strict=True)
            sieves = [(chunk, lists, placed, own, learning) for chunk, lists, own in each]
            candidates = cluster.submit_all("candidates", "sieve", sieved_chunk, sieves)
            held_by = (found, held, placed, self.settings)
            found = cluster.submit("candidates", "held-sieve", sieved_found, *held_by, first=True)
            if not self.settings.use_head:  # the space stands for it, if it finds candidates
                finds = cluster.submit("candidates", "space-finds", Space.finds_candidates, placed, first=True)
                if not cluster.fetch("candidates", finds):
                    self.settings = settings_without_sieve(self.settings, self.asked.use_head)
        shards = self._head(seen, groups, candidates, held, n_held, joins, found, offered, clusters)
        cluster.watch(candidates, "finding candidates")
        self._note("candidates")
        # What is ready comes to this process while classifiers are trained.
        of_forest: Arrays = cluster.fetch("subtree-growth", tables)
        said = cluster.fetch("head", cluster.submit("head", "said", held_of, found, held, first=True))
        cluster.watch([shard for _, shard in shards], "training classifiers", "shards")
        self._note("head")
        trained: list[Shard] = cluster.fetch("head", [shard for _, shard in shards])
        all_counts = chunks.counts if joins else _with_validation(chunks.counts, validation)
        examples = self._examples(seen) if n_held else []
        space: Space | None = None if placed is None else cluster.fetch("head", placed)
        if space is None or space.seen.lists is None:
            self.settings = settings_without_sieve(self.settings, self.settings.use_head)
        learned = self._blend(said, n_held, trained, seen, all_counts, examples, space)
        if learned.uses_examples and joins:
            examples.append(chunk_examples(said[1], self.settings.longest_example_list))
        self._note("blend")
        model = self._model(of_forest, trained, last_centres, chunks.counts.weighted, learned, examples, space)
        self._note("layout")
        model.stage_seconds_ = self.seconds
        return model, chunks.counts.weighted

    def _begin_checkpoint(self, chunks: Chunks, validation: Chunk | None) -> None:
        """Make sure that the checkpoint, if there is one, is of this training."""
        if self.checkpoint is None:
            return
        sums = [self.cluster.submit("chunks", "digest", chunk_digest, chunk) for chunk in chunks.futures]
        parameters = {
            **asdict(self.settings), **asdict(self.limits), "objective": self.objective, "random_state": self.seed
        }  # fmt: skip
        self.checkpoint.begin(parameters, data_digests(self.cluster.fetch("chunks", sums), validation))

    def _shipped(self, phase: str, step: str, value: Any) -> Any:
        """Return the future of a value that is here: it is part of the task, so that whoever runs it anew has it."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.cluster.submit(phase, step, as_is, value)

    def _note(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage], self._since = now - self._since, now

    def _forest(self, seen: Chunks) -> tuple[Any, list[Any]]:
        """Return the futures of the forest, and of the parts that it is made of."""
        kept = self.stages.load("forest")
        if kept is not None:
            return self._shipped("subtree-growth", "kept", kept_forest(kept)), []
        forest = SpectralForest(**self.settings.forest, random_state=self.seed)
        forest._check_parameters()
        mean_weight = seen.counts.row_weight / max(int(seen.first_rows[-1]), 1)
        grown, parts = grown_forest(self.cluster, seen, forest, mean_weight, self.limits)
        if self.stages.is_kept:
            self.stages.save("forest", forest_arrays(self.cluster.fetch("subtree-growth", grown)))
        return grown, parts

    def _label_sums(self, seen: Chunks, groups: list[Group]) -> list[tuple[Any, LabelRange]]:
        """Return the futures of the sums of each label's rows, by ranges of labels. They need no forest."""
        cluster, n_chunks = self.cluster, len(seen.futures)
        found = []
        for labels in balanced_ranges(seen.counts.plain, len(cluster.workers())):
            parts = [
                cluster.submit(
                    *("centroids", "sums", group_sums, [seen.futures[k] for k in numbers], numbers, n_chunks, labels),
                    last=True, home=home,
                )
                for home, numbers in groups
            ]  # fmt: skip
            found.append((cluster.submit("centroids", "sum", total_of, parts, n_chunks, last=True), labels))
        return found

    def _centroids(self, sums: list[tuple[Any, LabelRange]], more: Any) -> list[Any]:
        """Return the futures of the centroids of each range of labels, with further rows if there are any."""
        n_features = self.settings.centroid_features
        return [
            self.cluster.submit("centroids", "cut", range_centroids, own, more, labels, n_features, last=True)
            for own, labels in sums
        ]

    def _clusters(self, centres: list[Any]) -> tuple[LabelClusters | None, Any]:
        """Return the clusterings of the labels that the head is to learn, if any, here and as a future."""
        if self.settings.label_clusterings == 0:
            return None, None
        made = self.cluster.submit(
            "candidates", "clusters", clusters_of, centres, self.settings, self.seed, self.n_jobs, first=True
        )
        return self.cluster.fetch("candidates", made), made

    def _head(
        self, seen: Chunks, groups: list[Group], candidates: list[Any], held: Any, n_held: int, joins: bool,
        found: Any, offered: npt.NDArray[Any] | None, clusters: Any,
    ) -> list[tuple[LabelRange, Any]]:  # fmt: skip
        """Return the ranges of labels, and the futures of their classifiers."""
        cluster = self.cluster
        head = OneVsRestHead(**self.settings.head, n_jobs=self.n_jobs)
        head._check_parameters()
        if self.clusters is not None:
            head._first_cluster = self.clusters.first_cluster
        if not self.settings.use_head:
            return [((0, seen.shape[1]), cluster.submit("head", "none", no_head, seen.shape, n_held))]
        ranges, workers = self._ranges(seen, n_held, offered)
        of_held = None if held is None else cluster.submit("head", "held-out", held_candidates, found)
        if clusters is not None:
            classed = [(chunk, own, clusters) for chunk, own in zip(seen.futures, candidates, strict=True)]
            candidates = cluster.submit_all("head", "classes", row_classes, classed)
            if held is not None:
                of_held = cluster.submit("head", "held-classes", row_classes, held, of_held, clusters, True)
        pairs = [([seen.futures[k] for k in own], [candidates[k] for k in own]) for _, own in groups]
        shards: list[Any] = []
        for number, labels in enumerate(ranges):
            kept = self.stages.load(f"head_{labels[0]}")
            if kept is not None:
                shards.append(self._shipped("head", "kept", kept_shard(kept)))
                continue
            before = number - len(workers)
            after = None if before < 0 else cluster.submit("head", "done", done, shards[before])
            pieces = [
                cluster.submit("head", "rows", group_examples, *pair, labels, after, home=home)
                for (home, _), pair in zip(groups, pairs, strict=True)
            ]
            more = None if held is None else cluster.submit("head", "held-rows", examples_of, held, of_held, labels)
            arguments = (pieces, [own for _, own in groups], more, n_held, joins, labels, head, self.seed)
            home = workers[number % len(workers)]
            shards.append(cluster.submit("head", "train", fitted_shard, *arguments, home=home))
        if self.stages.is_kept:
            self._keep(ranges, shards)
        return list(zip(ranges, shards, strict=True))

    def _keep(self, ranges: list[LabelRange], shards: list[Any]) -> None:
        """Save classifiers as they are done; those that were kept already stay."""
        for (first, _), shard in zip(ranges, shards, strict=True):
            if self.stages.load(f"head_{first}") is None:
                self.stages.save(f"head_{first}", shard_arrays(self.cluster.fetch("head", shard)))

    def _ranges(
        self, seen: Chunks, n_held: int, offered: npt.NDArray[Any] | None
    ) -> tuple[list[LabelRange], list[str]]:
        """Return the ranges of labels of the head, and the workers that train them in turn.

        What is trained does not depend on it. So the candidates of held-out rows say enough of those of all rows, which
        are still being looked for.
        """
        memory = self.cluster.workers()
        kept = self.stages.load("head")
        if kept is not None:  # ranges that were begun go on, however many workers there are now
            return list(pairwise(kept["ends"].tolist())), list(memory)
        n_rows, n_entries = int(seen.first_rows[-1]), sum(facts.n_entries for facts in seen.facts)
        asked = self.settings.for_examples()
        per_row = asked.forest_candidates + asked.centroid_candidates + asked.vote_candidates
        per_row = asked.kept_candidates if asked.mined_every else per_row
        work = expected_examples(seen.counts.plain, offered, n_held, n_rows, per_row)
        if self.clusters is not None:
            work = expected_of_classes(seen.counts.plain, work, self.clusters)
        limit = _SHARE_OF_MEMORY * min(memory.values())
        n_ranges = range_count(len(memory), 8 * n_entries, float(work.sum()) / max(n_rows, 1), limit)
        ranges = balanced_ranges(work, n_ranges)
        self.stages.save("head", {"ends": np.array([0, *(end for _, end in ranges)])})
        return ranges, list(memory)

    def _examples(self, seen: Chunks) -> list[Examples]:
        """Return the examples that may be near a row, chunk by chunk; none where it is not asked if they help."""
        longest = self.settings.longest_example_list
        n_entries = sum(facts.n_entries for facts in seen.facts)
        if not asks_examples(self.settings, seen.shape[1], n_entries):
            return []
        found = [self.cluster.submit("head", "examples", chunk_examples, chunk, longest) for chunk in seen.futures]
        return [self.cluster.fetch("head", part) for part in found]

    def _space(self, seen: Chunks, candidates: list[Any], held: Any, found: Any, joins: bool) -> Any:
        """Return the future of a space of features and labels; None where it is not asked if it helps."""
        if self.settings.space_passes == 0:
            return None
        rows = (seen.futures, candidates, held, found, joins)
        how = (self.settings, self.seed, self.n_jobs)
        return self.cluster.submit("candidates", "space", space_of, *rows, *how, first=True)

    def _blend(
        self, of_held: Any, n_held: int, shards: list[Shard], seen: Chunks, counts: LabelCounts,
        examples: list[Examples], space: Space | None,
    ) -> Learned:  # fmt: skip
        if not n_held:
            return Learned()
        (indptr, at, log_forest, cosine), held = of_held
        importance = votes = cosines = None
        if self.objective == "propensity":
            importance = inverse_propensity_of_counts(counts.plain, int(seen.first_rows[-1]) + n_held)
        margins = sp.csr_array(sp.hstack([shard.margins for shard in shards], format="csr"))
        if examples:
            joined = joined_examples(examples, self.settings.longest_example_list)
            votes = example_votes(joined, held.X, indptr, at, held.Y.shape[1])
        if space is not None:
            cosines = space_cosines(space.seen.features, space.seen.labels, held.X, indptr, at)
        said = said_of_held_out(margins, indptr, at, self.clusters)
        opinions = Opinions(indptr, at, log_forest, cosine, *said, votes, cosines)
        return learned_blend(opinions, held.Y, seen.counts.weighted, importance, self.settings)

    def _model(
        self, tables: Arrays, shards: list[Shard], centres: list[Any], counts: Float64, learned: Learned,
        examples: list[Examples], space: Space | None,
    ) -> DefaultRecipe:  # fmt: skip
        ends: list[Centroids] = self.cluster.fetch("centroids", centres)
        centre, norms = stacked([own.centre for own in ends]), np.concatenate([own.norms for own in ends])
        bias: Float32 = np.concatenate([shard.bias for shard in shards])
        weights = stacked([shard.weights for shard in shards])
        clusters = self.clusters if learned.uses_clusters else None
        weights, bias = kept_classes(weights, bias, clusters, centre.shape[0], learned.own_share, self.settings)
        arrays = recipe_arrays(tables, weights, centre, LabelFacts(bias, counts, norms), self.settings, clusters)
        if learned.uses_examples:
            arrays |= example_arrays(joined_examples(examples, self.settings.longest_example_list))
        if space is not None and (learned.uses_space or space.seen.lists is not None):
            arrays |= space_arrays(space.seen.features, space.labels, space.seen.lists_of(space.labels))
        grown = SpectralForest(**self.settings.forest)
        return DefaultRecipe(
            arrays, recipe_meta(centre.shape, grown, learned.blend, learned.calibration, self.settings)
        )


def _with_validation(counts: LabelCounts, validation: Chunk | None) -> LabelCounts:
    """Return counts of the labels with those of validation rows, which the propensities of labels count too."""
    assert validation is not None
    more = np.bincount(validation.Y.indices, minlength=counts.plain.size)
    return counts._replace(plain=counts.plain + more)


# ---------------------------------------------------------------------------------------------------------------- tasks


def as_is(value: Any) -> Any:
    """Return the value."""
    return value


def chunk_examples(chunk: Chunk, longest: int) -> Examples:
    """Return the rows of a chunk that may be near others."""
    return strongest_examples(*chunk, longest)


def no_head(shape: tuple[int, int], n_held: int) -> Shard:
    """Return classifiers that say nothing."""
    d, c = shape
    nothing = sp.csr_array((c, d), dtype=np.float32)
    return Shard(nothing, np.zeros(c, np.float32), sp.csr_array((n_held, c), dtype=np.float32))
