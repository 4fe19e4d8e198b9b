"""Metrics with confidence intervals, and by how frequent labels are in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelprism.metrics._matching import (
    KEYS,
    SCORED,
    Float64,
    check_positive,
    checked_truth,
    checked_weights,
    divide,
    gains_of,
    is_number,
    match,
    ranked_pairs,
    ratio_parts,
)


class MetricInterval(NamedTuple):
    """A metric, and the interval from `low` to `high`."""

    value: float
    low: float
    high: float


def evaluate_intervals(
    Y_true: Any,
    predicted: Any,
    inverse_propensity: npt.ArrayLike | None = None,
    ks: Sequence[int] = (1, 3, 5),
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> dict[str, MetricInterval]:
    """Return the usual metrics of a ranking with percentile bootstrap intervals, all from the same resamples of rows.

    Parameters
    ----------
    Y_true : sparse matrix or array of shape (n, c)
        The true labels.
    predicted : int array of shape (n, K) or sparse matrix of shape (n, c)
        The ranking; see `labelprism.metrics` for this and for `Y_true`.
    inverse_propensity : array of shape (c,), optional
        The propensity-scored metrics need it.
    ks : sequence of int
        How many ranks count.
    n_resamples : int
        How many resamples of n rows to draw, with replacement.
    confidence : float
        Between 0 and 1, exclusive.
    random_state : int, numpy Generator or None
        Seed of the resampling.

    Returns
    -------
    dict of str to MetricInterval
        "P@k", "nDCG@k", "recall@k", with `inverse_propensity` also "PSP@k" and "PSnDCG@k", for each k in `ks`.
    """
    check_positive("n_resamples", n_resamples)
    if not is_number(confidence) or not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence!r}")
    for k in ks:
        check_positive("k", k)
    Y = checked_truth(Y_true)
    matches = match(Y, ranked_pairs(predicted, Y.shape, max(ks)))
    gains = None if inverse_propensity is None else gains_of(matches, checked_weights(inverse_propensity, Y.shape[1]))
    parts = {
        f"{key}@{k}": ratio_parts(metric, matches, k, gains)
        for metric, key in KEYS.items()
        if gains is not None or metric not in SCORED
        for k in ks
    }
    values = _ratios(np.ones((1, Y.shape[0])), parts)[0]
    low, high = _quantiles(_ratios(_resample_weights(Y.shape[0], n_resamples, random_state), parts), confidence)
    return {
        name: MetricInterval(float(value), float(below), float(above))
        for name, value, below, above in zip(parts, values, low, high, strict=True)
    }


def _resample_weights(n: int, n_resamples: int, random_state: Any) -> Iterator[Float64]:
    """Yield how often each row is drawn, one resample after the other, so that memory stays at n numbers."""
    generator = np.random.default_rng(random_state)
    for _ in range(n_resamples):
        yield np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)


def _ratios(weights: Iterable[Float64], parts: dict[str, tuple[Float64, Float64]]) -> Float64:
    """Return the metrics, one column each, for every weighting of the rows."""
    table = np.stack([column for pair in parts.values() for column in pair])
    sums = np.array([table @ weight for weight in weights])
    above, below = sums[:, 0::2], sums[:, 1::2]
    ratios: Float64 = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    return ratios


def _quantiles(ratios: Float64, confidence: float) -> Float64:
    """Return both ends of the interval of each column; resamples that say nothing, being undefined, are left out."""
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    columns = [column[~np.isnan(column)] for column in ratios.T]
    found: Float64 = np.array([np.quantile(c, ends) if c.size else (np.nan, np.nan) for c in columns]).T
    return found


# --------------------------------------------------------------------------------------------------- by label frequency


class FrequencyGroup(NamedTuple):
    """How well the labels are found that have `fewest` to `most` examples in training; `most` is None without a limit.

    `n_labels` is their number, `n_true` how often they are true, `recall` the share of those found in the top k,
    `precision` the share of their suggestions in the top k that are true, and `coverage` the share of those of them
    that are true somewhere and found at least once.
    """

    name: str
    fewest: int
    most: int | None
    n_labels: int
    n_true: int
    recall: float
    precision: float
    coverage: float


def by_frequency(
    Y_true: Any, predicted: Any, label_counts: npt.ArrayLike, k: int = 5, limits: tuple[int, int] = (10, 100)
) -> list[FrequencyGroup]:
    """Return how well head, torso and tail labels are found, and those that training did not have.

    Parameters
    ----------
    Y_true, predicted
        As in `evaluate_intervals`.
    label_counts : int array of shape (c,)
        How many training examples each label has.
    k : int
        How many ranks count.
    limits : (int, int)
        The most examples of a label of the tail, and of the torso.
    """
    check_positive("k", k)
    low, high = limits
    if not 0 < low < high:
        raise ValueError(f"limits must be two whole numbers, the first above 0 and the second above it, got {limits!r}")
    Y = checked_truth(Y_true)
    counts = np.asarray(label_counts)
    if counts.shape != (Y.shape[1],) or counts.dtype.kind not in "iu":
        raise ValueError(f"label_counts must be {Y.shape[1]} whole numbers, one for each label of Y_true")
    pairs = ranked_pairs(predicted, Y.shape, k)
    matches = match(Y, pairs)
    n_true = np.bincount(matches.labels, minlength=Y.shape[1])
    n_found = np.bincount(matches.labels[matches.ranks < k], minlength=Y.shape[1])
    n_suggested = np.bincount(pairs.labels, minlength=Y.shape[1])
    groups = []
    for name, fewest, most in (("head", high + 1, None), ("torso", low + 1, high), ("tail", 1, low), ("unseen", 0, 0)):
        members = (counts >= fewest) & (counts <= (np.inf if most is None else most))
        true, found, suggested = n_true[members], n_found[members], n_suggested[members]
        recall, precision = divide(found.sum(), true.sum()), divide(found.sum(), suggested.sum())
        coverage = divide(np.count_nonzero(found), np.count_nonzero(true))
        sizes = int(np.count_nonzero(members)), int(true.sum())
        groups.append(FrequencyGroup(name, fewest, most, *sizes, recall, precision, coverage))
    return groups
