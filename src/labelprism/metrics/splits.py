"""How good a split of a label tree is, as the paper measures it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from labelprism.metrics._matching import (
    Float64,
    average_over_labels,
    check_choice,
    checked_truth,
    divide,
    row_of_each_entry,
    sum_by,
)


def purity(
    Y: Any,
    goes_right: npt.ArrayLike,
    example_weight: npt.ArrayLike | None = None,
    average: Literal["weighted", "macro"] = "weighted",
) -> float:
    """Return how far a split keeps the examples of each label together; 1 is ideal, 0.5 the worst.

    A label's purity is the larger of the fractions of its examples that go left and right.

    Parameters
    ----------
    Y : sparse matrix or array of shape (n, c)
        The labels of the examples.
    goes_right : array of shape (n,)
        Booleans, or the probabilities with which the examples go right.
    example_weight : array of shape (n,), optional
        Weights of the examples, at least 0; all 1 by default.
    average : {"weighted", "macro"}
        "weighted" weights a label by the weight of its examples; "macro" weights alike all labels whose
        examples have a positive weight.
    """
    check_choice("average", average, ("weighted", "macro"))
    labels = checked_truth(Y, "Y")
    n, c = labels.shape
    right, weight = _checked_routing(goes_right, example_weight, n)
    rows = row_of_each_entry(labels)
    total = sum_by(labels.indices, weight[rows], c)
    to_right = sum_by(labels.indices, (weight * right)[rows], c)
    return average_over_labels(np.maximum(to_right, total - to_right), total, average)


def balance(goes_right: npt.ArrayLike, example_weight: npt.ArrayLike | None = None) -> float:
    """Return the larger of the fractions of the examples that go left and right; 0.5 is ideal, 1 the worst.

    The parameters are those of `purity`.
    """
    right, weight = _checked_routing(goes_right, example_weight)
    fraction_right = divide((weight * right).sum(), weight.sum())
    return max(fraction_right, 1.0 - fraction_right)


def _checked_routing(
    goes_right: npt.ArrayLike, example_weight: npt.ArrayLike | None, n: int | None = None
) -> tuple[Float64, Float64]:
    right = np.asarray(goes_right, dtype=np.float64)
    if right.ndim != 1 or right.size == 0 or n not in (None, right.size):
        raise ValueError(f"goes_right has shape {right.shape}; one value per example is needed, and at least one")
    if not ((right >= 0) & (right <= 1)).all():
        raise ValueError("goes_right must hold booleans or probabilities from 0 to 1")
    weight = np.ones(right.size) if example_weight is None else np.asarray(example_weight, dtype=np.float64)
    if weight.shape != right.shape:
        raise ValueError(f"example_weight has shape {weight.shape}, expected {right.shape}: one value per example")
    if not ((weight >= 0) & (weight < np.inf)).all() or weight.sum() == 0:
        raise ValueError("example_weight must hold finite values of at least 0, and not only zeros")
    return right, weight
