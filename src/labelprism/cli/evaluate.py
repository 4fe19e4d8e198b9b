"""`labelprism evaluate`: metrics with intervals, and by how frequent labels are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelprism import metrics
from labelprism.cli import inputs, interrupts, measure, models, suggestions
from labelprism.cli.settings import UsageError
from labelprism.cli.tables import without_nan
from labelprism.metrics import FrequencyGroup, MetricInterval


def run(arguments: argparse.Namespace) -> None:
    """Measure, print, and draw where that is wanted."""
    if (arguments.model is None) == (arguments.predictions is None):
        raise UsageError("evaluate needs a model or --predictions, and not both")
    if arguments.plot is not None:
        check_plot(arguments.plot)
    truth, predicted, counts = _predicted(arguments)
    weights = measure.propensities(counts, len(truth.names))
    ks = measure.ranks(arguments.k)
    with interrupts.at_once():
        intervals = metrics.evaluate_intervals(
            truth.Y, predicted, weights, ks, arguments.resamples, arguments.confidence, arguments.seed
        )
    intervals = {name: interval for name, interval in intervals.items() if not name.startswith("PSnDCG")}
    k, groups = arguments.k or 5, None
    if counts is not None:
        found = measure.padded(counts.of_label, len(truth.names))
        groups = metrics.by_frequency(truth.Y, predicted, found, k, arguments.groups)
        groups = [group for group in groups if group.n_labels]
    if arguments.plot is not None:
        draw(arguments.plot, intervals, groups, k)
    if arguments.json:
        print(json.dumps(_report(truth, intervals, groups, k, arguments.confidence), ensure_ascii=False))
        return
    print(f"{truth.Y.shape[0]:,} rows\n\n{measure.intervals_table(intervals, arguments.confidence)}")
    if groups is not None:
        print(f"\nby the number of training examples of a label:\n{measure.groups_table(groups, k)}")
    if weights is None:
        print("\n--train FILE, the training data, would tell how rare labels fare (PSP)")


def _predicted(arguments: argparse.Namespace) -> tuple[inputs.Truth, Any, Any]:
    """Return true labels, suggested ones, and how many training rows have each label, where that is known."""
    options = inputs.reading_options(arguments)
    dataset = inputs.read_dataset(arguments.data, options)
    width = max(measure.ranks(arguments.k))
    if arguments.model is None:
        names = dataset.names_of(range(dataset.n_labels))
        predicted: Any = suggestions.read(arguments.predictions, names, dataset.n_rows)[:, :width]
        truth = inputs.true_labels(dataset, names, arguments.data)
        counts = None
    else:
        model = models.load(arguments.model)
        truth = inputs.true_labels(dataset, models.label_names(model), arguments.data)
        rows = inputs.rows_of(dataset, models.takes_texts(model), int(model.n_features_in_), arguments.data)
        predicted = measure.predicted_labels(model, rows, width)
        counts = models.label_counts(model)
    if arguments.train is not None:
        counts = inputs.training_counts(arguments.train, truth.names, options)
    return truth, predicted, counts


def _report(
    truth: inputs.Truth, intervals: Mapping[str, MetricInterval], groups: Sequence[FrequencyGroup] | None, k: int,
    confidence: float,
) -> dict[str, Any]:  # fmt: skip
    report: dict[str, Any] = {"rows": truth.Y.shape[0], "confidence": confidence, "metrics": measure.as_json(intervals)}
    report["unknown_labels"] = truth.n_unknown
    if groups is not None:
        named = {group.name: group for group in groups}
        report["by_frequency"] = {
            name: {"k": k} | {key: value for key, value in group._asdict().items() if key != "name"}
            for name, group in named.items()
        }
        for group in report["by_frequency"].values():
            group |= {key: without_nan(group[key]) for key in ("recall", "precision", "coverage")}
    return report


# -------------------------------------------------------------------------------------------------------------- drawing


def check_plot(path: str) -> None:
    """Make sure that a picture can be drawn, before time is spent on what it shows."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install 'labelprism[plot]'") from error
    if Path(path).suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"--plot {path}: a name in .svg, .png or .pdf is expected")


def draw(path: str, intervals: Mapping[str, MetricInterval], groups: Sequence[FrequencyGroup] | None, k: int) -> None:
    """Draw metrics with their intervals, and how well labels are found by their frequency.

    Parameters
    ----------
    path : str
        The picture; its ending says which kind.
    intervals : dict of str to MetricInterval
    groups : sequence of FrequencyGroup or None
    k : int
        The number of best labels that `groups` were measured on.
    """
    from matplotlib.figure import Figure

    from labelprism.data.files import writing

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    metrics_axes, *others = figure.subplots(1, 1 if groups is None else 2, squeeze=False)[0]
    values = [100 * interval.value for interval in intervals.values()]
    errors = [
        [100 * (interval.value - interval.low) for interval in intervals.values()],
        [100 * (interval.high - interval.value) for interval in intervals.values()],
    ]
    metrics_axes.errorbar(values, list(intervals), xerr=errors, fmt="o", capsize=3)
    metrics_axes.invert_yaxis()
    metrics_axes.set_xlabel("percent")
    for axes in others:
        names = [f"{group.name}\n{group.n_true:,} true" for group in groups or ()]
        axes.bar(names, [100 * group.recall for group in groups or ()])
        axes.set_ylabel(f"recall@{k}, percent")
        axes.set_title("by the labels' frequency in training", fontsize="medium")
    with writing(path) as stream:
        figure.savefig(stream, format=Path(path).suffix[1:])
