"""The paper's Tables 4 to 7: tree and head against regressions over all labels, beside the paper's own numbers."""

from __future__ import annotations

import json
from pathlib import Path

from paper_data import Split
from paper_models import (
    Model,
    Quality,
    Settings,
    budget,
    embedded_baseline,
    fitted,
    frequent_recall,
    logistic_head,
    low_rank_head,
    measured,
    percent,
    say,
    speed,
    table,
    timed_tree,
)

from labelprism.filters import AllLabels, SpectralTree
from labelprism.heads import ConstantHead

PAPER_ALOI = {
    "model": ("Rank-50 LR", "Tree + Rank-50 LR"),
    "avg depth": ("", "13.94"),
    "avg leaf classifiers": ("", "24.09"),
    "train tree recall": ("", "98.1%"),
    "test tree recall": ("", "96.5%"),
    "test accuracy": ("91.12%", "91.03%"),
    "inference speed": ("125,000 ex/s", "41,000 ex/s"),
    "hyperplane evaluations an example": ("1000", "38"),
}
PAPER_ODP = {
    "model": ("Rank-300 LR", "Tree + LR"),
    "avg depth": ("", "13.98"),
    "avg leaf classifiers": ("", "3882"),
    "train tree recall": ("", "81.3%"),
    "test tree recall": ("", "50.4%"),
    "recall of the most frequent k, train": ("", "31.6%"),
    "recall of the most frequent k, test": ("", "29.3%"),
    "test accuracy": ("16.85%", "19.53%"),
    "inference speed": ("1,700 ex/s", "230 ex/s"),
}
PAPER_LSHTC = {
    "model": ("Rank-800 ILR", "Tree + ILR"),
    "avg depth": ("", "14"),
    "avg leaf classifiers": ("", "3998"),
    "train tree recall": ("", "86%"),
    "test tree recall": ("", "72%"),
    "recall of the most frequent k, train": ("", "33.8%"),
    "recall of the most frequent k, test": ("", "33.7%"),
    "test P@1": ("53.4%", "54.0%"),
    "inference speed": ("60 ex/s", "1,058 ex/s"),
}
PAPER_PRECISION = [
    ["FastXML (paper, LSHTC)", "49.35%", "32.69%", "24.03%", "2,000 ex/s (its authors')"],
    ["X1 (paper, LSHTC)", "55.57%", "33.84%", "24.07%", "125 ex/s (its authors')"],
    ["Tree + ILR, k = 4000 (paper, LSHTC)", "53.0%", "33.9%", "24.8%", "1,058 ex/s"],
    ["k = 6000 (paper, LSHTC)", "53.7%", "34.5%", "25.3%", "688 ex/s"],
    ["k = 12000 (paper, LSHTC)", "54.3%", "34.9%", "25.6%", "370 ex/s"],
]
# LOMTree (log_multi) and Recall Tree, as Vowpal Wabbit has them, from a file of results of other programs.
COMPARED_PEERS = {"log_multi": "LOMTree (Vowpal Wabbit)", "recall_tree": "Recall Tree (Vowpal Wabbit)"}


def aloi_table(data: Split, settings: Settings, k: int | None, peers: Path | None) -> str:
    """Return Table 4: flat rank-50 logistic regression against tree + rank-50 with weights of its own in each leaf."""
    everything = AllLabels().fit(data.X, data.Y)
    flat = fitted(data, everything, low_rank_head(settings), "flat rank-50 LR")
    tree, seconds = timed_tree(data, k or budget(data.Y.shape[1]), settings)
    model = fitted(data, tree, low_rank_head(settings, task="weights"), "tree + rank-50 LR")
    names = ("Rank-50 LR", "Tree + Rank-50 LR")
    return _multiclass_table(data, settings, flat, model, seconds, names, PAPER_ALOI) + peer_rows(data, peers)


def odp_table(data: Split, settings: Settings, k: int | None, peers: Path | None) -> str:
    """Return Table 5: logistic regression on a label embedding against tree + hashed logistic regression."""
    rank = settings.embedding_rank or 300
    flat = embedded_baseline(data, settings, rank, "softmax") if settings.baseline_passes else None
    tree, seconds = timed_tree(data, k or budget(data.Y.shape[1]), settings)
    model = fitted(data, tree, logistic_head(data, settings, task="bias"), "tree + LR")
    names = (f"Rank-{rank} LR", "Tree + LR")
    return _multiclass_table(data, settings, flat, model, seconds, names, PAPER_ODP) + peer_rows(data, peers)


def _multiclass_table(
    data: Split,
    settings: Settings,
    flat: Model | None,
    model: Model,
    tree_seconds: float,
    names: tuple[str, str],
    paper: dict[str, tuple[str, str]],
) -> str:
    """Return a table of a flat model, a tree with H, and the same tree alone."""
    models = [flat, model, fitted(data, model.filter, ConstantHead(n_jobs=settings.jobs), "tree + constant")]
    qualities = [measured(one, data, train=True) for one in models]
    rows = [["test accuracy", *(percent(quality.precision[0]) for quality in qualities)]]
    rows += [["train accuracy", *(percent(quality.train_precision) for quality in qualities)]]
    rows += _speed_rows(models, qualities, tree_seconds)
    return _beside_paper(data, _tree_rows(data, model.filter) + rows, names, paper)


