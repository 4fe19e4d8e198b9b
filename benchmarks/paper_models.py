"""Trees, heads and baselines of the paper's tables, and what is measured of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from paper_data import Split
from timing import best_of

from labelprism import metrics
from labelprism._arrays import is_sparse
from labelprism.estimator import FilterRoutes
from labelprism.features import RandomFourierFeatures
from labelprism.filters import AllLabels, Filter, MostFrequent, SpectralTree
from labelprism.filters.base import mean_recall
from labelprism.heads import Head, LabelEmbedding, LogisticHead, LowRankHead

RANKED = 5  # labels asked for at prediction
_ROWS_AT_ONCE = 20_000  # rows of a kernelised embedding that are made at once at prediction
_HELD_OUT = 2000  # training rows, at most, on which the ridge of the embedding is chosen
_RIDGES = (0.01, 0.1, 1.0, 10.0)
_LARGEST_EMBEDDING = 6 << 30  # bytes of a dense training matrix that are still made


@dataclass(frozen=True)
class Settings:
    """What the command line says of all models."""

    passes: int = 20
    baseline_passes: int = 20
    """0: without the baseline, whose regressions over all labels may take too long."""
    jobs: int = -1
    seed: int = 0
    max_depth: int = 14
    noise: str | None = None
    hash_bits: int = 15
    embedding_rank: int | None = None
    ridge: float | None = None
    fourier_features: int = 4000

    def common(self) -> dict[str, int]:
        """Return the parameters that every estimator has."""
        return {"n_jobs": self.jobs, "random_state": self.seed}


def say(*words: object) -> None:
    """Report progress on standard error."""
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def budget(n_labels: int) -> int:
    """Return k as in the paper: 25 for ALOI's 1,000 labels, 4000 for ODP's 100,000 and more, and 4% in between."""
    return 25 if n_labels <= 1000 else min(4000, round(0.04 * n_labels))


# ------------------------------------------------------------------------------------------------------------- models


class Model(NamedTuple):
    """F and H, fitted, with a map of the examples that comes before both."""

    filter: Filter
    head: Head
    features: Callable[[Any], Any]
    train_seconds: float

    def topk(self, X: Any, k: int = RANKED) -> Any:
        """Return the best labels of each row; (n, k)."""
        if self.features is identity:
            return self.head.topk(X, self.filter.route(X), k)[0]
        parts = (self.features(X[begin : begin + _ROWS_AT_ONCE]) for begin in range(0, X.shape[0], _ROWS_AT_ONCE))
        return np.concatenate([self.head.topk(Z, self.filter.route(Z), k)[0] for Z in parts])


def identity(X: Any) -> Any:
    """Return the examples as they are."""
    return X


def grown_tree(data: Split, k: int, settings: Settings, **parameters: Any) -> SpectralTree:
    """Grow the paper's tree; see `timed_tree`."""
    return timed_tree(data, k, settings, **parameters)[0]


def timed_tree(data: Split, k: int, settings: Settings, **parameters: Any) -> tuple[SpectralTree, float]:
    """Return the paper's tree and the seconds to grow it; dense rows, which keep their norms, get the sqrt noise."""
    noise = settings.noise or ("paper" if is_sparse(data.X) else "sqrt")
    defaults: dict[str, Any] = {"max_depth": settings.max_depth, "noise": noise, "verbose": False, **settings.common()}
    start = time.perf_counter()
    tree = SpectralTree(k, **(defaults | parameters)).fit(data.X, data.Y)
    seconds = time.perf_counter() - start
    say(f"tree of {tree.leaf_nodes_.size} leaves, k = {k}: {seconds:.1f} s")
    return tree, seconds


def logistic_head(data: Split, settings: Settings, **parameters: Any) -> Head:
    """Return the paper's logistic regression, its features hashed where there are more than the table has rows."""
    n_hashed = 1 << settings.hash_bits
    hashed = n_hashed if data.X.shape[1] > n_hashed else None
    return LogisticHead(passes=settings.passes, n_hashed_features=hashed, **settings.common(), **parameters)


def low_rank_head(settings: Settings, **parameters: Any) -> Head:
    """Return the paper's rank-50 logistic regression."""
    return LowRankHead(rank=50, passes=settings.passes, **settings.common(), **parameters)


def fitted(data: Split, filter: Filter, head: Head, name: str) -> Model:
    """Fit a head to the candidates of a fitted filter."""
    start = time.perf_counter()
    head.fit(data.X, data.Y, FilterRoutes(filter, data.X))
    seconds = time.perf_counter() - start
    say(f"{name}: {seconds:.1f} s")
    return Model(filter, head, identity, seconds)


