"""Metrics of rankings, and the comparison of two systems by a paired bootstrap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from labelprism._arrays import as_label_matrix, is_sparse
from labelprism.metrics._matching import (
    KEYS,
    NOT_PREDICTED,
    SCORED,
    Float64,
    Matches,
    Pairs,
    RatioMetric,
    average_over_labels,
    check_choice,
    check_positive,
    checked_sparse,
    checked_truth,
    divide,
    gains_of,
    is_number,
    match,
    pairs_from_ids,
    ranked_pairs,
    ratio_parts,
    row_of_each_entry,
    row_parts,
    total_ratio,
)


def precision_at_k(Y_true: Any, predicted: Any, k: int) -> float:
    """Return the share of the n * k ranks that hold a true label.

    Parameters
    ----------
    Y_true : sparse matrix or array of shape (n, c)
        The true labels.
    predicted : int array of shape (n, K) or sparse matrix of shape (n, c)
        The ranking; see `labelprism.metrics` for this and for `Y_true`.
    k : int
        How many ranks count.
    """
    return total_ratio(*row_parts("precision", Y_true, predicted, k))


def recall_at_k(Y_true: Any, predicted: Any, k: int) -> float:
    """Return the share of a row's true labels found in its top k, averaged over the rows that have labels.

    The parameters are those of `precision_at_k`.
    """
    return total_ratio(*row_parts("recall", Y_true, predicted, k))


def ndcg_at_k(Y_true: Any, predicted: Any, k: int) -> float:
    """Return the normalised discounted cumulative gain, averaged over all rows.

    A row's value is ``DCG / ideal DCG``, where ``DCG = sum of 1 / log2(rank + 1)`` over the hits with
    rank 1..k, and the ideal ranks all true labels first. A row without labels gives 0.
    The parameters are those of `precision_at_k`.
    """
    return total_ratio(*row_parts("ndcg", Y_true, predicted, k))


def psp_at_k(Y_true: Any, predicted: Any, k: int, inverse_propensity: npt.ArrayLike) -> float:
    """Return the propensity-scored precision, normalised by the best attainable.

    ``sum of w[l] over the hits of all rows / the same sum for the best ranking``, where w is
    `inverse_propensity` and the best ranking sorts the true labels of each row by w, largest first.

    Parameters
    ----------
    Y_true, predicted, k
        As in `precision_at_k`.
    inverse_propensity : array of shape (c,)
        Positive weights of the labels, usually ``inverse_propensity(Y_train)``.
    """
    return total_ratio(*row_parts("psp", Y_true, predicted, k, inverse_propensity))


def psndcg_at_k(Y_true: Any, predicted: Any, k: int, inverse_propensity: npt.ArrayLike) -> float:
    """Return the propensity-scored DCG of all rows over the best attainable one.

    As `psp_at_k`, parameters included, with each hit counting ``w[l] / log2(rank + 1)``, in the best ranking too.
    """
    return total_ratio(*row_parts("psndcg", Y_true, predicted, k, inverse_propensity))


def inverse_propensity(Y_train: Any, A: float = 0.55, B: float = 1.5) -> Float64:
    """Return the inverse propensities of the labels, after Jain et al. (2016).

    ``w[l] = 1 + C * (n_l + B) ** -A`` with ``C = (log(n) - 1) * (B + 1) ** A``, where n_l of the n
    training rows have label l: the rarer the label, the more a hit counts.

    Parameters
    ----------
    Y_train : sparse matrix or array of shape (n, c)
        The training labels; at least 3 rows, because weights below 1 are no inverse probabilities.
    A, B : float
        Constants of the model, A >= 0 and B > 0. Customary are (0.5, 0.4) for data from Wikipedia,
        (0.6, 2.6) for data from Amazon and the defaults for others.

    Returns
    -------
    float64 array of shape (c,)
    """
    Y = as_label_matrix(Y_train, "Y_train")
    return inverse_propensity_of_counts(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0], A, B)


def inverse_propensity_of_counts(label_counts: Any, n_rows: int, A: float = 0.55, B: float = 1.5) -> Float64:
    """Return what `inverse_propensity` does, of labels that have been counted already.

    Parameters
    ----------
    label_counts : int array of shape (c,)
        n_l, how many training rows have each label.
    n_rows : int
        n, the number of training rows.
    A, B : float
        As in `inverse_propensity`.
    """
    if not (is_number(A) and is_number(B) and 0 <= A < np.inf and 0 < B < np.inf):
        raise ValueError(f"A must be at least 0 and B above 0, both finite numbers; got A={A!r}, B={B!r}")
    if n_rows < 3:
        raise ValueError(f"Y_train has {n_rows} rows; the propensity model needs at least 3")
    C = (np.log(n_rows) - 1.0) * (B + 1.0) ** A
    weights: Float64 = 1.0 + C * (np.asarray(label_counts) + B) ** -A
    return weights


def coverage_at_k(Y_true: Any, predicted: Any, k: int) -> float:
    """Return the share of the labels in `Y_true` that are a hit in the top k of at least one row.

    The parameters are those of `precision_at_k`.
    """
    Y = checked_truth(Y_true)
    check_positive("k", k)
    return _coverage(match(Y, ranked_pairs(predicted, Y.shape, k)), k)


def f1_at_k(Y_true: Any, predicted: Any, k: int, average: Literal["macro", "micro"] = "macro") -> float:
    """Return the F1 score of the top k taken as the predicted set of labels.

    A label's F1 is ``2 * hits / (times predicted + times true)``.

    Parameters
    ----------
    Y_true, predicted, k
        As in `precision_at_k`.
    average : {"macro", "micro"}
        "macro" is the mean over the labels that are true or predicted at least once; "micro" takes the
        three counts over all labels together.
    """
    check_choice("average", average, ("macro", "micro"))
    Y = checked_truth(Y_true)
    check_positive("k", k)
    c = Y.shape[1]
    pairs = ranked_pairs(predicted, Y.shape, k)
    matches = match(Y, pairs)
    hits = np.bincount(matches.labels[matches.ranks < k], minlength=c)
    times_true = np.bincount(matches.labels, minlength=c)
    times_predicted = np.bincount(np.unique(pairs.rows * c + pairs.labels) % c, minlength=c)
    return average_over_labels(2.0 * hits, times_true + times_predicted, average)


def filter_recall(Y_true: Any, candidates: Any) -> float:
    """Return the share of a row's true labels among its candidates, averaged over the rows that have labels.

    It bounds the recall of whatever ranks the candidates afterwards.

    Parameters
    ----------
    Y_true : sparse matrix or array of shape (n, c)
        The true labels.
    candidates : int array of shape (n, K) or sparse matrix of shape (n, c)
        Label ids, -1 for none; or a sparse matrix whose stored entries are the candidates, whatever
        their values.
    """
    Y = checked_truth(Y_true)
    if is_sparse(candidates):
        stored = checked_sparse(candidates, Y.shape, "candidates")
        # The order within a row is of no interest, so every candidate has rank 0.
        pairs = Pairs(row_of_each_entry(stored), stored.indices.astype(np.int64), np.zeros(stored.nnz, np.int64))
    else:
        pairs = pairs_from_ids(candidates, Y.shape, "candidates")
    return total_ratio(*ratio_parts("recall", match(Y, pairs), NOT_PREDICTED))


def evaluate(
    Y_true: Any, predicted: Any, Y_train: Any = None, ks: Sequence[int] = (1, 3, 5), A: float = 0.55, B: float = 1.5
) -> dict[str, float]:
    """Return the usual metrics of a ranking; the ranking is compared with the true labels only once.

    Parameters
    ----------
    Y_true, predicted
        As in `precision_at_k`.
    Y_train : sparse matrix or array of shape (n_train, c), optional
        The training labels; the propensity-scored metrics need them.
    ks : sequence of int
        How many ranks count.
    A, B : float
        Constants of `inverse_propensity`.

    Returns
    -------
    dict
        "P@k", "nDCG@k", "recall@k" and "coverage@k", with `Y_train` also "PSP@k" and "PSnDCG@k",
        for each k in `ks`.
    """
    if not isinstance(ks, Iterable):
        raise ValueError(f"ks must be a sequence, such as ks=(1, 3, 5); got {ks!r}")
    ks = tuple(ks)
    if not ks:
        raise ValueError("ks is empty; name at least one k, such as ks=(1, 3, 5)")
    for k in ks:
        check_positive("k", k)
    Y = checked_truth(Y_true)
    matches = match(Y, ranked_pairs(predicted, Y.shape, max(ks)))
    gains = None
    if Y_train is not None:
        weights, c = inverse_propensity(Y_train, A, B), Y.shape[1]
        if len(weights) != c:
            raise ValueError(f"Y_train has {len(weights)} labels (columns), Y_true has {c}; both need the same labels")
        gains = gains_of(matches, weights)
    result: dict[str, float] = {}
    for metric, key in KEYS.items():
        if gains is not None or metric not in SCORED:
            result |= {f"{key}@{k}": total_ratio(*ratio_parts(metric, matches, k, gains)) for k in ks}
    return result | {f"coverage@{k}": _coverage(matches, k) for k in ks}


class BootstrapInterval(NamedTuple):
    """The `difference`, metric of system a minus that of system b, and the interval from `low` to `high`."""

    difference: float
    low: float
    high: float
    confidence: float


def bootstrap_difference(
    Y_true: Any,
    predicted_a: Any,
    predicted_b: Any,
    metric: RatioMetric = "precision",
    k: int = 1,
    inverse_propensity: npt.ArrayLike | None = None,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> BootstrapInterval:
    """Return a paired percentile bootstrap interval for the metric of system a minus that of system b.

    Each resample draws n rows with replacement, the same ones for both systems; the interval lies between
    the (1 - confidence) / 2 and (1 + confidence) / 2 quantiles of the differences on the resamples.

    Parameters
    ----------
    Y_true, k
        As in `precision_at_k`.
    predicted_a, predicted_b : int array of shape (n, K) or sparse matrix of shape (n, c)
        The rankings of the two systems.
    metric : {"precision", "recall", "ndcg", "psp", "psndcg"}
        What is compared.
    inverse_propensity : array of shape (c,), optional
        Needed for "psp" and "psndcg", unused otherwise.
    n_resamples : int
        How many resamples to draw.
    confidence : float
        Between 0 and 1, exclusive.
    random_state : int, numpy Generator or None
        Seed of the resampling.
    """
    check_positive("n_resamples", n_resamples)
    if not is_number(confidence) or not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence!r}")
    numerator_a, denominator = row_parts(metric, Y_true, predicted_a, k, inverse_propensity, "predicted_a")
    # The denominator depends on the true labels alone, so that both systems share it.
    numerator_b, _ = row_parts(metric, Y_true, predicted_b, k, inverse_propensity, "predicted_b")
    numerator = numerator_a - numerator_b
    generator, n = np.random.default_rng(random_state), len(numerator)
    # One resample at a time, so that memory stays at n numbers.
    draws = (generator.integers(n, size=n) for _ in range(n_resamples))
    differences = np.array([total_ratio(numerator[rows], denominator[rows]) for rows in draws])
    # A resample may hold no row that has labels; it says nothing about the difference.
    differences = differences[~np.isnan(differences)]
    quantiles = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(differences, quantiles) if len(differences) else (np.nan, np.nan)
    return BootstrapInterval(total_ratio(numerator, denominator), float(low), float(high), confidence)


def _coverage(matches: Matches, k: int) -> float:
    found = matches.labels[matches.ranks < k]
    return divide(np.count_nonzero(np.bincount(found)), np.count_nonzero(np.bincount(matches.labels)))
