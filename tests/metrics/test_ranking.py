"""The metrics of rankings, against the oracle, against the shared peer file and by hand."""

from __future__ import annotations

import math
import runpy
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from metric_oracle import (
    EXACT,
    IDS_SMALL,
    Y_SMALL,
    Case,
    cases,
    oracle_coverage,
    oracle_f1,
    oracle_filter_recall,
    oracle_metric,
    oracle_ranking,
    ratio_metrics,
)

from labelprism.metrics import (
    coverage_at_k,
    evaluate,
    f1_at_k,
    filter_recall,
    inverse_propensity,
    ndcg_at_k,
    precision_at_k,
    psndcg_at_k,
    psp_at_k,
    recall_at_k,
)

PEER_FILE = Path(__file__).resolve().parents[3] / "shared" / "peers" / "xmetrics.py"


@pytest.mark.parametrize("form", ["ids", "scores"])
@given(case=cases())
def test_all_ranking_metrics_equal_the_oracle(form: str, case: Case) -> None:
    if form == "ids":
        predicted, rankings = case.ids, case.rankings
    else:
        predicted, rankings = case.score_matrix, [oracle_ranking(row) for row in case.scores]
    for metric, value in ratio_metrics(case.Y, predicted, case.k, case.weights).items():
        expected = oracle_metric(metric, case.truths, rankings, case.k, case.weights)
        assert value == pytest.approx(expected, **EXACT), metric
    expected_coverage = oracle_coverage(case.truths, rankings, case.k)
    assert coverage_at_k(case.Y, predicted, case.k) == pytest.approx(expected_coverage, **EXACT)
    assert filter_recall(case.Y, predicted) == pytest.approx(oracle_filter_recall(case.truths, rankings), **EXACT)
    for average in ("macro", "micro"):
        expected_f1 = oracle_f1(case.truths, rankings, case.k, average)
        assert f1_at_k(case.Y, predicted, case.k, average) == pytest.approx(expected_f1, **EXACT)


@given(case=cases())
def test_evaluate_equals_the_single_functions(case: Case) -> None:
    train = sp.vstack([case.Y, case.Y, case.Y])
    weights = inverse_propensity(train)
    ks = (case.k, 1, 4)
    expected = {}
    for k in ks:
        values = ratio_metrics(case.Y, case.ids, k, weights)
        names = {"precision": "P", "recall": "recall", "ndcg": "nDCG", "psp": "PSP", "psndcg": "PSnDCG"}
        expected |= {f"{names[metric]}@{k}": value for metric, value in values.items()}
        expected[f"coverage@{k}"] = coverage_at_k(case.Y, case.ids, k)
    assert evaluate(case.Y, case.ids, train, ks) == pytest.approx(expected, **EXACT)
    unscored = {key: value for key, value in expected.items() if not key.startswith("PS")}
    assert evaluate(case.Y, case.ids, ks=ks) == pytest.approx(unscored, **EXACT)


# ---- The shared file that judges other libraries ----