def lshtc_tables(data: Split, settings: Settings, budgets: list[int] | None, peers: Path | None) -> str:
    """Return Tables 6 and 7: kernelised regression on a label embedding against tree + independent regressions."""
    k = budget(data.Y.shape[1])
    budgets = budgets or [k, 3 * k // 2, 3 * k]
    rank = settings.embedding_rank or 800
    flat = None
    if settings.baseline_passes:
        flat = embedded_baseline(data, settings, rank, "logistic", settings.fourier_features)
    trees = [timed_tree(data, k, settings) for k in budgets]
    models: list[Model | None] = [flat, *(_independent(data, settings, tree) for tree, _ in trees)]
    models.insert(2, fitted(data, trees[0][0], ConstantHead(n_jobs=settings.jobs), "tree + constant"))
    qualities = [measured(model, data) for model in models]
    names = (f"Rank-{rank} ILR", "Tree + ILR")
    rows = [["test P@1", *(percent(quality.precision[0]) for quality in qualities[:3])]]
    rows += _speed_rows(models[:3], qualities[:3], trees[0][1])
    first = _beside_paper(data, _tree_rows(data, trees[0][0]) + rows, names, PAPER_LSHTC)
    labels = [names[0], f"Tree + ILR, k = {budgets[0]}", "Tree + constant", *(f"k = {k}" for k in budgets[1:])]
    precision = [[name, *_precision_cells(quality)] for name, quality in zip(labels, qualities, strict=True)]
    second = table(["model", "P@1", "P@3", "P@5", "inference speed"], precision + PAPER_PRECISION)
    return first + "\n" + second + peer_rows(data, peers)


def _independent(data: Split, settings: Settings, tree: SpectralTree) -> Model:
    head = logistic_head(data, settings, task="bias", loss="logistic")
    return fitted(data, tree, head, f"tree + ILR, k = {tree.n_candidates}")


def _precision_cells(quality: Quality) -> list[str]:
    return [*(percent(share) for share in quality.precision), speed(quality.examples_per_second)]


def _tree_rows(data: Split, tree: SpectralTree) -> list[list[str]]:
    """Return what the paper tells of a tree, in the columns of the flat model, the tree with H and the tree alone."""
    numbers = tree.diagnostics(data.X, data.Y, (data.X_test, data.Y_test))
    frequent = frequent_recall(data, tree.n_candidates)
    evaluations = numbers.average_depth + numbers.average_candidates
    of_tree = {
        "avg depth": f"{numbers.average_depth:.2f}",
        "avg leaf classifiers": f"{numbers.average_candidates:.2f}",
        "train tree recall": percent(numbers.train_recall),
        "test tree recall": percent(numbers.holdout_recall),
        "recall of the most frequent k, train": percent(frequent.train),
        "recall of the most frequent k, test": percent(frequent.test),
    }
    rows = [[name, "", value, ""] for name, value in of_tree.items()]
    planes = [str(data.Y.shape[1]), f"{evaluations:.0f}", f"{numbers.average_depth:.0f}"]
    return [*rows, ["hyperplane evaluations an example", *planes]]


def _speed_rows(models: list[Model | None], qualities: list[Quality], tree_seconds: float) -> list[list[str]]:
    grown = f"{tree_seconds:.1f}"
    return [
        ["inference speed", *(speed(quality.examples_per_second) for quality in qualities)],
        ["seconds to grow the tree", "", grown, grown],
        ["seconds to train the rest", *(f"{model.train_seconds:.1f}" if model else "" for model in models)],
    ]


def _beside_paper(data: Split, rows: list[list[str]], names: tuple[str, str], paper: dict[str, tuple[str, str]]) -> str:
    head = ["", *names, "Tree + constant", *(f"paper: {name}" for name in paper["model"])]
    return f"{data}\n\n" + table(head, [[*row, *paper.get(row[0], ("", ""))] for row in rows])


def peer_rows(data: Split, results: Path | None) -> str:
    """Return a table of what other programs reached on the same data, all labels of the rows counted.

    Parameters
    ----------
    data : Split
    results : path, optional
        A file of JSON lines with `dataset`, `peer`, `preset`, `p_at_1`, `p_at_3`, `p_at_5` and `predict_s`.
    """
    if results is None:
        return ""
    rows = []
    for line in results.read_text(encoding="utf-8").splitlines():
        result = json.loads(line) if line.strip() else {}
        name = COMPARED_PEERS.get(result.get("preset", ""))
        if name is None or result.get("dataset") != data.name or result.get("error"):
            continue
        shares = [percent(result[key]) for key in ("p_at_1", "p_at_3", "p_at_5")]
        rows.append([name, *shares, speed(data.X_test.shape[0] / result["predict_s"])])
    if not rows:
        say(f"{results} has no results of LOMTree or Recall Tree on {data.name}")
        return ""
    return "\n" + table(["others", "P@1", "P@3", "P@5", "inference speed"], rows)
