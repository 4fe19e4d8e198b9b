"""The paired bootstrap: the same as a plain loop, with intervals that cover what they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from metric_oracle import EXACT, IDS_SMALL, Y_SMALL, oracle_parts, quotient, ratio_metrics

from labelprism.metrics import BootstrapInterval, bootstrap_difference


def two_systems(seed: int, n: int = 80, c: int = 20) -> tuple[sp.csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, a good ranking, a random one and weights; some rows have no labels."""
    rng = np.random.default_rng(seed)
    Y = sp.csr_array(rng.random((n, c)) < 0.1)
    random_ids = rng.integers(-1, c, size=(n, 5))
    good_ids = np.argsort(-(Y.toarray() + rng.random((n, c))), axis=1)[:, :5]
    return Y, good_ids, random_ids, rng.uniform(1, 5, size=c)


METRICS: list[Any] = ["precision", "recall", "ndcg", "psp", "psndcg"]


@pytest.mark.parametrize("metric", METRICS)
def test_bootstrap_matches_a_plain_loop(metric: Any) -> None:
    Y, a, b, weights = two_systems(0, n=40)
    result = bootstrap_difference(Y, a, b, metric, 3, weights, n_resamples=200, confidence=0.9, random_state=7)

    truths = [set(Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()) for i in range(40)]
    parts_a = oracle_parts(metric, truths, a.tolist(), 3, weights.tolist())
    parts_b = oracle_parts(metric, truths, b.tolist(), 3, weights.tolist())
    rng = np.random.default_rng(7)
    differences = []
    for _ in range(200):
        rows = rng.integers(40, size=40).tolist()
        value_a = quotient(sum(parts_a[i][0] for i in rows), sum(parts_a[i][1] for i in rows))
        value_b = quotient(sum(parts_b[i][0] for i in rows), sum(parts_b[i][1] for i in rows))
        differences.append(value_a - value_b)
    low, high = np.quantile(differences, [0.05, 0.95])
    point = ratio_metrics(Y, a, 3, weights)[metric] - ratio_metrics(Y, b, 3, weights)[metric]
    assert result == pytest.approx((point, low, high, 0.9), **EXACT)


@pytest.mark.parametrize("metric", METRICS)
def test_bootstrap_sign_and_zero(metric: Any) -> None:
    Y, good, random_ids, weights = two_systems(1)
    better = bootstrap_difference(Y, good, random_ids, metric, 3, weights)
    assert 0 < better.low < better.difference < better.high
    worse = bootstrap_difference(Y, random_ids, good, metric, 3, weights)
    assert worse.low < worse.difference < worse.high < 0
    assert worse == pytest.approx((-better.difference, -better.high, -better.low, 0.95), **EXACT)
    assert bootstrap_difference(Y, good, good, metric, 3, weights) == BootstrapInterval(0.0, 0.0, 0.0, 0.95)


def test_bootstrap_covers_zero_for_systems_of_equal_quality() -> None:
    rng = np.random.default_rng(2)
    Y = np.eye(10)[rng.integers(10, size=400)]
    true_label = Y.argmax(axis=1)
    covered = 0
    for seed in range(40):
        is_right = np.random.default_rng(seed).random((2, 400)) < 0.6
        a, b = np.where(is_right, true_label, (true_label + 1) % 10)[:, :, np.newaxis]
        interval = bootstrap_difference(Y, a, b, n_resamples=200, confidence=0.8, random_state=seed)
        covered += interval.low <= 0 <= interval.high
    # 80 % of 40 are 32; the bounds are more than three standard deviations (2.5) away.
    assert 24 <= covered <= 39


def test_bootstrap_follows_its_seed_and_its_confidence() -> None:
    Y, a, b, _ = two_systems(3)
    first = bootstrap_difference(Y, a, b, "ndcg", 5, random_state=4)
    assert first == bootstrap_difference(Y, a, b, "ndcg", 5, random_state=4)
    assert first == bootstrap_difference(Y, a, b, "ndcg", 5, random_state=np.random.default_rng(4))
    assert first != bootstrap_difference(Y, a, b, "ndcg", 5, random_state=5)
    wider = bootstrap_difference(Y, a, b, "ndcg", 5, confidence=0.99, random_state=4)
    assert wider.low < first.low < first.high < wider.high


def test_bootstrap_takes_scores_and_skips_resamples_without_labels() -> None:
    # Only one of two rows has labels, so a quarter of the resamples has none.
    Y = np.array([[1, 0], [0, 0]])
    scores = sp.csr_array(np.array([[1.0, 0], [0, 1.0]]))
    result = bootstrap_difference(Y, scores, np.array([[1], [1]]), "recall")
    assert result == BootstrapInterval(1.0, 1.0, 1.0, 0.95)


def test_an_undefined_metric_has_an_undefined_interval() -> None:
    Y, ids = np.zeros((3, 2)), np.full((3, 2), -1)
    assert bootstrap_difference(Y, ids, ids, "recall") == pytest.approx((np.nan, np.nan, np.nan, 0.95), nan_ok=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"metric": "accuracy"},
            "metric must be one of 'precision', 'ndcg', 'recall', 'psp', 'psndcg'; got",
        ),
        ({"metric": "psp"}, "inverse_propensity is needed"),
        ({"k": 0}, "k must be an integer of at least 1"),
        ({"n_resamples": 0}, "n_resamples must be an integer of at least 1, got 0"),
        ({"n_resamples": 10.5}, "n_resamples must be an integer of at least 1"),
        ({"confidence": 1.0}, r"confidence must lie between 0 and 1, such as 0\.95; got 1\.0"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"confidence": "x"}, "confidence must lie between 0 and 1.*got 'x'"),
        ({"predicted_a": IDS_SMALL[:2]}, r"predicted_a has shape \(2, 3\)"),
        ({"predicted_b": IDS_SMALL[:2]}, r"predicted_b has shape \(2, 3\)"),
    ],
)
def test_bad_bootstrap_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_difference(**({"Y_true": Y_SMALL, "predicted_a": IDS_SMALL, "predicted_b": IDS_SMALL} | arguments))
