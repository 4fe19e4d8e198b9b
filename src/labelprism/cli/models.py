"""Models as the commands see them: made from settings, loaded, asked for suggestions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from labelprism._arrays import Int64
from labelprism.cli import interrupts
from labelprism.cli.settings import ESTIMATOR, PARTS, UsageError, as_slice, parameters_of, part_class
from labelprism.data import Dataset
from labelprism.estimator import PrismClassifier
from labelprism.features import TextFeatures

logger = logging.getLogger("labelprism")

_SECONDS_BETWEEN_LINES = 30.0


class Counts(NamedTuple):
    """How frequent labels were in training."""

    of_label: Int64
    """How many rows have each label."""
    n_rows: int | None
    """How many rows there were; None where nobody remembers."""


def build(settings: Mapping[str, Any]) -> PrismClassifier:
    """Return a classifier that is not fitted yet.

    Parameters
    ----------
    settings : dict
        As `labelprism.cli.settings.effective` returns them.
    """
    values = {setting.name: settings[setting.name] for setting in ESTIMATOR if setting.name in settings}
    for name in ("filter_features", "head_features"):
        if values.get(name) is not None:
            values[name] = as_slice(values[name])
    for part in PARTS:
        kind = settings.get(part)
        if kind in (None, "none"):
            continue
        try:
            values[part] = part_class(part, kind)(**parameters_of(settings, part))
        except (TypeError, ValueError) as error:
            raise UsageError(f"{part}: {error}") from error
        if "n_jobs" in values[part].get_params(deep=False):
            values[part].set_params(n_jobs=settings.get("n_jobs"))
    model = PrismClassifier(**values)
    try:
        model._check_parameters()
    except ValueError as error:
        raise UsageError(str(error)) from error
    return model


def fit(model: PrismClassifier, dataset: Dataset, checkpoint: str | None = None) -> None:
    """Train a model; Ctrl-C need not wait for it, and now and then a line says that it goes on.

    Parameters
    ----------
    model : PrismClassifier
    dataset : Dataset
    checkpoint : str, optional
        The folder where each stage is kept that is done.
    """
    logger.info("training on %s rows", f"{dataset.n_rows:,}")
    done = threading.Event()
    threading.Thread(target=_tell_until, args=(done,), daemon=True).start()
    try:
        with interrupts.at_once():
            model.fit(dataset, checkpoint=checkpoint)
    finally:
        done.set()


def _tell_until(done: threading.Event) -> None:
    start = monotonic()
    while not done.wait(_SECONDS_BETWEEN_LINES):
        logger.info("training for %.0f seconds so far", monotonic() - start)


def load(path: str, n_jobs: int | None = None) -> PrismClassifier:
    """Return the model in a folder, to be used with some number of threads; that of its training when left out."""
    model = PrismClassifier.load(path)
    if n_jobs is not None:
        if n_jobs == 0:
            raise UsageError("--n-jobs must not be 0; -1 takes all cores")
        model.set_params(n_jobs=n_jobs)
        if takes_texts(model):
            model.features_.use_threads(n_jobs)
    return model


def takes_texts(model: PrismClassifier) -> bool:
    """Tell whether the model makes its features of texts by itself."""
    return isinstance(model.__dict__.get("features_"), TextFeatures)


def label_names(model: PrismClassifier) -> list[str]:
    """Return the names of the labels, in the order of their numbers."""
    return [str(name) for name in model.classes_.tolist()]


def label_counts(model: PrismClassifier) -> Counts | None:
    """Return how many training rows have each label, as far as the model remembers."""
    recipe = model.__dict__.get("recipe_")
    if recipe is None:
        return None
    n_rows = int(model.features_.n_texts_) if takes_texts(model) else None
    return Counts(np.rint(recipe.label_counts_).astype(np.int64), n_rows)


def explanation(model: PrismClassifier, rows: Any, position: int, labels: list[int]) -> Any:
    """Return why labels were suggested for one of the rows, fit for JSON."""
    if not labels:
        return {"labels": []}
    row = [rows[position]] if isinstance(rows, list) else rows[position : position + 1]
    found = model.explain(row, len(labels))
    return {
        "candidates": len(found.candidates),
        "labels": [
            {
                "label": str(label.name),
                "parts": {name: round(float(value), 4) + 0.0 for name, value in label.parts.items()},
                "features": [
                    [share.name if share.name is not None else share.feature, round(share.value, 4)]
                    for share in label.features or ()
                ],
            }
            for label in found.labels
            if label.label in labels
        ],
    }


def bytes_of(path: str | Path) -> int:
    """Return the size of a model on the disk."""
    return sum(file.stat().st_size for file in Path(path).iterdir() if file.is_file())


def weights_of(model: PrismClassifier, label: int) -> dict[str, tuple[Any, Any]]:
    """Return the features of a label with their weights: in its classifier and in its centroid, if it has them."""
    recipe = model.__dict__.get("recipe_")
    if recipe is None:
        return {}
    found = {}
    for kind, matrix in (("classifier", recipe.head_), ("centroid", recipe.centroids_)):
        part = slice(matrix.indptr[label], matrix.indptr[label + 1])
        found[kind] = (matrix.indices[part], matrix.data[part])
    return found
