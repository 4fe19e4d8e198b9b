"""Leaves and candidates set by hand, in place of a filter, for the tests of the heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp


class FixedRoutes:
    """Every example is in the same leaf each time; the first candidates of a leaf are the most probable."""

    def __init__(self, leaves: Sequence[int], candidates: Sequence[Sequence[int]], n_labels: int) -> None:
        self.leaves = np.asarray(leaves, np.int32)
        indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in candidates])])
        labels = np.concatenate([np.asarray(labels, np.int32) for labels in candidates])
        scores = np.concatenate([-np.arange(len(labels), dtype=np.float32) for labels in candidates])
        self.table = sp.csr_array((scores, labels, indptr), shape=(len(candidates), n_labels))
        self.table.sort_indices()

    def decided(self) -> np.ndarray:
        return self.leaves

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        return self.leaves


def all_labels(n: int, n_labels: int) -> FixedRoutes:
    """One leaf with all the labels."""
    return FixedRoutes([0] * n, [range(n_labels)], n_labels)
