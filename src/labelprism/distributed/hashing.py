"""The random numbers of the native core that are hashes (scramble.hpp), for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UInt64 = npt.NDArray[np.uint64]


def scramble(values: Any) -> UInt64:
    """Return the finaliser of SplitMix64 of 64-bit numbers."""
    x = np.asarray(values, np.uint64)
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


def uniform(bits: UInt64) -> npt.NDArray[np.float64]:
    """Return hashes as numbers in [0, 1)."""
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def root_key(seed: int, tree: int) -> int:
    """Return the key of the root of a tree; that of a child is `child_key` of its parent's."""
    return int(scramble(np.uint64(seed) ^ scramble(tree)))


def child_key(key: int, side: int) -> int:
    """Return the key of the left (0) or right (1) child of a node."""
    return int(scramble((2 * key + side) % 2**64))
