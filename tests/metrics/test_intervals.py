"""Metrics with intervals, and by label frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import metrics


def ranking(seed: int = 0, n: int = 60, c: int = 20) -> tuple[sp.csr_array, np.ndarray]:
    """Labels, of which some rows have none, and a middling ranking."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, c)) < 0.1
    return sp.csr_array(Y), np.argsort(-(Y + 1.5 * rng.random((n, c))), axis=1)[:, :5]


def test_values_are_those_of_evaluate() -> None:
    Y, ids = ranking()
    found = metrics.evaluate_intervals(Y, ids, metrics.inverse_propensity(Y), n_resamples=3)
    expected = {name: value for name, value in metrics.evaluate(Y, ids, Y).items() if "coverage" not in name}
    assert {name: interval.value for name, interval in found.items()} == pytest.approx(expected)
    assert "PSP@1" not in metrics.evaluate_intervals(Y, ids, n_resamples=3)


def test_intervals_are_those_of_a_difference_from_nothing() -> None:
    Y, ids = ranking()
    weights = metrics.inverse_propensity(Y)
    found = metrics.evaluate_intervals(Y, ids, weights, ks=(3,), n_resamples=50, confidence=0.9, random_state=4)
    kinds: list[Any] = ["precision", "ndcg", "recall", "psp", "psndcg"]
    for kind, interval in zip(kinds, found.values(), strict=True):
        alone = metrics.bootstrap_difference(Y, ids, np.full_like(ids, -1), kind, 3, weights, 50, 0.9, 4)
        assert interval == pytest.approx(alone[:3])


def test_undefined_metrics_are_nan() -> None:
    found = metrics.evaluate_intervals(np.zeros((3, 2)), np.array([[0], [1], [0]]), ks=(1,), n_resamples=5)
    assert np.isnan(found["recall@1"]).all()
    assert found["P@1"] == (0, 0, 0)


@pytest.mark.parametrize("wrong", [{"ks": (0,)}, {"confidence": 1}, {"n_resamples": 0}, {"inverse_propensity": [1.0]}])
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    Y, ids = ranking()
    with pytest.raises(ValueError, match=r"must|expected"):
        metrics.evaluate_intervals(Y, ids, **wrong)


def test_groups_by_frequency() -> None:
    Y = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 0, 1, 0, 0]])
    ids = np.array([[0, 4], [0, 2], [3, 1]])
    head, torso, tail, unseen = metrics.by_frequency(Y, ids, np.array([50, 5, 2, 0, 1]), k=2, limits=(2, 10))
    assert head == ("head", 11, None, 1, 2, 1.0, 1.0, 1.0)
    assert torso == ("torso", 3, 10, 1, 1, 0.0, 0.0, 0.0)
    assert tail == ("tail", 1, 2, 2, 2, 0.5, 0.5, 1.0)
    assert unseen == ("unseen", 0, 0, 1, 1, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("wrong", [{"label_counts": [1, 2]}, {"limits": (5, 5)}, {"k": 0}])
def test_wrong_groups(wrong: dict[str, Any]) -> None:
    arguments = {"label_counts": [1, 2, 3], **wrong}
    with pytest.raises(ValueError, match="must"):
        metrics.by_frequency(np.eye(3), np.array([[0], [1], [2]]), **arguments)


def test_propensities_of_counts() -> None:
    Y, _ = ranking()
    counts = np.bincount(Y.indices, minlength=20)
    np.testing.assert_array_equal(metrics.inverse_propensity_of_counts(counts, 60), metrics.inverse_propensity(Y))
