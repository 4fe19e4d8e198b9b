"""The space of features and labels on a cluster: one worker learns it from the rows of all chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Float32
from labelprism.distributed.chunks import Chunk
from labelprism.distributed.label_shards import Lists, task_threads
from labelprism.heads.label_space import SpaceLabels, Vectors, label_vectors, learned_features


class Space(NamedTuple):
    """What was learned.

    Attributes
    ----------
    features : Vectors
    seen_labels, labels : SpaceLabels
        Of the rows that were learned from, and of these and held-out ones.
    """

    features: Vectors
    seen_labels: SpaceLabels
    labels: SpaceLabels


def space_of(
    chunks: list[Chunk], candidates: list[Lists], held: Chunk | None, passes: int, seed: int, n_jobs: int | None
) -> Space:
    """Learn a space; see `fit_default`, which learns the same.

    The recipe asks for it only where the rows are few enough to be in the memory of one process.

    Parameters
    ----------
    chunks : list of Chunk
    candidates : list of Lists
        Of the rows of each chunk.
    held : Chunk or None
        Held-out rows that labels learn from in the end.
    passes, seed : see `learned_features`
    n_jobs : int or None
    """
    n_threads = task_threads(n_jobs)
    lengths = np.concatenate([np.diff(own.indptr) for own in candidates])
    found = np.concatenate([[0], np.cumsum(lengths)]), np.concatenate([own.labels for own in candidates])
    rows = _joined(chunks)
    features = learned_features(*rows, found, passes, seed, n_threads)
    seen_labels = label_vectors(*rows, features, n_threads)
    labels = seen_labels if held is None else label_vectors(*_joined([*chunks, held]), features, n_threads)
    return Space(features, seen_labels, labels)


def _joined(chunks: list[Chunk]) -> tuple[sp.csr_array, sp.csr_array, Float32 | None]:
    """Return the rows of all chunks, their labels and weights."""
    X, Y = (sp.csr_array(sp.vstack([chunk[part] for chunk in chunks], format="csr")) for part in range(2))
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    return X, Y, np.concatenate(weights) if weights else None