def embedded_baseline(data: Split, settings: Settings, rank: int, loss: str, n_fourier: int = 0) -> Model:
    """Fit the baseline of Mineiro and Karampatziakis 2015: label embedding, then a regression over all labels.

    Parameters
    ----------
    data : Split
    settings : Settings
    rank : int
        Of the embedding.
    loss : {"softmax", "logistic"}
    n_fourier : int
        Random Fourier features of the embedding; 0 for none.
    """
    width = n_fourier or rank
    if 4 * width * data.X.shape[0] > _LARGEST_EMBEDDING:
        raise ValueError(
            f"the embedded examples would take {4e-9 * width * data.X.shape[0]:.0f} GB; take fewer rows (--rows), "
            "a smaller --rank or fewer --fourier features"
        )
    ridge = settings.ridge or best_ridge(data, settings, rank)
    start = time.perf_counter()
    embedding = LabelEmbedding(rank, ridge=ridge, **settings.common()).fit(data.X, data.Y)
    kernel = RandomFourierFeatures(n_fourier, **settings.common()) if n_fourier else None
    Z = embedding.transform(data.X)
    say(f"label embedding of rank {Z.shape[1]}: {time.perf_counter() - start:.1f} s")
    if kernel is not None:
        Z = kernel.fit_transform(Z)

    def features(X: Any) -> Any:
        return embedding.transform(X) if kernel is None else kernel.transform(embedding.transform(X))

    everything = AllLabels().fit(Z, data.Y)
    head = LogisticHead(passes=settings.baseline_passes, loss=loss, **settings.common())
    head.fit(Z, data.Y, FilterRoutes(everything, Z))
    seconds = time.perf_counter() - start
    say(f"rank-{embedding.projection_.shape[1]} baseline: {seconds:.1f} s")
    return Model(everything, head, features, seconds)


def best_ridge(data: Split, settings: Settings, rank: int) -> float:
    """Choose the ridge of the label embedding on training rows that are held out; test rows are not looked at.

    The best ridge differs a hundredfold between data sets; the baseline shall not suffer by it. Judged is P@1 of the
    regression's own scores V W'x, which need no classifier.
    """
    n = data.X.shape[0]
    order = np.random.default_rng(settings.seed).permutation(n)
    held, kept = np.split(order, [min(_HELD_OUT, n // 5)])
    if not held.size or not data.Y[kept].nnz:
        return 1.0
    scores = {}
    for ridge in _RIDGES:
        embedding = LabelEmbedding(rank, ridge=ridge, **settings.common()).fit(data.X[kept], data.Y[kept])
        blocks = np.array_split(embedding.transform(data.X[held]), -(-held.size // 100))  # bounds memory by 100 c
        best = np.concatenate([(block @ embedding.embedding_.T).argmax(axis=1) for block in blocks])
        scores[ridge] = metrics.precision_at_k(data.Y[held], best[:, None], 1)
    say("P@1 on held-out training rows by ridge:", ", ".join(f"{r:g}: {percent(p)}" for r, p in scores.items()))
    return max(scores, key=lambda ridge: scores[ridge])


# ------------------------------------------------------------------------------------------------------- measurements


class Quality(NamedTuple):
    """What is measured of a model; shares, not percentages."""

    precision: tuple[float, float, float]
    """P@1, P@3, P@5 on test examples; the first is the accuracy where rows have one label."""
    train_precision: float
    """P@1 on training examples."""
    examples_per_second: float
    """Routing and ranking of the test examples, the best of three runs."""


def measured(model: Model | None, data: Split, train: bool = False) -> Quality:
    """Measure a model on test examples and, if wanted, on training examples; nothing of a baseline left out."""
    if model is None:
        return Quality((np.nan, np.nan, np.nan), np.nan, np.nan)
    found = model.topk(data.X_test)
    seconds = best_of(lambda: model.topk(data.X_test), 3)
    first, third, fifth = (metrics.precision_at_k(data.Y_test, found, k) for k in (1, 3, 5))
    on_train = metrics.precision_at_k(data.Y, model.topk(data.X, 1), 1) if train else float("nan")
    return Quality((first, third, fifth), on_train, data.X_test.shape[0] / seconds)


class Recall(NamedTuple):
    """The share of an example's labels among its candidates, on training and on test examples."""

    train: float
    test: float


def recall(filter: Filter, data: Split) -> Recall:
    """Measure the recall of a filter."""
    table = filter.leaf_candidates_
    return Recall(
        mean_recall(table, filter.route(data.X), data.Y), mean_recall(table, filter.route(data.X_test), data.Y_test)
    )


def frequent_recall(data: Split, k: int) -> Recall:
    """Measure the recall of the k most frequent labels."""
    return recall(MostFrequent(k).fit(data.X, data.Y), data)


# ------------------------------------------------------------------------------------------------------------- tables


def percent(share: float, digits: int = 2) -> str:
    """Write a share as a percentage; nothing where there is none."""
    return "" if np.isnan(share) else f"{100 * share:.{digits}f}%"


def speed(examples_per_second: float) -> str:
    """Write a speed with three digits that count; nothing where there is none."""
    if np.isnan(examples_per_second):
        return ""
    digits = max(0, int(np.floor(np.log10(max(examples_per_second, 1)))) - 2)
    return f"{round(examples_per_second, -digits):,.0f} ex/s"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |") + "\n"
