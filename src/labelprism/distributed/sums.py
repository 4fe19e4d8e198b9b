"""Sums of what chunks say, in an order that the chunks alone decide: the same chunks, the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FAN_IN = 4
"""How many parts a task adds; a power of two, so that a tree of such tasks adds in the order of one binary tree.

Neighbouring chunks are mostly on the same worker, where their sum is made: only sums of many chunks travel."""


def added(parts: Sequence[Any]) -> Any:
    """Return the sum of parts by a binary tree over their order: neighbours first.

    Parameters
    ----------
    parts : sequence of arrays, numbers, or lists and tuples of them, all alike
        At least one. None stands for nothing, on all sides alike.
    """
    level = list(parts)
    while len(level) > 1:
        level = [_plus(level[i], level[i + 1]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


Partial = dict[tuple[int, int], Any]
"""Sums of some of n parts: (level, place) has those from place * 2**level on, up to 2**level of them."""


def partly_added(partials: Sequence[Partial], n: int) -> Partial:
    """Return what can be added so far, in the order of `added`.

    Parameters
    ----------
    partials : sequence of Partial
        Of different parts; part k alone is (0, k).
    n : int
        How many parts there are in all. When all are here, what comes back is their sum.
    """
    sums = {place: value for partial in partials for place, value in partial.items()}
    level, width = 0, n
    while width > 1:
        for left in range(0, width, 2):
            above, right = (level + 1, left // 2), left + 1
            if right == width and (level, left) in sums:
                sums[above] = sums.pop((level, left))
            elif (level, left) in sums and (level, right) in sums:
                sums[above] = _plus(sums.pop((level, left)), sums.pop((level, right)))
        level, width = level + 1, -(-width // 2)
    return sums


def _plus(one: Any, other: Any) -> Any:
    if one is None:
        return None
    if isinstance(one, (list, tuple)):
        sums = [_plus(a, b) for a, b in zip(one, other, strict=True)]
        return type(one)(*sums) if hasattr(one, "_fields") else type(one)(sums)
    return one + other