@pytest.fixture(scope="module")
def peer_metrics() -> Callable[..., dict[str, float]]:
    if not PEER_FILE.exists():
        pytest.skip("shared/peers/xmetrics.py, next to the repository, is not on this machine")
    function: Callable[..., dict[str, float]] = runpy.run_path(str(PEER_FILE))["metrics"]
    return function


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_shared_peer_metrics(peer_metrics: Callable[..., dict[str, float]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, c, width = int(rng.integers(1, 200)), int(rng.integers(1, 40)), int(rng.integers(1, 130))
    Y = sp.random_array((n, c), density=0.1, rng=rng, format="csr")
    train = sp.random_array((max(n, 3), c), density=0.1, rng=rng, format="csr")
    ids = rng.integers(-1, c, size=(n, width))
    peer = peer_metrics(ids, train, Y)
    ours = evaluate(Y, ids, train, ks=(1, 3, 5, 10, 100))
    names = {f"p_at_{k}": f"P@{k}" for k in (1, 3, 5)} | {f"psp{k}": f"PSP@{k}" for k in (1, 3, 5)}
    names |= {"ndcg5": "nDCG@5", "recall10": "recall@10", "recall100": "recall@100"}
    assert {name: ours[name] for name in names.values()} == pytest.approx(
        {ours_name: peer[name] for name, ours_name in names.items()}, **EXACT
    )


# ---- By hand ----

WEIGHTS_SMALL = np.array([1.0, 2.0, 4.0, 8.0])


def test_precision_recall_by_hand() -> None:
    assert precision_at_k(Y_SMALL, IDS_SMALL, 1) == pytest.approx(1 / 3)
    assert precision_at_k(Y_SMALL, IDS_SMALL, 3) == pytest.approx(3 / 9)
    assert precision_at_k(Y_SMALL, IDS_SMALL, 10) == pytest.approx(3 / 30)
    assert recall_at_k(Y_SMALL, IDS_SMALL, 1) == pytest.approx((1 / 2 + 0) / 2)
    assert recall_at_k(Y_SMALL, IDS_SMALL, 3) == pytest.approx(1.0)


def test_ndcg_by_hand() -> None:
    row_0 = (1 + 1 / 2) / (1 + 1 / math.log2(3))
    row_1 = 1 / 2
    assert ndcg_at_k(Y_SMALL, IDS_SMALL, 3) == pytest.approx((row_0 + row_1 + 0) / 3)
    # The ideal of one rank is one label, although row 0 has two.
    assert ndcg_at_k(Y_SMALL, IDS_SMALL, 1) == pytest.approx((1 + 0 + 0) / 3)


def test_propensity_scored_metrics_by_hand() -> None:
    assert psp_at_k(Y_SMALL, IDS_SMALL, 1, WEIGHTS_SMALL) == pytest.approx(4 / (4 + 2))
    assert psp_at_k(Y_SMALL, IDS_SMALL, 3, WEIGHTS_SMALL) == pytest.approx(1.0)
    attained = (4 + 1 / 2) + 2 / 2
    best = (4 + 1 / math.log2(3)) + 2
    assert psndcg_at_k(Y_SMALL, IDS_SMALL, 3, WEIGHTS_SMALL) == pytest.approx(attained / best)


def test_coverage_f1_and_filter_recall_by_hand() -> None:
    assert coverage_at_k(Y_SMALL, IDS_SMALL, 1) == pytest.approx(1 / 3)
    assert coverage_at_k(Y_SMALL, IDS_SMALL, 3) == pytest.approx(1.0)
    # At k = 1: label 0 true once and predicted once in vain, 1 missed, 2 right, 3 predicted in vain.
    assert f1_at_k(Y_SMALL, IDS_SMALL, 1) == pytest.approx((0 + 0 + 1 + 0) / 4)
    assert f1_at_k(Y_SMALL, IDS_SMALL, 1, average="micro") == pytest.approx(2 * 1 / (3 + 3))
    assert filter_recall(Y_SMALL, IDS_SMALL[:, :2]) == pytest.approx((1 / 2 + 0) / 2)


def test_filter_recall_takes_stored_entries_whatever_their_value() -> None:
    data = [0.0, -1.0, np.nan]
    candidates = sp.csr_array((data, [0, 1, 2], [0, 1, 3, 3]), shape=(3, 4))
    assert filter_recall(Y_SMALL, candidates) == pytest.approx((1 / 2 + 1) / 2)


def test_inverse_propensity_by_hand() -> None:
    Y = sp.csr_array(np.array([[1, 0], [5, 0], [1, 1], [0, 0]]))
    C = (math.log(4) - 1) * 2.5**0.55
    weights = inverse_propensity(Y)
    assert weights.dtype == np.float64
    assert weights == pytest.approx([1 + C * 4.5**-0.55, 1 + C * 2.5**-0.55])
    C = (math.log(4) - 1) * 1.4**0.5
    assert inverse_propensity(Y, A=0.5, B=0.4) == pytest.approx([1 + C * 3.4**-0.5, 1 + C * 1.4**-0.5])


def test_repeated_prediction_counts_once_at_its_first_rank() -> None:
    Y, ids = np.array([[0, 1, 1]]), np.array([[0, 1, 1, 1]])
    assert precision_at_k(Y, ids, 4) == pytest.approx(1 / 4)
    assert recall_at_k(Y, ids, 4) == pytest.approx(1 / 2)
    assert ndcg_at_k(Y, ids, 4) == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert f1_at_k(Y, ids, 4, average="micro") == pytest.approx(2 * 1 / (2 + 2))


def test_scores_rank_by_value_then_by_label() -> None:
    scores = sp.csr_array(([-3.0, 0.0, -1.0, -1.0], [0, 3, 2, 1], [0, 4]), shape=(1, 5))
    for rank, label in enumerate([3, 1, 2, 0], start=1):
        Y = np.zeros((1, 5))
        Y[0, label] = 1
        assert recall_at_k(Y, scores, rank) == 1.0
        assert rank == 1 or recall_at_k(Y, scores, rank - 1) == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_scores_of_any_dtype_and_format(dtype: Any, form: Any) -> None:
    scores = form(np.array([[0, 9, 3, 0], [7, 0, 8, 1]], dtype=dtype))
    order = [[1, 2], [0, 2]] if dtype is np.bool_ else [[1, 2], [2, 0]]
    Y = np.array([[0, 0, 1, 0], [1, 0, 0, 0]])
    assert evaluate(Y, scores, ks=(1, 2)) == evaluate(Y, np.array(order), ks=(1, 2))


def test_scores_keep_their_precision_and_infinities() -> None:
    scores = sp.csr_array(np.array([[1.0, 1.0 + 1e-12, -np.inf, np.inf]]))
    expected = evaluate(np.eye(1, 4), np.array([[3, 1, 0, 2]]), ks=(1, 2, 3))
    assert evaluate(np.eye(1, 4), scores, ks=(1, 2, 3)) == expected
    assert expected["P@3"] > expected["P@2"] == 0


def test_duplicate_entries_of_scores_are_summed_as_scipy_reads_them() -> None:
    scores = sp.csr_array(([1.0, 3.0, 1.5, 1.6], [0, 1, 2, 2], [0, 4]), shape=(1, 3))
    assert precision_at_k(np.array([[0, 0, 1]]), scores, 1) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_ids_and_scores_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, c, width = 300, 50, 12
    Y = sp.random_array((n, c), density=0.1, rng=rng, format="csr")
    ids = rng.permuted(np.tile(np.arange(c), (n, 1)), axis=1)[:, :width]
    # Rows of different lengths: scores end where the ids have -1.
    ids[np.arange(width) >= rng.integers(0, width + 1, size=n)[:, np.newaxis]] = -1
    rows, ranks = np.nonzero(ids >= 0)
    scores = sp.csr_array((5.0 - ranks, (rows, ids[rows, ranks])), shape=(n, c))
    ks = (1, 3, 5, 20)
    assert evaluate(Y, ids, Y, ks) == pytest.approx(evaluate(Y, scores, Y, ks), **EXACT)
    assert filter_recall(Y, ids) == pytest.approx(filter_recall(Y, scores), **EXACT)
    assert f1_at_k(Y, ids, 5) == pytest.approx(f1_at_k(Y, scores, 5), **EXACT)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_truth_in_any_form(form: Any) -> None:
    assert evaluate(form(Y_SMALL), IDS_SMALL) == evaluate(Y_SMALL, IDS_SMALL)


def test_stored_zeros_and_other_values_in_the_truth() -> None:
    Y = sp.csr_array(([2.0, 0.0], [0, 1], [0, 2]), shape=(1, 2))
    assert recall_at_k(Y, np.array([[0]]), 1) == 1.0
    assert recall_at_k(Y, np.array([[1]]), 1) == 0.0


def test_inputs_stay_as_they_were() -> None:
    Y = sp.csr_array(([2.0, 0.0, 1.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    scores = sp.csr_array(([2.0, 1.0, 4.0, 1.0], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    ids = np.array([[2, 0], [1, -1]])
    arrays = [Y.data, Y.indices, Y.indptr, scores.data, scores.indices, scores.indptr, ids]
    before = [array.copy() for array in arrays]
    for predicted in (scores, ids):
        evaluate(Y, predicted, sp.vstack([Y, Y]))
        f1_at_k(Y, predicted, 2)
        filter_recall(Y, predicted)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_metrics_are_nan_where_undefined_and_zero_where_only_empty() -> None:
    Y, ids = np.zeros((3, 2)), np.full((3, 2), -1)
    result = evaluate(Y, ids, np.ones((3, 2)), ks=(1,))
    assert result["P@1"] == result["nDCG@1"] == 0.0
    for name in ("recall@1", "PSP@1", "PSnDCG@1", "coverage@1"):
        assert math.isnan(result[name])
    assert math.isnan(f1_at_k(Y, ids, 1))
    assert math.isnan(f1_at_k(Y, ids, 1, average="micro"))
    assert math.isnan(filter_recall(Y, ids))


def test_results_are_python_floats_under_the_usual_names() -> None:
    result = evaluate(Y_SMALL, IDS_SMALL, Y_SMALL)
    names = {f"{name}@{k}" for name in ("P", "nDCG", "recall", "coverage", "PSP", "PSnDCG") for k in (1, 3, 5)}
    assert set(result) == names
    assert {type(value) for value in result.values()} == {float}


# ---- Size ----


@pytest.mark.parametrize("form", ["ids", "scores"])
def test_a_million_labels_need_no_dense_matrix(form: str) -> None:
    n, c = 2_000, 1_000_000
    rng = np.random.default_rng(0)
    labels = rng.integers(c, size=(n, 3))
    Y = sp.csr_array((np.ones(3 * n), (np.repeat(np.arange(n), 3), labels.ravel())), shape=(n, c))
    predicted: Any = np.hstack([labels[:, :1], rng.integers(c, size=(n, 4))])
    if form == "scores":
        scores = np.tile([5.0, 4.0, 3.0, 2.0, 1.0], n)
        predicted = sp.csr_array((scores, (np.repeat(np.arange(n), 5), predicted.ravel())), shape=(n, c))
    tracemalloc.start()
    try:
        result = evaluate(Y, predicted, Y, ks=(1, 5, c))
        f1_at_k(Y, predicted, c)
        filter_recall(Y, predicted)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result["P@1"] == 1.0
    # Even one byte per row and label would be 2,000 MB.
    assert peak < 200e6


def test_one_full_row_among_short_ones_needs_no_dense_matrix() -> None:
    n, c = 2_000, 1_000_000
    indptr = np.concatenate([[0, c], c + np.arange(1, n)])
    scores = sp.csr_array((np.ones(indptr[-1]), np.append(np.arange(c), np.arange(n - 1)), indptr), shape=(n, c))
    Y = sp.csr_array((np.ones(n), (np.arange(n), np.append(c - 1, np.arange(n - 1)))), shape=(n, c))
    tracemalloc.start()
    try:
        # All scores tie, so that the true label of row 0, the last one, comes last.
        assert recall_at_k(Y, scores, c - 1) == pytest.approx((n - 1) / n)
        assert recall_at_k(Y, scores, c) == 1.0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500e6


# ---- Bad inputs ----


def with_nan() -> sp.csr_array:
    return sp.csr_array(np.array([[0, 1.0, 0, 0], [0, 0, np.nan, 0], [0, 0, 0, 1.0]]))


def broken_csr() -> sp.csr_array:
    matrix = sp.csr_array(Y_SMALL.astype(float))
    matrix.indices[0] = 9
    return matrix


@pytest.mark.parametrize("entry_point", [precision_at_k, recall_at_k, ndcg_at_k, coverage_at_k, f1_at_k])
@pytest.mark.parametrize(
    ("Y", "predicted", "k", "message"),
    [
        (Y_SMALL, IDS_SMALL, 0, "k must be an integer of at least 1, got 0"),
        (Y_SMALL, IDS_SMALL, 1.0, r"k must be an integer of at least 1, got 1\.0"),
        (Y_SMALL, IDS_SMALL, True, "k must be an integer of at least 1, got True"),
        (Y_SMALL, IDS_SMALL[:2], 1, r"predicted has shape \(2, 3\), expected \(3, K\)"),
        (Y_SMALL, IDS_SMALL[:, 0], 1, r"predicted has shape \(3,\), expected \(3, K\)"),
        (Y_SMALL, IDS_SMALL / 2, 1, "label ids as integers, got dtype float64; pass scores as a scipy sparse"),
        (Y_SMALL, IDS_SMALL > 1, 1, "label ids as integers, got dtype bool"),
        (Y_SMALL, IDS_SMALL - 1, 1, "holds -2 in row 1, column 1; label ids go from 0 to 3, and -1 means"),
        (Y_SMALL, IDS_SMALL + 1, 1, "holds 4 in row 0, column 1; label ids go from 0 to 3"),
        (Y_SMALL, sp.csr_array((3, 5)), 1, r"predicted has shape \(3, 5\) and Y_true \(3, 4\)"),
        (Y_SMALL, sp.csr_array((2, 4)), 1, r"predicted has shape \(2, 4\) and Y_true \(3, 4\)"),
        (Y_SMALL, sp.csr_array((3, 4), dtype=complex), 1, "must hold real numbers, got dtype complex128"),
        (Y_SMALL, with_nan(), 1, "predicted holds NaN in row 1, which cannot be ranked"),
        (Y_SMALL, broken_csr(), 1, "predicted is not a valid CSR matrix"),
        (Y_SMALL[:0], IDS_SMALL[:0], 1, r"Y_true has shape \(0, 4\); at least one row and one label"),
        (Y_SMALL[:, :0], IDS_SMALL, 1, r"Y_true has shape \(3, 0\); at least one row and one label"),
        (Y_SMALL[0], IDS_SMALL, 1, "Y_true must have two dimensions"),
        (with_nan(), IDS_SMALL, 1, "Y_true holds NaN"),
    ],
)
def test_bad_rankings_are_named(entry_point: Any, Y: Any, predicted: Any, k: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry_point(Y, predicted, k)


def test_unsigned_ids_are_fine() -> None:
    ids = np.array([[2], [1], [0]], dtype=np.uint64)
    assert precision_at_k(Y_SMALL, ids, 1) == pytest.approx(2 / 3)


@pytest.mark.parametrize("entry_point", [psp_at_k, psndcg_at_k])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"inverse_propensity has shape \(3,\), expected \(4,\)"),
        (np.ones((4, 1)), r"inverse_propensity has shape \(4, 1\), expected \(4,\)"),
        ([1.0, 1.0, 1.0, np.nan], "must be positive and finite"),
        ([1.0, 1.0, 1.0, np.inf], "must be positive and finite"),
        ([1.0, 1.0, 1.0, 0.0], "must be positive and finite"),
        (None, "inverse_propensity is needed"),
    ],
)
def test_bad_weights_are_named(entry_point: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry_point(Y_SMALL, IDS_SMALL, 1, weights)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f1_at_k(Y_SMALL, IDS_SMALL, 1, average="weighted"), "average must be one of 'macro', 'micro'; got"),
        (lambda: inverse_propensity(np.ones((2, 3))), "Y_train has 2 rows; the propensity model needs at least 3"),
        (lambda: inverse_propensity(Y_SMALL, A=-1.0), "A must be at least 0 and B above 0"),
        (lambda: inverse_propensity(Y_SMALL, B=0.0), "A must be at least 0 and B above 0"),
        (lambda: inverse_propensity(Y_SMALL, A=np.nan), "A must be at least 0 and B above 0"),
        (lambda: inverse_propensity(Y_SMALL, A="x"), "A must be at least 0 and B above 0.*got A='x'"),
        (lambda: inverse_propensity(Y_SMALL, B=None), "A must be at least 0 and B above 0.*B=None"),
        (lambda: evaluate(Y_SMALL, IDS_SMALL, Y_SMALL, A="x"), "A must be at least 0 and B above 0"),
        (lambda: evaluate(Y_SMALL, IDS_SMALL, ks=5), "ks must be a sequence.*got 5"),
        (lambda: evaluate(Y_SMALL, IDS_SMALL, ks=None), "ks must be a sequence.*got None"),
        (lambda: evaluate(Y_SMALL, IDS_SMALL, ks=()), "ks is empty"),
        (lambda: evaluate(Y_SMALL, IDS_SMALL, ks=(1, 0)), "k must be an integer of at least 1, got 0"),
        (lambda: evaluate(Y_SMALL, IDS_SMALL, Y_SMALL[:, :3]), r"Y_train has 3 labels \(columns\), Y_true has 4"),
        (lambda: filter_recall(Y_SMALL, IDS_SMALL + 2), "candidates holds 4 in row 0, column 0"),
        (lambda: filter_recall(Y_SMALL, sp.csr_array((3, 3))), r"candidates has shape \(3, 3\) and Y_true \(3, 4\)"),
    ],
)
def test_other_bad_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
