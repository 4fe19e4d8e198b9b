"""Purity and balance of splits, against the oracle and by hand."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from metric_oracle import EXACT, Y_SMALL, Case, cases, quotient

from labelprism.metrics import balance, purity


def test_purity_and_balance_by_hand() -> None:
    # Label 0 in rows 0-3, label 1 in rows 3-4.
    Y = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    goes_right = np.array([True, True, True, False, False])
    assert purity(Y, goes_right) == pytest.approx((3 + 2) / (4 + 2))
    assert purity(Y, goes_right, average="macro") == pytest.approx((3 / 4 + 1) / 2)
    assert balance(goes_right) == pytest.approx(3 / 5)
    assert balance(~goes_right) == pytest.approx(3 / 5)


def test_purity_and_balance_with_weights_and_fractions() -> None:
    Y = np.array([[1, 0], [1, 1], [0, 1]])
    probability = [0.5, 1.0, 0.0]
    weight = [2.0, 1.0, 4.0]
    # Label 0: right 1 + 1 of 3; label 1: right 1 of 5, so left 4.
    assert purity(Y, probability, weight) == pytest.approx((2 + 4) / (3 + 5))
    assert purity(Y, probability, weight, average="macro") == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert balance(probability, weight) == pytest.approx(5 / 7)


def test_purity_ignores_labels_whose_examples_weigh_nothing() -> None:
    Y = np.array([[1, 0], [0, 1], [0, 1]])
    assert purity(Y, [True, True, False], [0.0, 3.0, 1.0], average="macro") == pytest.approx(3 / 4)


@given(case=cases(), data=st.data())
def test_purity_equals_the_oracle(case: Case, data: st.DataObject) -> None:
    n = len(case.truths)
    right = data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.7, 1.0]), min_size=n, max_size=n))
    weight = data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n))
    larger, total = [], []
    for label in set().union(*case.truths):
        rows = [i for i in range(n) if label in case.truths[i]]
        to_right, to_left = sum(weight[i] * right[i] for i in rows), sum(weight[i] * (1 - right[i]) for i in rows)
        larger.append(max(to_right, to_left))
        total.append(to_right + to_left)
    expected = quotient(sum(larger), sum(total))
    assert purity(case.Y, right, weight) == pytest.approx(expected, **EXACT)
    expected = quotient(sum(a / b for a, b in zip(larger, total, strict=True)), len(total))
    assert purity(case.Y, right, weight, average="macro") == pytest.approx(expected, **EXACT)


def test_undefined_purity_is_nan() -> None:
    assert math.isnan(purity(np.zeros((3, 2)), [True, False, True]))


def test_results_are_python_floats_and_inputs_stay_as_they_were() -> None:
    Y = sp.csr_array(([2.0, 0.0, 1.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    before = [array.copy() for array in (Y.data, Y.indices, Y.indptr)]
    assert type(purity(Y, np.array([True, False]))) is type(balance([0, 1, 1])) is float
    for array, copy in zip((Y.data, Y.indices, Y.indptr), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_million_labels_need_no_dense_matrix() -> None:
    n, c = 2_000, 1_000_000
    rng = np.random.default_rng(0)
    Y = sp.csr_array((np.ones(3 * n), (np.repeat(np.arange(n), 3), rng.integers(c, size=3 * n))), shape=(n, c))
    tracemalloc.start()
    try:
        purity(Y, rng.random(n))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Even one byte per row and label would be 2,000 MB.
    assert peak < 200e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: purity(Y_SMALL, [0, 1, 1], average="micro"), "must be one of 'weighted', 'macro'; got 'micro'"),
        (lambda: purity(Y_SMALL, [0, 1]), r"goes_right has shape \(2,\)"),
        (lambda: purity(Y_SMALL, [0, 1, 1], [1.0, 2.0]), r"example_weight has shape \(2,\), expected \(3,\)"),
        (lambda: purity(Y_SMALL[:0], []), r"Y has shape \(0, 4\)"),
        (lambda: balance([]), r"goes_right has shape \(0,\)"),
        (lambda: balance([[True]]), r"goes_right has shape \(1, 1\)"),
        (lambda: balance([0.5, 1.5]), "booleans or probabilities from 0 to 1"),
        (lambda: balance([0.5, np.nan]), "booleans or probabilities from 0 to 1"),
        (lambda: balance([0.5], [-1.0]), "example_weight must hold finite values"),
        (lambda: balance([0.5], [np.nan]), "example_weight must hold finite values"),
        (lambda: balance([0.5], [0.0]), "and not only zeros"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
