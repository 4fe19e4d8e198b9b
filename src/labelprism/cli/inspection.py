"""`labelprism inspect`: what is in a model, or in a directory of data."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism.cli import models
from labelprism.cli.settings import UsageError
from labelprism.cli.tables import size, table
from labelprism.data import Dataset
from labelprism.data.directory import is_data_directory
from labelprism.persistence import load_arrays


def run(arguments: argparse.Namespace) -> None:
    """Print what a model or a data set holds, or what a model knows of one label."""
    if is_data_directory(arguments.model):
        _inspect_data(arguments)
        return
    if arguments.verify:
        load_arrays(arguments.model, verify=True)
    model = models.load(arguments.model)
    report = overview(model, arguments.model) if arguments.label is None else of_label(model, arguments)
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False, default=str))
    else:
        print(_shown(report) if arguments.label is None else _label_shown(report))


def _inspect_data(arguments: argparse.Namespace) -> None:
    if arguments.label is not None:
        raise UsageError("--label is for models; this is a directory of data")
    dataset = Dataset.open(arguments.model, verify=arguments.verify)
    report = data_overview(dataset, arguments.model)
    print(json.dumps(report, ensure_ascii=False) if arguments.json else _data_shown(report, arguments.verify))


def data_overview(dataset: Dataset, path: str) -> dict[str, Any]:
    """Return the shapes and sizes of an opened data set, and how many labels its rows have."""
    X: Any = dataset.X
    labels = np.diff(dataset.Y.indptr)
    files = sorted(Path(path).glob("*.npy"), key=lambda file: -file.stat().st_size)
    return {
        "data": path,
        "bytes": models.bytes_of(path),
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "features_per_row": None if not sp.issparse(X) else X.nnz / max(dataset.n_rows, 1),
        "texts": dataset.texts is not None,
        "labels": dataset.n_labels,
        "named": dataset.label_names is not None,
        "labels_per_row": {
            "mean": dataset.Y.nnz / max(dataset.n_rows, 1),
            "most": int(labels.max(initial=0)),
            "rows_without": int(np.count_nonzero(labels == 0)),
        },
        "files": {file.name: file.stat().st_size for file in files},
    }


def overview(model: Any, path: str) -> dict[str, Any]:
    """Return sizes, parameters, labels, features and arrays of a model."""
    _, arrays = load_arrays(path, verify=False)
    counts = models.label_counts(model)
    report: dict[str, Any] = {
        "model": path,
        "bytes": models.bytes_of(path),
        "labels": len(model.classes_),
        "features": int(model.n_features_in_),
        "input": "texts" if models.takes_texts(model) else "rows of numbers",
        "parameters": {
            name: _plain(value) for name, value in model.get_params(deep=False).items() if value is not None
        },
    }
    if counts is not None:
        report["training_rows"] = counts.n_rows
        common = np.argsort(-counts.of_label, kind="stable")[:5]
        names = models.label_names(model)
        report["most_frequent"] = {names[label]: int(counts.of_label[label]) for label in common}
    recipe = model.__dict__.get("recipe_")
    if recipe is not None:
        report["blend"] = {name: float(weight) for name, weight in recipe.blend_._asdict().items()}
    report["arrays"] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape), "bytes": int(array.nbytes)}
        for name, array in arrays.items()
    }
    return report


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else repr(value)


def of_label(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the training examples of a label and its strongest features."""
    names = models.label_names(model)
    if arguments.label not in names:
        near = difflib.get_close_matches(arguments.label, names, n=3, cutoff=0.5)
        hint = f"; near it are {', '.join(map(repr, near))}" if near else ""
        raise UsageError(f"--label {arguments.label}: the model has no such label{hint}")
    label = names.index(arguments.label)
    counts = models.label_counts(model)
    report: dict[str, Any] = {"label": arguments.label, "number": label}
    if counts is not None:
        report["examples"] = int(counts.of_label[label])
    weights = models.weights_of(model, label)
    for kind, (features, values) in weights.items():
        strongest = np.argsort(-np.abs(values), kind="stable")[: arguments.top]
        tokens = _feature_names(model, features[strongest])
        report[kind] = [
            {"feature": int(feature), "name": token, "weight": round(float(value), 4)}
            for feature, token, value in zip(features[strongest], tokens, values[strongest], strict=True)
        ]
    return report


def _feature_names(model: Any, features: Any) -> list[str | None]:
    if models.takes_texts(model) and model.features_.keep_names:
        named: list[str | None] = model.features_.token_of(features)
        return named
    return [None] * len(features)


# -------------------------------------------------------------------------------------------------------------- showing


def _shown(report: Mapping[str, Any]) -> str:
    rows = [
        ["model", f"{report['model']} ({size(report['bytes'])})"],
        ["takes", report["input"]],
        ["features", f"{report['features']:,}"],
        ["labels", f"{report['labels']:,}"],
    ]
    if report.get("training_rows") is not None:
        rows.append(["learned from", f"{report['training_rows']:,} rows"])
    if "most_frequent" in report:
        frequent = ", ".join(f"{name} ({count:,})" for name, count in report["most_frequent"].items())
        rows.append(["most frequent labels", frequent])
    rows += [[name, str(value)] for name, value in report["parameters"].items()]
    if "blend" in report:
        rows.append(["blend", ", ".join(f"{name} {weight:.3f}" for name, weight in report["blend"].items())])
    arrays = [["array", "type", "shape", "size"]]
    arrays += [
        [name, entry["dtype"], " x ".join(map(str, entry["shape"])), size(entry["bytes"])]
        for name, entry in sorted(report["arrays"].items(), key=lambda item: -item[1]["bytes"])
    ]
    return f"{table(rows, 2)}\n\n{table(arrays, 2)}"


def _data_shown(report: Mapping[str, Any], verified: bool) -> str:
    per_row = report["labels_per_row"]
    rows = [
        ["data", f"{report['data']} ({size(report['bytes'])}{', all files as written' if verified else ''})"],
        ["rows", f"{report['rows']:,}{' with texts' if report['texts'] else ''}"],
    ]
    if report["features"] is not None:
        share = report["features_per_row"]
        rows.append(["features", f"{report['features']:,}, {'dense' if share is None else f'{share:.2f} a row'}"])
    rows.append(["labels", f"{report['labels']:,}{', with names' if report['named'] else ''}"])
    none = f"{per_row['rows_without']:,} rows have none"
    rows.append(["labels a row", f"{per_row['mean']:.2f}, at most {per_row['most']:,}; {none}"])
    files = [["file", "size"], *([name, size(n_bytes)] for name, n_bytes in report["files"].items())]
    return f"{table(rows, 2)}\n\n{table(files)}"


def _label_shown(report: Mapping[str, Any]) -> str:
    lines = [f"{report['label']} (label {report['number']})"]
    if "examples" in report:
        lines.append(f"{report['examples']:,} training examples")
    for kind in ("classifier", "centroid"):
        if report.get(kind):
            rows = [
                [f"#{entry['feature']}" if entry["name"] is None else entry["name"], f"{entry['weight']:.3f}"]
                for entry in report[kind]
            ]
            lines.append(f"\nstrongest features of its {kind}:\n{table(rows)}")
    return "\n".join(lines)
