"""What all ranking metrics rest on: where the predictions of each row have its true labels.

For every true label the first rank that predicts it is found; the metrics then are ratios of two sums over the rows.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Int64, as_label_matrix, is_sparse

Float64 = npt.NDArray[np.float64]
RatioMetric = Literal["precision", "recall", "ndcg", "psp", "psndcg"]

KEYS: dict[RatioMetric, str] = {"precision": "P", "ndcg": "nDCG", "recall": "recall", "psp": "PSP", "psndcg": "PSnDCG"}
SCORED = ("psp", "psndcg")
NOT_PREDICTED = np.iinfo(np.int64).max


# ---- The ratio behind the metrics: sum of numerators / sum of denominators over the rows ----


class Pairs(NamedTuple):
    """Predictions as (row, label, rank from 0) triples; within a row the ranks do not decrease."""

    rows: Int64
    labels: Int64
    ranks: Int64


class Matches(NamedTuple):
    """The true labels, row by row, and where the predictions have them."""

    rows: Int64
    labels: Int64
    ranks: Int64
    """The first rank, from 0, at which the label is predicted for the row, or `NOT_PREDICTED`."""
    places: Int64
    """0, 1, 2, ... within each row: the ranks the true labels have in a perfect ranking."""
    label_counts: Int64
    """How many labels each row has, shape (n,)."""


class Gains(NamedTuple):
    """What the hits of the propensity-scored metrics are worth, one value per true label."""

    actual: Float64
    sorted_by_row: Float64
    """The same values, largest first within each row; they belong to `Matches.places`."""


def match(Y: sp.csr_array, pairs: Pairs) -> Matches:
    c = Y.shape[1]
    rows = row_of_each_entry(Y)
    true_keys = rows * c + Y.indices
    keys = pairs.rows * c + pairs.labels
    position = np.searchsorted(true_keys, keys)
    # The last element lets keys beyond all true ones be compared like any other.
    is_hit = np.append(true_keys, NOT_PREDICTED)[position] == keys
    ranks = np.full(Y.nnz, NOT_PREDICTED)
    # Of repeated predictions the last one written stays; backwards that is the best rank.
    ranks[position[is_hit][::-1]] = pairs.ranks[is_hit][::-1]
    return Matches(rows, Y.indices.astype(np.int64), ranks, _place_of_each_entry(Y), np.diff(Y.indptr))


def gains_of(matches: Matches, weights: Float64) -> Gains:
    c = len(weights)
    by_weight = np.argsort(-weights, kind="stable")
    standing = np.empty(c, np.int64)
    standing[by_weight] = np.arange(c)
    # Sorting one integer per true label is several times as fast as a lexsort of rows and weights.
    sorted_keys = np.sort(matches.rows * c + standing[matches.labels])
    return Gains(weights[matches.labels], weights[by_weight[sorted_keys % c]])


def ratio_parts(metric: RatioMetric, matches: Matches, k: int, gains: Gains | None = None) -> tuple[Float64, Float64]:
    """Return the numerators and the denominators of the rows, each of shape (n,)."""
    n = len(matches.label_counts)
    if gains is not None and metric in SCORED:
        discounted = metric == "psndcg"
        best = _gain_by_row(matches, matches.places, k, gains.sorted_by_row, discounted)
        return _gain_by_row(matches, matches.ranks, k, gains.actual, discounted), best
    if metric == "ndcg":
        ideal = _gain_by_row(matches, matches.places, k, discounted=True)
        dcg = _gain_by_row(matches, matches.ranks, k, discounted=True)
        return np.divide(dcg, ideal, out=np.zeros(n), where=ideal > 0), np.ones(n)
    hits = _gain_by_row(matches, matches.ranks, k)
    if metric == "recall":
        return hits / np.maximum(matches.label_counts, 1), (matches.label_counts > 0).astype(np.float64)
    return hits, np.full(n, float(k))


def _gain_by_row(
    matches: Matches, ranks: Int64, k: int, gain: Float64 | float = 1.0, discounted: bool = False
) -> Float64:
    gain_at_rank: Float64 = np.where(ranks < k, gain, 0.0)
    if discounted:
        gain_at_rank /= np.log2(ranks + 2.0)
    return sum_by(matches.rows, gain_at_rank, len(matches.label_counts))


def row_parts(
    metric: RatioMetric, Y_true: Any, predicted: Any, k: int, weights: Any = None, name: str = "predicted"
) -> tuple[Float64, Float64]:
    """Check the arguments and return what `ratio_parts` does."""
    check_choice("metric", metric, tuple(KEYS))
    check_positive("k", k)
    Y = checked_truth(Y_true)
    weights = checked_weights(weights, Y.shape[1]) if metric in SCORED else None
    matches = match(Y, ranked_pairs(predicted, Y.shape, k, name))
    return ratio_parts(metric, matches, k, None if weights is None else gains_of(matches, weights))


def average_over_labels(numerator: Any, denominator: Any, average: str) -> float:
    """Return the mean ratio of the labels that occur for "macro", else the ratio of the sums."""
    if average == "macro":
        occurs = denominator > 0
        return divide((numerator[occurs] / denominator[occurs]).sum(), occurs.sum())
    return total_ratio(numerator, denominator)


def total_ratio(numerator: Float64, denominator: Float64) -> float:
    return divide(numerator.sum(), denominator.sum())


def divide(numerator: Any, denominator: Any) -> float:
    return float(numerator / denominator) if denominator > 0 else float("nan")


def sum_by(index: Int64, values: Float64, size: int) -> Float64:
    return np.asarray(np.bincount(index, weights=values, minlength=size), dtype=np.float64)


# ---- From what the caller passes to flat arrays ----


def ranked_pairs(predicted: Any, shape: tuple[int, int], k: int, name: str = "predicted") -> Pairs:
    """Return the predictions with a rank below k."""
    if not is_sparse(predicted):
        return pairs_from_ids(predicted, shape, name, k)
    csr = checked_sparse(predicted, shape, name)
    # Integers and booleans cannot all be negated; no sort of scores needs more than float64.
    scores = csr.data if csr.dtype.kind == "f" else csr.data.astype(np.float64)
    if np.isnan(scores).any():
        row = int(row_of_each_entry(csr)[np.isnan(scores)][0])
        raise ValueError(f"{name} holds NaN in row {row}, which cannot be ranked; remove such entries")
    return _pairs_from_scores(csr.indptr, csr.indices, scores, k)


def _pairs_from_scores(indptr: Any, labels: Any, scores: Any, k: int) -> Pairs:
    """Sort the rows of each length at once: far faster than one sort of all entries, and nothing is padded.

    The lengths that occur add up to at most the number of entries, so they number about its root at most.
    """
    lengths = np.diff(indptr)
    by_length = np.argsort(lengths, kind="stable")
    chunks = []
    for rows in np.split(by_length, np.flatnonzero(np.diff(lengths[by_length])) + 1):
        entries = indptr[rows][:, np.newaxis] + np.arange(lengths[rows[0]], dtype=np.int64)
        # The sort is stable and the labels of a row ascend, so that ties go to the smaller label.
        order = np.argsort(-scores[entries], axis=1, kind="stable")[:, :k]
        best = labels[np.take_along_axis(entries, order, axis=1)]
        row, rank = np.indices(best.shape)
        chunks.append(Pairs(rows[row.ravel()], best.ravel().astype(np.int64), rank.ravel()))
    return Pairs(*(np.concatenate(column) for column in zip(*chunks, strict=True)))


def pairs_from_ids(ids: Any, shape: tuple[int, int], name: str, k: int | None = None) -> Pairs:
    n, c = shape
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must hold label ids as integers, got dtype {ids.dtype}; pass scores as a scipy sparse matrix"
        )
    if ids.ndim != 2 or ids.shape[0] != n:
        raise ValueError(f"{name} has shape {ids.shape}, expected ({n}, K): one row of label ids per row of Y_true")
    is_wrong = (ids >= c) | (ids < -1)
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0]
        raise ValueError(
            f"{name} holds {ids[row, column]} in row {row}, column {column}; "
            f"label ids go from 0 to {c - 1}, and -1 means no prediction"
        )
    rows, ranks = np.nonzero(ids[:, :k] >= 0)
    return Pairs(rows, ids[rows, ranks].astype(np.int64), ranks)


def checked_sparse(matrix: Any, shape: tuple[int, int], name: str) -> sp.csr_array:
    """Return a sparse matrix as a canonical CSR, with its dtype and its stored zeros."""
    if matrix.shape != shape:
        raise ValueError(f"{name} has shape {matrix.shape} and Y_true {shape}; a sparse {name} needs the same shape")
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got dtype {matrix.dtype}")
    csr = sp.csr_array(matrix)
    try:
        csr.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid CSR matrix: {error}") from error
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def row_of_each_entry(csr: sp.csr_array) -> Int64:
    return np.repeat(np.arange(csr.shape[0], dtype=np.int64), np.diff(csr.indptr))


def _place_of_each_entry(csr: sp.csr_array) -> Int64:
    """Return 0, 1, 2, ... within each row."""
    row_starts = csr.indptr[:-1].astype(np.int64)
    places: Int64 = np.arange(csr.nnz, dtype=np.int64) - np.repeat(row_starts, np.diff(csr.indptr))
    return places


# ---- Checks ----


def checked_truth(Y: Any, name: str = "Y_true") -> sp.csr_array:
    matrix = as_label_matrix(Y, name)
    if 0 in matrix.shape:
        raise ValueError(f"{name} has shape {matrix.shape}; at least one row and one label (column) are needed")
    return matrix


def checked_weights(weights: npt.ArrayLike | None, c: int) -> Float64:
    if weights is None:
        raise ValueError("inverse_propensity is needed; compute it from the training labels by inverse_propensity(Y)")
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (c,):
        raise ValueError(f"inverse_propensity has shape {array.shape}, expected ({c},): one value per label of Y_true")
    if not ((array > 0) & (array < np.inf)).all():
        raise ValueError("inverse_propensity must be positive and finite; check the labels it was computed from")
    return array


def check_positive(name: str, value: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def is_number(value: object) -> bool:
    return isinstance(value, Real)
