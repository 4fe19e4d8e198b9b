"""Metrics of extreme classification, for rankings and for the splits of a label tree.

A ranking, called `predicted` below, comes in one of two forms:

- an integer array of shape (n, K) that holds label ids, best first, with -1 for "no prediction", or
- a scipy sparse matrix of shape (n, c) that holds scores. Its stored entries are the predictions, also
  those that are zero or negative. They are ranked by score, highest first, and ties by label id, smallest first.

A label that occurs twice in a row counts once, at its first rank; a -1 keeps its rank empty; and a row with
fewer than k predictions is judged as if the rest were wrong. True labels, called `Y_true`, are a sparse
matrix or a dense array of shape (n, c) that is non-zero where the row has the label.

Time and memory grow with the size of what is passed, plus c; a dense n x c array is never made. A metric that
the data leave undefined, such as the recall of rows that have no labels, is nan.
"""

from labelprism.metrics.calibration import expected_calibration_error
from labelprism.metrics.intervals import FrequencyGroup, MetricInterval, by_frequency, evaluate_intervals
from labelprism.metrics.ranking import (
    BootstrapInterval,
    bootstrap_difference,
    coverage_at_k,
    evaluate,
    f1_at_k,
    filter_recall,
    inverse_propensity,
    inverse_propensity_of_counts,
    ndcg_at_k,
    precision_at_k,
    psndcg_at_k,
    psp_at_k,
    recall_at_k,
)
from labelprism.metrics.splits import balance, purity

__all__ = [
    "BootstrapInterval",
    "FrequencyGroup",
    "MetricInterval",
    "balance",
    "bootstrap_difference",
    "by_frequency",
    "coverage_at_k",
    "evaluate",
    "evaluate_intervals",
    "expected_calibration_error",
    "f1_at_k",
    "filter_recall",
    "inverse_propensity",
    "inverse_propensity_of_counts",
    "ndcg_at_k",
    "precision_at_k",
    "psndcg_at_k",
    "psp_at_k",
    "purity",
    "recall_at_k",
]
