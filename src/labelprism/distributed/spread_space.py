"""The space of features and labels on a cluster.

One worker learns it from the rows of all chunks; the candidates of each chunk are sieved where it is.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Float32, Int32, Int64, csr_parts
from labelprism.distributed.chunks import Chunk
from labelprism.distributed.finding import Found
from labelprism.distributed.label_shards import Lists, task_threads
from labelprism.filters import SpectralForest
from labelprism.heads.label_space import SievingSpace, SpaceLabels, label_vectors, learned_space
from labelprism.recipe_settings import RecipeSettings
from labelprism.recipe_stages import mining_of, sieving_space


class Space(NamedTuple):
    """What was learned.

    Attributes
    ----------
    seen : SievingSpace
        Of the rows that were learned from.
    labels : SpaceLabels
        Of these and of held-out ones.
    mined : list of Lists or None
        The candidates of the rows of each chunk that were found while it was learned.
    """

    seen: SievingSpace
    labels: SpaceLabels
    mined: list[Lists] | None = None

    def finds_candidates(self) -> bool:
        """Tell whether it finds candidates of rows, and keeps the nearest."""
        return self.seen.lists is not None

    def without_mined(self) -> Space:
        """Return what is still needed when candidates are where they belong."""
        return self._replace(mined=None)

    def mined_of(self, chunk: int) -> Lists | None:
        """Return the candidates that were found for a chunk, if any."""
        return None if self.mined is None else self.mined[chunk]


def space_of(
    chunks: list[Chunk], candidates: list[Lists], held: Chunk, found: Found, joins: bool, settings: RecipeSettings,
    seed: int, n_jobs: int | None,
) -> Space:  # fmt: skip
    """Learn a space; see `fit_default`, which learns the same.

    The recipe asks for it only where the rows are few enough to be in the memory of one process.

    Parameters
    ----------
    chunks : list of Chunk
    candidates : list of Lists
        Of the rows of each chunk.
    held : Chunk
        Held-out rows.
    found : Found
        Their candidates.
    joins : bool
        Whether labels learn from held-out rows in the end.
    settings : RecipeSettings
    seed : int
    n_jobs : int or None
    """
    n_threads = task_threads(n_jobs)
    lengths = np.concatenate([np.diff(own.indptr) for own in candidates])
    of_rows = np.concatenate([[0], np.cumsum(lengths)]), np.concatenate([own.labels for own in candidates])
    rows = _joined(chunks)
    features, mined = learned_space(*rows, of_rows, settings.space_passes, seed, n_threads, mining_of(settings))
    labels = label_vectors(*rows, features, n_threads)
    seen = sieving_space(features, labels.vectors, held, found.held[:2], settings, seed, n_threads)
    all_labels = label_vectors(*_joined([*chunks, held]), features, n_threads) if joins else labels
    if mined is None or seen.lists is None:
        return Space(seen, all_labels)
    ends = np.cumsum([0, *(chunk.X.shape[0] for chunk in chunks)])
    return Space(seen, all_labels, [_rows_of(*mined, *rows) for rows in pairwise(ends)])


def sieved_chunk(chunk: Chunk, candidates: Lists, space: Space, mined: Lists | None, settings: RecipeSettings) -> Lists:
    """Return the candidates of a chunk's rows that the space keeps, or brings in; see `fit_default`.

    Parameters
    ----------
    chunk : Chunk
    candidates : Lists
    space : Space
    mined : Lists or None
        Those that were found while the space was learned, if any.
    settings : RecipeSettings
        Those `for_examples`, where rows are learned from.
    """
    if space.seen.lists is None:
        return candidates
    if mined is not None:
        return mined
    return Lists(*space.seen.kept(chunk.X, *candidates, settings.space_candidates, settings.kept_candidates))


def sieved_found(found: Found, held: Chunk, space: Space, settings: RecipeSettings) -> Found:
    """Return the same for the held-out rows, with what forest and centroids say of them."""
    if space.seen.lists is None:
        return found
    kept = sieved_chunk(held, Lists(*found.held[:2]), space, None, settings)
    predictor = found.finder._made_predictor(replace(settings, unit_rows=False))
    said = predictor.score_candidates(*csr_parts(held.X), *kept, SpectralForest(**settings.forest).smallest)
    return found._replace(held=(*kept, said[1], said[3]))


def _joined(chunks: list[Chunk]) -> tuple[sp.csr_array, sp.csr_array, Float32 | None]:
    """Return the rows of all chunks, their labels and weights."""
    X, Y = (sp.csr_array(sp.vstack([chunk[part] for chunk in chunks], format="csr")) for part in range(2))
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    return X, Y, np.concatenate(weights) if weights else None


def _rows_of(indptr: Int64, labels: Int32, begin: int, end: int) -> Lists:
    """Return the candidates of the rows from one to another."""
    first, last = indptr[begin], indptr[end]
    return Lists(indptr[begin : end + 1] - first, labels[first:last].copy())  # not a view, which would hold all
