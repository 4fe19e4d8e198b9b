"""From scores of candidates to the probabilities that they stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Int64

Float64 = npt.NDArray[np.float64]

_FEWEST_TO_CALIBRATE = 10  # true and wrong candidates each
_PENALTY = 1e-6  # of squared slopes: they stay finite where a score tells all that is true from all that is wrong
_TOLERANCE = 1e-4  # of the mean loss; separable data have no other end
_ITERATIONS, _HALVINGS = 100, 20  # of Newton's method


class Calibration(NamedTuple):
    """From scores to probabilities: p = 1 / (1 + exp(-(slope * s + row_slope * t + intercept))).

    s is the score, and t the logarithm of the softmax over the candidates of the row: a score means more where the
    others are low.
    """

    slope: float = 1.0
    row_slope: float = 0.0
    intercept: float = 0.0


def log_softmax_by_row(scores: sp.csr_array) -> Float64:
    """Return the stored entries, less the logarithm of the sum of their exponentials in the row."""
    lengths = np.diff(scores.indptr)
    filled = np.flatnonzero(lengths)
    values = scores.data.astype(np.float64)
    if not filled.size:
        return np.asarray(values)
    starts, lengths = scores.indptr[filled], lengths[filled]
    values -= np.repeat(np.maximum.reduceat(values, starts), lengths)
    return np.asarray(values - np.repeat(np.log(np.add.reduceat(np.exp(values), starts)), lengths))


def learned_calibration(indptr: Int64, scores: Float64, is_true: npt.NDArray[np.bool_]) -> Calibration:
    """Return how often candidates of held-out rows are true, by their scores.

    Parameters
    ----------
    indptr : int64 array of shape (n + 1,)
        Where the candidates of each row begin.
    scores : float64 array of shape (m,)
    is_true : bool array of shape (m,)
        Whether the row has the label.
    """
    n_true = np.count_nonzero(is_true)
    if min(n_true, is_true.size - n_true) < _FEWEST_TO_CALIBRATE:
        return Calibration()
    rows = sp.csr_array((scores, np.zeros(scores.size, np.int32), indptr), shape=(indptr.size - 1, 1))
    by_row = log_softmax_by_row(rows)
    centre = np.array([scores.mean(), by_row.mean()])
    width = np.maximum([scores.std(), by_row.std()], 1e-9)
    features = np.ones((scores.size, 3))
    for j, values in enumerate((scores, by_row)):
        features[:, j] = (values - centre[j]) / width[j]
    found = _logistic_weights(features, is_true)
    slope, row_slope = slopes = found[:2] / width
    if not slope + row_slope > 0:  # the better label of a row must not become the less probable one
        return Calibration()
    return Calibration(float(slope), float(row_slope), float(found[2] - slopes @ centre))


def _logistic_weights(features: Float64, is_true: npt.NDArray[np.bool_]) -> Float64:
    """Return the weights of a logistic curve by Newton steps, halved while they lead down.

    Parameters
    ----------
    features : float64 array of shape (m, k)
        The last one is 1: the intercept, which has no penalty.
    is_true : bool array of shape (m,)
    """
    penalty = np.full(features.shape[1], _PENALTY)
    penalty[-1] = 0

    def likelihood(w: Float64) -> tuple[float, Float64, Float64]:
        value, gradient, curvature = _core.logistic_likelihood(features, is_true, w)
        return value - 0.5 * float(penalty @ np.square(w)), gradient - penalty * w, curvature + np.diag(penalty)

    enough = _TOLERANCE * len(features)
    w = np.zeros(features.shape[1])
    value, gradient, curvature = likelihood(w)
    for _ in range(_ITERATIONS):
        step = np.linalg.solve(curvature, gradient)
        promised = 0.5 * float(gradient @ step)
        for _ in range(_HALVINGS):
            there = likelihood(w + step)
            if there[0] >= value:
                break
            step = step / 2
        else:
            break
        w = w + step
        value, gradient, curvature = there
        if np.abs(gradient).max() <= enough and promised <= enough:
            break
    return w
