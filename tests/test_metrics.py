from __future__ import annotations

import math
import runpy
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism.metrics import (
    BootstrapInterval,
    balance,
    bootstrap_difference,
    coverage_at_k,
    evaluate,
    f1_at_k,
    filter_recall,
    inverse_propensity,
    ndcg_at_k,
    precision_at_k,
    psndcg_at_k,
    psp_at_k,
    purity,
    recall_at_k,
)

EXACT = {"rel": 0, "abs": 1e-9, "nan_ok": True}
PEER_FILE = Path(__file__).resolve().parents[2] / "shared" / "peers" / "xmetrics.py"


# ---- A slow, plain oracle: lists and sets only ----


def oracle_hits(truth: set[int], ranking: list[int], k: int) -> list[tuple[int, int]]:
    """The (rank from 1, label) pairs of the hits; a repeated label counts at its first rank."""
    seen: set[int] = set()
    hits = []
    for rank, label in enumerate(ranking[:k], start=1):
        if label in truth and label not in seen:
            hits.append((rank, label))
        seen.add(label)
    return hits


def oracle_dcg(gains_at_rank: list[tuple[int, float]]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in gains_at_rank)


def quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else float("nan")


def oracle_parts(
    metric: str, truths: list[set[int]], rankings: list[list[int]], k: int, weights: list[float]
) -> list[tuple[float, float]]:
    """Numerator and denominator of every row."""
    parts = []
    for truth, ranking in zip(truths, rankings, strict=True):
        hits = oracle_hits(truth, ranking, k)
        best = list(enumerate(sorted((weights[label] for label in truth), reverse=True)[:k], start=1))
        if metric == "precision":
            part = (len(hits), k)
        elif metric == "recall":
            part = (len(hits) / len(truth), 1) if truth else (0, 0)
        elif metric == "ndcg":
            ideal = oracle_dcg([(rank, 1) for rank, _ in best])
            part = (oracle_dcg([(rank, 1) for rank, _ in hits]) / ideal if truth else 0, 1)
        elif metric == "psp":
            part = (sum(weights[label] for _, label in hits), sum(weight for _, weight in best))
        else:
            part = (oracle_dcg([(rank, weights[label]) for rank, label in hits]), oracle_dcg(best))
        parts.append((float(part[0]), float(part[1])))
    return parts


def oracle_metric(
    metric: str, truths: list[set[int]], rankings: list[list[int]], k: int, weights: list[float]
) -> float:
    parts = oracle_parts(metric, truths, rankings, k, weights)
    return quotient(sum(a for a, _ in parts), sum(b for _, b in parts))


def oracle_coverage(truths: list[set[int]], rankings: list[list[int]], k: int) -> float:
    occurring = set().union(*truths)
    found = set().union(*(truth & set(ranking[:k]) for truth, ranking in zip(truths, rankings, strict=True)))
    return quotient(len(found), len(occurring))


def oracle_f1(truths: list[set[int]], rankings: list[list[int]], k: int, average: str) -> float:
    predicted = [set(ranking[:k]) - {-1} for ranking in rankings]
    hits, total = {}, {}
    for label in set().union(*truths, *predicted):
        hits[label] = sum(label in t and label in p for t, p in zip(truths, predicted, strict=True))
        total[label] = sum((label in t) + (label in p) for t, p in zip(truths, predicted, strict=True))
    if average == "micro":
        return quotient(2 * sum(hits.values()), sum(total.values()))
    return quotient(sum(2 * hits[label] / total[label] for label in total), len(total))


def oracle_filter_recall(truths: list[set[int]], candidates: list[list[int]]) -> float:
    shares = [len(t & set(row)) / len(t) for t, row in zip(truths, candidates, strict=True) if t]
    return quotient(sum(shares), len(shares))


def oracle_ranking(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda label: (-scores[label], label))


# ---- Random cases ----


