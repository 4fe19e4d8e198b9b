"""`PrismClassifier`: F, then H. The only place that knows both."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Int32
from labelprism.filters import Filter


class FilterRoutes:
    """What a head sees of a filter: the leaves of the training examples, and the candidates of the leaves.

    Parameters
    ----------
    filter : Filter
        Fitted.
    X : csr_array or float32 array of shape (n, d)
        The training examples.
    """

    def __init__(self, filter: Filter, X: Any) -> None:
        self._filter = filter
        self._X = X

    @property
    def table(self) -> sp.csr_array:
        """The candidates of each leaf."""
        return self._filter.leaf_candidates_

    def decided(self) -> Int32:
        """Return the leaf of every training example, as at prediction."""
        return self._filter.route(self._X)

    def sampled(self, rng: np.random.Generator) -> Int32:
        """Return a random leaf for every training example."""
        return self._filter.sample_route(self._X, rng)
