"""How far predicted probabilities are from what comes true."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def expected_calibration_error(is_true: npt.ArrayLike, probabilities: npt.ArrayLike, n_bins: int = 15) -> float:
    """Return the mean distance between predicted probabilities and frequencies, in bins of equal width.

    Parameters
    ----------
    is_true : array-like of bool, any shape
        Whether each prediction came true.
    probabilities : array-like of the same shape
        From 0 to 1.
    n_bins : int, default=15
    """
    true, likely = np.asarray(is_true, np.float64).ravel(), np.asarray(probabilities, np.float64).ravel()
    if true.shape != likely.shape or not true.size:
        raise ValueError(f"is_true and probabilities must be of one size, not 0; got {true.size} and {likely.size}")
    if not ((likely >= 0) & (likely <= 1)).all():
        raise ValueError("probabilities must be from 0 to 1")
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    place = np.minimum((likely * n_bins).astype(np.int64), n_bins - 1)
    # In each bin |sum of p - number of true ones|, which is its size times the distance of the means.
    distance = np.abs(np.bincount(place, likely, n_bins) - np.bincount(place, true, n_bins))
    return float(distance.sum() / true.size)
