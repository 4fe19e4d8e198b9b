"""`labelprism compare`: which of two files of predictions is better, and how sure that is."""

from __future__ import annotations

import argparse
import json
from typing import Any, Literal

from labelprism import metrics
from labelprism._progress import ProgressBar
from labelprism.cli import inputs, interrupts, measure, suggestions
from labelprism.cli.tables import percent, table

_METRICS: dict[str, Literal["precision", "ndcg", "recall", "psp"]] = {
    "P": "precision", "nDCG": "ndcg", "recall": "recall", "PSP": "psp",
}  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Measure both on the same resamples of rows, and print the differences."""
    options = inputs.reading_options(arguments)
    dataset = inputs.read_dataset(arguments.data, options)
    names = dataset.names_of(range(dataset.n_labels))
    a = suggestions.read(arguments.a, names, dataset.n_rows)
    b = suggestions.read(arguments.b, names, dataset.n_rows)
    truth = inputs.true_labels(dataset, names, arguments.data)
    counts = None
    if arguments.train is not None:
        counts = inputs.training_counts(arguments.train, truth.names, options)
    weights = measure.propensities(counts, len(truth.names))
    with interrupts.at_once():
        found = _differences(truth.Y, a, b, weights, arguments)
    if arguments.json:
        print(json.dumps({"rows": dataset.n_rows, "confidence": arguments.confidence, "metrics": found}))
        return
    rows = [["", "A", "B", "A - B", f"{100 * arguments.confidence:g}% interval", "better"]]
    rows += [
        [name, *(percent(entry[key]) for key in ("a", "b", "difference")),
         f"{percent(entry['low'])} to {percent(entry['high'])}", entry["better"]]
        for name, entry in found.items()
    ]  # fmt: skip
    print(f"{dataset.n_rows:,} rows; A is {arguments.a}, B is {arguments.b}\n\n{table(rows)}")


def _differences(Y: Any, a: Any, b: Any, weights: Any, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    ks = measure.ranks(arguments.k)
    values = [metrics.evaluate_intervals(Y, predicted, weights, ks, n_resamples=1) for predicted in (a, b)]
    wanted = [(name, metric) for name, metric in _METRICS.items() if metric != "psp" or weights is not None]
    found: dict[str, dict[str, Any]] = {}
    with ProgressBar(len(wanted) * len(ks), "resampling", "metrics") as bar:
        for name, metric in wanted:
            for k in ks:
                interval = metrics.bootstrap_difference(
                    Y, a, b, metric, k, weights, arguments.resamples, arguments.confidence, arguments.seed
                )
                better = "A" if interval.low > 0 else "B" if interval.high < 0 else "-"
                key = f"{name}@{k}"
                numbers = {"a": values[0][key].value, "b": values[1][key].value, "difference": interval.difference}
                numbers |= {"low": interval.low, "high": interval.high}
                found[key] = measure.as_json(numbers) | {"better": better}
                bar.advance()
    return found
