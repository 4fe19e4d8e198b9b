"""What finds candidates on a cluster: forest, centroids and votes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Int64, csr_parts
from labelprism.distributed.chunks import Chunk
from labelprism.distributed.label_shards import Centroids, Lists, stacked, task_threads
from labelprism.filters import SpectralForest
from labelprism.heads.blend import BlendWeights
from labelprism.heads.label_clusters import LabelClusters, label_clusters
from labelprism.recipe_calibration import Calibration
from labelprism.recipe_model import (
    Arrays,
    DefaultRecipe,
    LabelFacts,
    recipe_arrays,
    recipe_meta,
)
from labelprism.recipe_settings import RecipeSettings


class Found(NamedTuple):
    """What finds candidates, and what it found for the held-out rows.

    Attributes
    ----------
    finder : DefaultRecipe
        For the rows that the head learns from; without a head, for rows that are unit already.
    held : tuple of arrays or None
        Candidates of the held-out rows as CSR of log p_F, and their cosines.
    offered : int64 array of shape (c,) or None
        To how many held-out rows each label would be offered if the head learned from them as from the others.
    """

    finder: DefaultRecipe
    held: Any
    offered: Int64 | None


def found_with(tables: Arrays, centres: list[Centroids], held: Chunk | None, settings: RecipeSettings) -> Found:
    """Return what finds candidates, and those of the held-out rows; see `fit_default`.

    Parameters
    ----------
    tables : dict of str to array
        As from `forest_tables`.
    centres : list of Centroids
        By ranges of labels.
    held : Chunk or None
        The held-out rows.
    settings : RecipeSettings
    """
    centre, norms = stacked([own.centre for own in centres]), np.concatenate([own.norms for own in centres])
    zeros = np.zeros(centre.shape[0])
    facts = LabelFacts(zeros.astype(np.float32), zeros, norms)
    arrays = recipe_arrays(tables, sp.csr_array(centre.shape, dtype=np.float32), centre, facts, settings)
    forest = SpectralForest(**settings.forest)
    learning = replace(settings, kept_candidates=0).for_examples()  # a space comes later
    finder = _finder(arrays, centre, forest, learning)
    if held is None:
        return Found(finder, None, None)
    said = _finder(arrays, centre, forest, settings)._predictor.find(*csr_parts(held.X), forest.smallest, 1.0)[:4]
    offered = np.bincount(finder.training_candidates(held.X).indices, minlength=finder.n_labels_)
    return Found(finder, said, offered)


def _finder(arrays: Arrays, centre: sp.csr_array, forest: SpectralForest, settings: RecipeSettings) -> DefaultRecipe:
    plain = replace(settings, unit_rows=False)
    return DefaultRecipe(arrays, recipe_meta(centre.shape, forest, BlendWeights(0, 1, 1, 0), Calibration(), plain))


def offered_by(found: Found) -> Int64 | None:
    """Return how often each label is offered to held-out rows."""
    return found.offered


def clusters_of(centres: list[Centroids], settings: RecipeSettings, seed: int, n_jobs: int | None) -> LabelClusters:
    """Return the clusterings of the labels that the head is to learn; see `fit_default`."""
    centre = stacked([own.centre for own in centres])
    return label_clusters(centre, settings.label_clusterings, settings.cluster_labels, seed, task_threads(n_jobs))


def found_candidates(chunk: Chunk, found: Found) -> Lists:
    """Return the candidates of a chunk's rows that the head learns from."""
    matrix = found.finder.training_candidates(chunk.X)
    parts = csr_parts(matrix)
    return Lists(parts.indptr, parts.indices)


def held_candidates(found: Found) -> Lists:
    """Return the candidates of the held-out rows."""
    return Lists(found.held[0], found.held[1])


def held_of(found: Found, held: Chunk | None) -> Any:
    """Return what forest and centroids say of the held-out rows, and these rows; None where there are none."""
    return None if held is None else (found.held, held)