class Case(NamedTuple):
    truths: list[set[int]]
    rankings: list[list[int]]
    """Rows of one length, with -1 and with repeated labels."""
    scores: list[dict[int, float]]
    """Stored scores of each row, with ties, zeros and negative ones."""
    weights: list[float]
    k: int

    @property
    def n_labels(self) -> int:
        return len(self.weights)

    @property
    def Y(self) -> sp.csr_array:  # noqa: N802
        return to_csr([dict.fromkeys(truth, 1.0) for truth in self.truths], self.n_labels)

    @property
    def ids(self) -> np.ndarray:
        return np.array(self.rankings, dtype=np.int64).reshape(len(self.truths), -1)

    @property
    def score_matrix(self) -> sp.csr_array:
        return to_csr(self.scores, self.n_labels)


def to_csr(rows: list[dict[int, float]], n_labels: int) -> sp.csr_array:
    """Keep stored zeros, and store each row backwards so that nobody relies on sorted columns."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    items = [item for row in rows for item in sorted(row.items(), reverse=True)]
    data = np.array([score for _, score in items], dtype=np.float64)
    return sp.csr_array((data, np.array([label for label, _ in items], dtype=np.int64), indptr), (len(rows), n_labels))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_labels = draw(st.integers(1, 8))
    n = draw(st.integers(1, 6))
    width = draw(st.integers(0, 7))
    label = st.integers(0, n_labels - 1)
    prediction = st.integers(-1, n_labels - 1)
    score = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 0.5 + 2**-40, 3.0])
    return Case(
        truths=draw(st.lists(st.sets(label), min_size=n, max_size=n)),
        rankings=draw(st.lists(st.lists(prediction, min_size=width, max_size=width), min_size=n, max_size=n)),
        scores=draw(st.lists(st.dictionaries(label, score), min_size=n, max_size=n)),
        weights=draw(st.lists(st.sampled_from([0.5, 1.0, 2.25, 7.0]), min_size=n_labels, max_size=n_labels)),
        k=draw(st.integers(1, 9)),
    )


def ratio_metrics(Y: Any, predicted: Any, k: int, weights: Any) -> dict[str, float]:
    return {
        "precision": precision_at_k(Y, predicted, k),
        "recall": recall_at_k(Y, predicted, k),
        "ndcg": ndcg_at_k(Y, predicted, k),
        "psp": psp_at_k(Y, predicted, k, weights),
        "psndcg": psndcg_at_k(Y, predicted, k, weights),
    }


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

# Row 0 has labels 0 and 2, row 1 has label 1, row 2 has none.
Y_SMALL = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
IDS_SMALL = np.array([[2, 3, 0], [0, -1, 1], [3, 1, 2]])
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
    purity(Y, np.array([True, False]))
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
    assert math.isnan(purity(Y, [True, False, True]))
    assert bootstrap_difference(Y, ids, ids, "recall") == pytest.approx((np.nan, np.nan, np.nan, 0.95), nan_ok=True)


def test_results_are_python_floats_under_the_usual_names() -> None:
    result = evaluate(Y_SMALL, IDS_SMALL, Y_SMALL)
    names = {f"{name}@{k}" for name in ("P", "nDCG", "recall", "coverage", "PSP", "PSnDCG") for k in (1, 3, 5)}
    assert set(result) == names
    assert {type(value) for value in result.values()} == {float}
    assert type(purity(Y_SMALL, [0, 1, 1])) is type(balance([0, 1, 1])) is float


# ---- Splits ----


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


# ---- Bootstrap ----


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
        purity(Y, rng.random(n))
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
        (
            lambda: purity(Y_SMALL, [0, 1, 1], average="micro"),
            "must be one of 'weighted', 'macro'; got 'micro'",
        ),
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
        (lambda: inverse_propensity(np.ones((2, 3))), "Y_train has 2 rows; the propensity model needs at least 3"),
        (lambda: inverse_propensity(Y_SMALL, A=-1.0), "A must be at least 0 and B above 0"),
        (lambda: inverse_propensity(Y_SMALL, B=0.0), "A must be at least 0 and B above 0"),
        (lambda: inverse_propensity(Y_SMALL, A=np.nan), "A must be at least 0 and B above 0"),
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
        ({"predicted_a": IDS_SMALL[:2]}, r"predicted_a has shape \(2, 3\)"),
        ({"predicted_b": IDS_SMALL[:2]}, r"predicted_b has shape \(2, 3\)"),
    ],
)
def test_bad_bootstrap_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_difference(**({"Y_true": Y_SMALL, "predicted_a": IDS_SMALL, "predicted_b": IDS_SMALL} | arguments))
