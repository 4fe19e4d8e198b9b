"""From scores of candidates to the probabilities that they stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


class Calibration(NamedTuple):
    """From scores to probabilities: p = 1 / (1 + exp(-(slope * s + row_slope * t + intercept))).

    s is the score, and t the logarithm of the softmax over the candidates of the row: a score means more where the
    others are low.
    """

    slope: float = 1.0
    row_slope: float = 0.0
    intercept: float = 0.0


def log_softmax_by_row(scores: sp.csr_array) -> npt.NDArray[np.float64]:
    """Return the stored entries, less the logarithm of the sum of their exponentials in the row."""
    lengths = np.diff(scores.indptr)
    filled = np.flatnonzero(lengths)
    values = scores.data.astype(np.float64)
    if not filled.size:
        return np.asarray(values)
    starts, lengths = scores.indptr[filled], lengths[filled]
    values -= np.repeat(np.maximum.reduceat(values, starts), lengths)
    return np.asarray(values - np.repeat(np.log(np.add.reduceat(np.exp(values), starts)), lengths))
