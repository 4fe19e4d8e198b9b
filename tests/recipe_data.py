"""Planted rows for tests of the default recipe, and settings under which a forest of them has routers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism.recipe import RecipeSettings

# The data is small: what is kept for more labels is asked for here too.
FEW: dict[str, Any] = {"retrieval_from_labels": 0}
# Leaves of few labels, so that there are routers.
ROUTED = RecipeSettings(
    forest={"n_trees": 3, "stop_labels": 5, "smallest": 0.1}, label_clusterings=0, more_trees=0, **FEW
)


def planted(n: int, c: int = 30, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """One or two labels a row; each label has three features of its own, and there is noise."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(c, size=n), rng.integers(c, size=n)
    Y = np.zeros((n, c), np.float32)
    Y[np.arange(n), first] = 1
    Y[np.arange(n), second] = rng.random(n) < 0.5
    X = np.repeat(Y, 3, axis=1) * (rng.random((n, 3 * c)) < 0.7) * rng.uniform(0.5, 3, (n, 1))
    X += (rng.random((n, 3 * c)) < 0.03) * 0.5
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y)
