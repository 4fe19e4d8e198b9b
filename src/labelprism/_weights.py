"""Weights of examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Float64 = npt.NDArray[np.float64]


def check_sample_weight(sample_weight: Any, n: int) -> Float64 | None:
    """Return the weights of examples as an array, made sure that they can be used; None stays None.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), number or None
        None is a weight of 1 for every example.
    n : int
        The number of examples.
    """
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers: {error}") from error
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n},): one value for each example")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must hold finite values, none of them negative")
    if n and not weight.any():
        raise ValueError("sample_weight must contain at least one non-zero number")
    return weight


def label_mass(Y: sp.csr_array, weight: npt.NDArray[Any] | None) -> Float64:
    """Return the weight of each label's examples, an array of shape (c,); without weights, how many there are.

    Parameters
    ----------
    Y : csr_array of shape (n, c)
    weight : array of shape (n,) or None
    """
    of_entry = None if weight is None else np.repeat(weight, np.diff(Y.indptr))
    return np.bincount(Y.indices, weights=of_entry, minlength=Y.shape[1]).astype(np.float64)


def weighted_rows(X: Any, Y: Any, weight: Float64 | None) -> tuple[Any, Any, Float64 | None]:
    """Return the examples whose weight is not 0, and their weights.

    Parameters
    ----------
    X, Y : matrices of n rows
    weight : float64 array of shape (n,) or None
        As from `check_sample_weight`.
    """
    if weight is None or weight.all():
        return X, Y, weight
    kept = np.flatnonzero(weight)
    return X[kept], Y[kept], weight[kept]
