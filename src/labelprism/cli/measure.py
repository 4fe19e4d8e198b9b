"""How good suggestions are: what `train`, `tune`, `evaluate` and `compare` compute and show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from labelprism import metrics
from labelprism._arrays import Int32, Int64
from labelprism._progress import ProgressBar
from labelprism.cli import interrupts
from labelprism.cli.inputs import Truth
from labelprism.cli.models import Counts
from labelprism.cli.tables import percent, table, without_nan
from labelprism.metrics import FrequencyGroup, MetricInterval

_ROWS_PER_BATCH = 8192


def ranks(k: int | None) -> tuple[int, ...]:
    """Return the numbers of best labels that are measured: 1, 3, 5 and, where it is given, k."""
    return tuple(sorted({1, 3, 5, *([] if k is None else [k])}))


def predicted_labels(model: Any, rows: Any, k: int) -> Int32:
    """Return the k best labels of all rows, best first.

    Parameters
    ----------
    model : PrismClassifier
    rows : sequence of n str, or matrix of shape (n, d)
    k : int

    Returns
    -------
    int32 array of shape (n, k)
    """
    n = len(rows) if isinstance(rows, Sequence) else rows.shape[0]
    found = np.full((n, k), -1, np.int32)
    with ProgressBar(n, "predicting", "rows") as bar:
        for begin in range(0, n, _ROWS_PER_BATCH):
            part = rows[begin : begin + _ROWS_PER_BATCH]
            with interrupts.at_once():
                labels = model.predict_topk(part, k)[0]
            found[begin : begin + labels.shape[0], : labels.shape[1]] = labels
            bar.advance(labels.shape[0])
    return found


def propensities(counts: Counts | None, n_labels: int) -> Any:
    """Return the inverse propensities of labels that were counted in training; None where that is not known.

    Parameters
    ----------
    counts : Counts or None
        Of the c labels that training had.
    n_labels : int
        The number of labels, at least c: those beyond were never seen.
    """
    if counts is None or counts.n_rows is None or counts.n_rows < 3:
        return None
    return metrics.inverse_propensity_of_counts(padded(counts.of_label, n_labels), counts.n_rows)


def padded(counts: Int64, n_labels: int) -> Int64:
    """Return counts of labels, with zeros for those that training did not have."""
    return np.pad(counts, (0, n_labels - counts.size))


def scores(truth: Truth, predicted: Int32, counts: Counts | None, ks: Sequence[int]) -> dict[str, float]:
    """Return the metrics without intervals."""
    weights = propensities(counts, len(truth.names))
    found = metrics.evaluate_intervals(truth.Y, predicted, weights, ks, n_resamples=1)
    return {name: interval.value for name, interval in found.items() if not name.startswith("PSnDCG")}


def scores_table(values: Mapping[str, float]) -> str:
    """Return metrics as a table: a row for each metric, a column for each k."""
    names = list(dict.fromkeys(name.partition("@")[0] for name in values))
    ks = list(dict.fromkeys(name.partition("@")[2] for name in values))
    rows = [["", *(f"@{k}" for k in ks)]]
    rows += [[name, *(percent(values[f"{name}@{k}"]) for k in ks)] for name in names]
    return table(rows)


def intervals_table(intervals: Mapping[str, MetricInterval], confidence: float) -> str:
    """Return metrics with their intervals as a table."""
    rows = [["", "percent", f"{100 * confidence:g}% interval"]]
    rows += [
        [name, percent(interval.value), f"{percent(interval.low)} to {percent(interval.high)}"]
        for name, interval in intervals.items()
    ]
    return table(rows)


def groups_table(groups: Sequence[FrequencyGroup], k: int) -> str:
    """Return how well labels are found, by their frequency, as a table."""
    rows = [["labels", "examples", "how many", "true", f"recall@{k}", f"precision@{k}", f"coverage@{k}"]]
    for group in groups:
        span = f"{group.fewest}+" if group.most is None else f"{group.fewest}-{group.most}" if group.most else "0"
        shares = (percent(share) for share in (group.recall, group.precision, group.coverage))
        rows.append([group.name, span, f"{group.n_labels:,}", f"{group.n_true:,}", *shares])
    return table(rows, 2)


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics, or tuples of them with names, as JSON can have them."""
    return {
        name: {key: without_nan(part) for key, part in value._asdict().items()}
        if hasattr(value, "_asdict")
        else without_nan(value)
        for name, value in values.items()
    }
