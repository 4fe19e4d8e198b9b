"""What finds candidates on a cluster: forest and centroids, with the search that suits the held-out rows."""

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
from labelprism.recipe_stages import chosen_search


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
    settings : RecipeSettings
        With the search that was chosen for prediction.
    """

    finder: DefaultRecipe
    held: Any
    offered: Int64 | None
    settings: RecipeSettings


def chosen_finder(tables: Arrays, centres: list[Centroids], held: Chunk | None, settings: RecipeSettings) -> Found:
    """Return what finds candidates, and those of the held-out rows by the search that suits them; see `fit_default`.

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
    centre = stacked([own.centre for own in centres])
    forest = SpectralForest(**settings.forest)
    usual = _finder_arrays(tables, centre, settings)

    def learning_finder(arrays: Arrays, asked: RecipeSettings) -> DefaultRecipe:
        return _finder(arrays, centre, forest, replace(asked, forest_candidates=asked.training_candidates))

    if held is None:
        return Found(learning_finder(usual, settings), None, None, settings)
    X = csr_parts(held.X)

    def find(asked: RecipeSettings) -> tuple[Any, ...]:
        arrays = usual if asked is settings else _finder_arrays(tables, centre, asked)
        return _finder(arrays, centre, forest, asked)._predictor.find(*X, forest.smallest, 1.0)[:4]

    learning, chosen, said = chosen_search(settings, find, held.Y)
    arrays = usual if learning is settings else _finder_arrays(tables, centre, learning)
    finder = learning_finder(arrays, learning)
    offered = np.bincount(finder.training_candidates(held.X).indices, minlength=finder.n_labels_)
    return Found(finder, said, offered, chosen)


def _finder_arrays(tables: Arrays, centre: sp.csr_array, settings: RecipeSettings) -> Arrays:
    zeros = np.zeros(centre.shape[0])
    nothing = sp.csr_array(centre.shape, dtype=np.float32)
    facts = LabelFacts(zeros.astype(np.float32), zeros, zeros)
    return recipe_arrays(tables, nothing, centre, facts, settings.longest_list)


def _finder(arrays: Arrays, centre: sp.csr_array, forest: SpectralForest, settings: RecipeSettings) -> DefaultRecipe:
    plain = replace(settings, unit_rows=False)
    return DefaultRecipe(arrays, recipe_meta(centre.shape, forest, BlendWeights(0, 1, 1, 0), Calibration(), plain))


def search_of(found: Found) -> tuple[RecipeSettings, Int64 | None]:
    """Return the settings with the search that was chosen, and how often each label is offered to held-out rows."""
    return found.settings, found.offered


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
    """Return what forest and centroids say of the held-out rows, and their labels; None where there are none."""
    return None if held is None else (found.held, held.Y)
