"""Fractional routing: with which probability an example goes left and right, and who is followed (section 3.4)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from labelprism._arrays import Float32, Int64
from labelprism._hashing import hashed_uniform
from labelprism.filters.node import Examples

Float64 = npt.NDArray[np.float64]

_LEFT, _RIGHT = 0, 1


def noise_of(eigenvalue: Float64, mass: Float64, rule: Literal["paper", "sqrt"]) -> Float64:
    """Return sigma, the width of the Gaussian around an example.

    Parameters
    ----------
    eigenvalue, mass : float64 arrays of shape (n_nodes,)
        lambda and m.
    rule : {"paper", "sqrt"}
        lambda / m, or its square root, which grows with the margins when all rows of X are scaled.
    """
    ratio = eigenvalue / mass
    return np.sqrt(ratio) if rule == "sqrt" else ratio


def probability_right(margins: npt.ArrayLike, bias: npt.ArrayLike, noise: npt.ArrayLike) -> Float64:
    """Return Phi((w.x - b) / sigma): the probability to go right. Where sigma is 0 it is 1 for w.x > b, else 0.

    Parameters
    ----------
    margins, bias, noise : arrays that broadcast
        w.x, b and sigma.
    """
    distance = np.asarray(margins, np.float64) - np.asarray(bias, np.float64)
    noise = np.asarray(noise, np.float64)
    soft = ndtr(np.divide(distance, noise, out=np.zeros_like(distance + noise), where=noise > 0))
    return np.where(noise > 0, soft, (distance > 0).astype(np.float64))


class Pruning(NamedTuple):
    """Who is followed no further. Without pruning every example has a share in every leaf, and costs explode."""

    rule: Literal["roulette", "threshold"] | None
    """"roulette": a probability under `below` is kept with probability / below, and then is `below`, so that expected
    counts stay unbiased; "threshold": it is dropped; None: all that is above 0 is kept."""
    below: float
    seed: int

    def apply(self, probability: Float64, rows: npt.NDArray[np.int32], node_ids: Int64) -> Float32:
        """Return the probabilities after pruning, 0 for those that are dropped.

        Parameters
        ----------
        probability : float64 array of shape (n,)
        rows : int32 array of shape (n,)
        node_ids : int64 array of shape (n,)
            Row and node of each; together with the seed they decide the roulette, whatever the order.
        """
        if self.rule is None:
            return probability.astype(np.float32)
        small = probability < self.below
        if self.rule == "threshold":
            return np.where(small, 0, probability).astype(np.float32)
        lucky = np.zeros(small.size, bool)
        chance = hashed_uniform(node_ids[small], rows[small], self.seed)
        lucky[small] = chance < probability[small] / self.below
        return np.where(small, np.where(lucky, self.below, 0), probability).astype(np.float32)


def children(examples: Examples, right: Float64, node_ids: Int64, pruning: Pruning) -> Examples:
    """Send the examples of n nodes to their children; return the examples of the 2 n children.

    Parameters
    ----------
    examples : Examples
        Those of n nodes.
    right : float64 array
        The probability of each to go right at its node.
    node_ids : int64 array of shape (n,)
        The ids of the nodes. In the result the left child of the first node comes first, then its right child, then
        the children of the second node.
    pruning : Pruning
        Who is followed no further.
    """
    n_nodes = examples.offsets.size - 1
    node = examples.node_of_example()
    counts = np.zeros((n_nodes, 2), np.int64)
    sides = []
    for side, share in ((_LEFT, 1 - right), (_RIGHT, right)):
        probability = pruning.apply(examples.probability * share, examples.rows, 2 * node_ids[node] + side)
        kept = np.flatnonzero(probability > 0)
        counts[:, side] = np.bincount(node[kept], minlength=n_nodes)
        sides.append((kept, probability[kept]))
    offsets = np.concatenate([[0], np.cumsum(counts.ravel())])
    rows = np.empty(offsets[-1], np.int32)
    probabilities = np.empty(offsets[-1], np.float32)
    for side, (kept, probability) in enumerate(sides):
        # Both sides keep the order of the nodes, so a place is the child's start plus the rank among its examples.
        rank = np.arange(kept.size) - np.repeat(np.cumsum(counts[:, side]) - counts[:, side], counts[:, side])
        place = offsets[2 * node[kept] + side] + rank
        rows[place] = examples.rows[kept]
        probabilities[place] = probability
    return Examples(rows, probabilities, offsets)
