"""How much memory a training takes, before it begins; docs/larger-than-memory.md says where the numbers come from.

What counts is memory of the process's own ("anonymous"): pages of files, which the data and, with `scratch`, all large
arrays lie in, are kept as long as there is room for them, and read again when they are needed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism.filters import SpectralForest
from labelprism.recipe_settings import RecipeSettings
from labelprism.recipe_stages import DataSize, settings_for_data

__all__ = ["Needs", "memory_needs", "parsed_bytes"]

_PROGRAM = 95e6  # Python, NumPy, SciPy and scikit-learn: 90 to 100 MB, by their versions
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Needs(NamedTuple):
    """Bytes of memory that a training takes."""

    in_memory: int
    with_scratch: int
    """With arrays of 1 MB and more in files."""


def memory_needs(X: sp.csr_array, Y: sp.csr_array, settings: RecipeSettings, n_threads: int) -> Needs:
    """Return the most memory that a training will have taken at any moment, beside X and Y.

    Parameters
    ----------
    X : csr_array of shape (n, d)
    Y : csr_array of shape (n, c)
    settings : RecipeSettings
    n_threads : int
    """
    (n, d), nnz = X.shape, X.nnz
    c = np.count_nonzero(np.bincount(Y.indices, minlength=1))  # labels that occur
    labels_per_row = Y.nnz / max(n, 1)
    asked = settings_for_data(settings, DataSize(n, Y.shape[1], labels_per_row, nnz, n // 10))
    found = asked.for_examples()
    candidates = found.forest_candidates + found.centroid_candidates + found.vote_candidates
    if asked.mined_every:
        candidates += found.kept_candidates
    n_trees, clusterings = SpectralForest(**asked.forest).n_trees, asked.label_clusterings
    # X: the unit rows, and those of the roots that are split at the same time.
    copies_of_x = 1 + min(n_threads, n_trees)
    of_candidates = (10 + 5 * clusterings) * n * candidates
    of_labels = (3850 + 550 * n_trees + 2000 * clusterings) * c
    sums_of_labels = min(nnz * labels_per_row, c * d)
    in_memory = _PROGRAM + 8 * nnz * copies_of_x + of_candidates + 5 * sums_of_labels + of_labels
    with_scratch = _PROGRAM + 33e6 + 8 * n + 100 * d + (1500 + 1000 * clusterings) * c
    return Needs(int(in_memory), int(min(with_scratch, in_memory)))


def parsed_bytes(text: str) -> int:
    """Return a number of bytes that a person wrote, as 4G, 512M or 1.5GiB; K, M, G and T are powers of 1024.

    Parameters
    ----------
    text : str
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is no amount of memory; write it as 4G, 512M or 1.5G")
    return int(float(found[1]) * _UNITS[found[2]])
