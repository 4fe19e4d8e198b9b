"""Numbers that look random and depend on nothing but what they are made from (SplitMix64)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UInt64 = npt.NDArray[np.uint64]


def scrambled(x: Any) -> UInt64:
    """Return 64 well mixed bits for every number."""
    x = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def hashed_pairs(a: Any, b: Any, seed: int) -> UInt64:
    """Return 64 bits for every pair (a, b), the same for the same seed."""
    first = scrambled(np.asarray(a).astype(np.uint64))
    return scrambled(scrambled(np.uint64(seed) ^ first) ^ np.asarray(b).astype(np.uint64))


def hashed_uniform(a: Any, b: Any, seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for every pair (a, b), the same for the same seed."""
    return np.asarray((hashed_pairs(a, b, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53)
