"""A slow, plain oracle of lists and sets for the metrics, random cases to compare them on, and one case by hand."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from labelprism.metrics import ndcg_at_k, precision_at_k, psndcg_at_k, psp_at_k, recall_at_k

EXACT = {"rel": 0, "abs": 1e-9, "nan_ok": True}

# Row 0 has labels 0 and 2, row 1 has label 1, row 2 has none.
Y_SMALL = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
IDS_SMALL = np.array([[2, 3, 0], [0, -1, 1], [3, 1, 2]])


# ---- The oracle ----


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
