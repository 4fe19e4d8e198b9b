"""What a checkpoint keeps of a training on a cluster: the forest, and the classifiers of ranges of labels.

Files are those of the process that trains, not of the workers: they outlive the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import csr_parts
from labelprism._parts import packed, unpacked
from labelprism._stages import digest
from labelprism.distributed.chunks import Chunk
from labelprism.distributed.label_shards import Shard
from labelprism.filters import SpectralForest

Arrays = Mapping[str, npt.NDArray[Any]]

_PART = "forest"
_DESCRIPTION = "description"


def forest_arrays(forest: SpectralForest) -> dict[str, npt.NDArray[Any]]:
    """Return a grown forest as arrays."""
    meta, arrays = packed(forest, _PART)
    return {**arrays, _DESCRIPTION: np.frombuffer(json.dumps(meta).encode(), np.uint8)}


def kept_forest(arrays: Arrays) -> SpectralForest:
    """Return the forest that `forest_arrays` made arrays of."""
    forest: SpectralForest = unpacked(json.loads(arrays[_DESCRIPTION].tobytes()), arrays, _PART)
    return forest


def shard_arrays(shard: Shard) -> dict[str, npt.NDArray[Any]]:
    """Return the classifiers of a range of labels as arrays."""
    named = {"bias": shard.bias, "shape": np.array([*shard.weights.shape, shard.margins.shape[0]])}
    for name, matrix in (("weights", shard.weights), ("margins", shard.margins)):
        named |= {f"{name}_{part}": array for part, array in csr_parts(matrix)._asdict().items()}
    return named


def kept_shard(arrays: Arrays) -> Shard:
    """Return the classifiers that `shard_arrays` made arrays of."""
    n_labels, n_features, n_held = map(int, arrays["shape"])

    def matrix(name: str, shape: tuple[int, int]) -> sp.csr_array:
        parts = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
        return sp.csr_array(tuple(map(np.array, parts)), shape=shape)  # copies: workers cannot see the files

    return Shard(
        matrix("weights", (n_labels, n_features)), np.array(arrays["bias"]), matrix("margins", (n_held, n_labels))
    )


def chunk_digest(chunk: Chunk) -> tuple[str, str, str, int]:
    """Return sums of a chunk's rows, labels and weights, and how many rows it has."""
    X, Y = csr_parts(chunk.X), csr_parts(chunk.Y)
    shape = np.array([chunk.X.shape[1], chunk.Y.shape[1]])
    return digest(shape[:1], *X), digest(shape[1:], *Y[:2]), digest(chunk.weight), chunk.X.shape[0]


def data_digests(of_chunks: Sequence[tuple[str, str, str, int]], validation: Chunk | None) -> dict[str, str]:
    """Return sums of all that is learned from, by the names that users know, as a checkpoint wants them.

    Parameters
    ----------
    of_chunks : sequence
        As `chunk_digest` gives them, in the order of the chunks. Other chunks give other roundings, and so another
        training.
    validation : Chunk or None
    """
    rows, labels, weights, sizes = zip(*of_chunks, strict=True)
    parts = {"X": rows, "y": labels, "sample_weight": weights, "chunks": tuple(map(str, sizes))}
    held_out = digest() if validation is None else "".join(chunk_digest(validation)[:3])
    joined = {name: digest(np.frombuffer(" ".join(each).encode(), np.uint8)) for name, each in parts.items()}
    return {**joined, "validation": held_out}
