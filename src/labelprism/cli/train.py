"""`labelprism train`: from a file with labels to a folder with a model."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from labelprism._scratch import scratch_files
from labelprism._stages import Checkpoint
from labelprism.cli import inputs, measure, models
from labelprism.cli import settings as all_settings
from labelprism.cli.room import ALL_MEMORY, Room, scratch_folder
from labelprism.cli.settings import UsageError
from labelprism.cli.tables import size, table
from labelprism.data import Dataset
from labelprism.data.directory import is_data_directory

logger = logging.getLogger("labelprism")


def run(arguments: argparse.Namespace) -> None:
    """Learn, measure, and keep the model."""
    settings = settings_of(arguments)
    if arguments.dump_config:
        is_text = inputs.is_text(arguments.data) if arguments.data else "features" not in settings
        print(all_settings.to_toml(all_settings.effective(settings, is_text)), end="")
        return
    if arguments.data is None or arguments.out is None:
        raise UsageError("train needs the data and --out MODEL; labelprism train --help says more")
    check_target(arguments.out)
    room = Room(arguments.memory_limit, arguments.scratch, arguments.checkpoint)
    report = train(settings, arguments.data, arguments.out, arguments.test, room)
    print(json.dumps(report, ensure_ascii=False) if arguments.json else summary(report))


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the file of settings, the flags and `--set` say, the later before the earlier."""
    found: dict[str, Any] = {} if arguments.config is None else all_settings.from_toml(arguments.config)
    known = all_settings.known_keys()
    found |= {key: value for key, value in vars(arguments).items() if key in known}
    assigned = dict(all_settings.assignment(text) for text in arguments.set)
    found |= all_settings.checked(assigned, "--set", context=found)
    return all_settings.checked(found, "the command line")


def check_target(path: str) -> None:
    """Refuse a target that cannot take the model, before hours are spent on it."""
    target = Path(path)
    if target.exists() and (not (target / "meta.json").is_file() or is_data_directory(target)):
        raise UsageError(f"--out {path}: something is there that is no model; choose another path or remove it")
    parent = next(folder for folder in target.resolve().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(13, "the model cannot be written into this folder", str(parent))


def train(
    settings: Mapping[str, Any], data: str, out: str, test: str | None, room: Room = ALL_MEMORY
) -> dict[str, Any]:
    """Learn from a file, write the model, and return a report of it, fit for JSON."""
    seconds: dict[str, float] = {}
    options = inputs.reading_options(settings)
    effective = all_settings.effective(settings, inputs.is_text(data))
    model = models.build(effective)
    start = perf_counter()
    dataset = inputs.read_dataset(data, options)
    seconds["read"] = perf_counter() - start
    with scratch_files(scratch_folder(room, dataset, model, data)):
        seen, held_out = split(dataset, effective.get("validation"), options, effective.get("random_state"))
        start = perf_counter()
        models.fit(model, seen, room.checkpoint)
        seconds["train"] = perf_counter() - start
        start = perf_counter()
        model.save(out)
        seconds["save"] = perf_counter() - start
    if room.checkpoint is not None:  # what it was for is done
        Checkpoint(room.checkpoint).remove()
    report: dict[str, Any] = {
        "model": out,
        "rows": seen.n_rows,
        "features": int(model.n_features_in_),
        "labels": len(model.classes_),
        "labels_per_row": seen.Y.nnz / seen.n_rows,
        "bytes": models.bytes_of(out),
    }
    counts = models.Counts(np.bincount(seen.Y.indices, minlength=seen.n_labels), seen.n_rows)
    ks = measure.ranks(effective.get("k"))
    for name, part, path in (("validation", held_out, data), ("test", None, test)):
        if path is None or (part is None and name == "validation"):
            continue
        start = perf_counter()
        report[name] = _measured(model, inputs.read_dataset(path, options) if part is None else part, path, counts, ks)
        seconds[f"measure {name}"] = perf_counter() - start
    return report | {"seconds": seconds, "stages": stages_of(model), "settings": plain(effective)}


def split(
    dataset: Dataset, validation: float | str | None, options: Mapping[str, Any], seed: int | None
) -> tuple[Dataset, Dataset | None]:
    """Return the rows to learn from, and those to measure on."""
    if validation is None:
        return dataset, None
    if isinstance(validation, str):
        return dataset, inputs.read_dataset(validation, options)
    if not 0 < validation < 1:
        raise UsageError(f"--validation must be a file or a share between 0 and 1, got {validation}")
    n_held_out = round(validation * dataset.n_rows)
    if not 0 < n_held_out < dataset.n_rows:
        raise UsageError(
            f"--validation {validation} of {dataset.n_rows} rows leaves none to measure on, or to learn from"
        )
    order = np.random.default_rng(seed).permutation(dataset.n_rows)
    return dataset.take(np.sort(order[n_held_out:])), dataset.take(np.sort(order[:n_held_out]))


def _measured(model: Any, dataset: Dataset, path: str, counts: Any, ks: tuple[int, ...]) -> dict[str, Any]:
    truth = inputs.true_labels(dataset, models.label_names(model), path)
    rows = inputs.rows_of(dataset, models.takes_texts(model), int(model.n_features_in_), path)
    predicted = measure.predicted_labels(model, rows, max(ks))
    return measure.as_json(measure.scores(truth, predicted, counts, ks))


def stages_of(model: Any) -> dict[str, float]:
    """Return how long each stage of training took, where the model says it."""
    recipe = model.__dict__.get("recipe_")
    return {} if recipe is None else dict(recipe.stage_seconds_)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without what has no value."""
    return {key: value for key, value in settings.items() if value is not None}


def summary(report: Mapping[str, Any]) -> str:
    """Return the report for people."""
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in report["stages"].items() if seconds >= 0.05)
    rows = [
        ["model", f"{report['model']} ({size(report['bytes'])})"],
        ["learned from", f"{report['rows']:,} rows with {report['labels_per_row']:.2f} labels each"],
        ["features", f"{report['features']:,}"],
        ["labels", f"{report['labels']:,}"],
        ["seconds", ", ".join(f"{name} {seconds:.1f}" for name, seconds in report["seconds"].items())],
    ]
    if stages:
        rows.append(["stages of training", stages])
    text = table(rows, 2)
    for name, title in (("validation", "on held-out rows"), ("test", "on the test rows")):
        if name in report:
            values = {key: float("nan") if value is None else value for key, value in report[name].items()}
            text += f"\n\n{title}, percent:\n{measure.scores_table(values)}"
    return text
