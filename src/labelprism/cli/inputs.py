"""Data with labels, for training and measuring: read by the flags that say how, in the columns of a model."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism.cli.models import Counts
from labelprism.cli.settings import DATA, UsageError, parameters_of
from labelprism.data import Dataset, load
from labelprism.data.detect import detect_format
from labelprism.errors import DataFormatError

logger = logging.getLogger("labelprism")

_OPTIONS = {
    "tsv": ("label_sep", "label_kind"),
    "jsonl": ("label_sep", "text_key", "labels_key"),
    "sparse text": ("zero_based",),
    "npz": (),
    "directory": (),
}


def reading_options(settings: Mapping[str, Any] | argparse.Namespace) -> dict[str, Any]:
    """Return what the flags, or the settings, say of reading data."""
    values = vars(settings) if isinstance(settings, argparse.Namespace) else settings
    known = {setting.name for setting in DATA}
    return {name: value for name, value in parameters_of(values, "data").items() if name in known}


def read_dataset(path: str, options: Mapping[str, Any]) -> Dataset:
    """Read data with labels, of whatever format.

    Parameters
    ----------
    path : str
    options : dict
        From `reading_options`; those that are for other formats are left out, with a warning.
    """
    dataset = load(path, **options_for(path, options))
    logger.info("%s: %s", path, repr(dataset).strip("<>"))
    return dataset


def options_for(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the options that the format of a file has; a warning tells of others."""
    format = _format(path)
    for name in options:
        if name not in _OPTIONS[format]:
            logger.warning("--%s is not for %s, the format of %s", name.replace("_", "-"), format, path)
    return {name: value for name, value in options.items() if name in _OPTIONS[format]}


def is_text(path: str) -> bool:
    """Tell whether the data has texts, not rows of numbers."""
    format = _format(path)
    return Dataset.open(path, verify=False).X is None if format == "directory" else format in ("tsv", "jsonl")


def _format(path: str) -> str:
    if path == "-" or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()):
        raise UsageError(f"{path}: data with labels must be a plain file, no pipe: it is looked at twice")
    return detect_format(path)


class Truth(NamedTuple):
    """True labels in named columns: first those of a model or training set, then others, which it cannot know."""

    Y: sp.csr_array
    names: list[str]
    n_unknown: int
    """How many times a label is true that the model does not know."""


def true_labels(dataset: Dataset, known: Sequence[str], path: str) -> Truth:
    """Return the labels of a data set in the columns of known ones; further ones follow, and count as missed.

    Parameters
    ----------
    dataset : Dataset
    known : sequence of str
        The names of the labels of a model.
    path : str
        The file of the data set, for the message.
    """
    names = list(known)
    column_of = {name: column for column, name in enumerate(names)}
    if dataset.label_names is None and names != [str(column) for column in range(len(names))]:
        if dataset.n_labels > len(names):
            message = f"there are {dataset.n_labels} labels without names, but the model has {len(names)} with names"
            raise DataFormatError(message, path)
        new_columns = np.arange(dataset.n_labels)
    else:
        found = [str(n) for n in range(dataset.n_labels)] if dataset.label_names is None else dataset.label_names
        new_columns = np.array([column_of.setdefault(name, len(column_of)) for name in found], np.int64)
        names += list(column_of)[len(names) :]
    Y = dataset.Y
    columns = new_columns[Y.indices]
    aligned = sp.csr_array((Y.data, columns, Y.indptr), shape=(Y.shape[0], len(names)))
    aligned.sort_indices()
    n_unknown = int(np.count_nonzero(columns >= len(known)))
    if n_unknown:
        logger.warning("%s: %d of %d labels are unknown to the model and count as missed", path, n_unknown, Y.nnz)
    return Truth(aligned, names, n_unknown)


def training_counts(path: str, names: Sequence[str], options: Mapping[str, Any]) -> Counts:
    """Return how many rows of the training data have each of the labels, and how many rows there are."""
    training = read_dataset(path, options)
    column_of = {name: column for column, name in enumerate(names)}
    counts = np.zeros(len(names), np.int64)
    own = np.bincount(training.Y.indices, minlength=training.n_labels)
    for column, count in enumerate(own.tolist()):
        name = training.names_of([column])[0]
        if name in column_of:
            counts[column_of[name]] = count
    return Counts(counts, training.n_rows)


def rows_of(dataset: Dataset, wants_texts: bool, n_features: int | None, path: str) -> Any:
    """Return the texts or the matrix of a data set, whichever a model takes, at its width.

    Parameters
    ----------
    dataset : Dataset
    wants_texts : bool
    n_features : int or None
        The number of columns of the matrix.
    path : str
        The file, for the message.
    """
    if wants_texts:
        if dataset.texts is None:
            raise DataFormatError("the model takes texts, but here are rows of numbers", path)
        return dataset.texts
    X: Any = dataset.X
    if X is None:
        raise DataFormatError("the model takes rows of numbers, but here are texts", path)
    if n_features is None or X.shape[1] == n_features:
        return X
    if X.shape[1] > n_features or not sp.issparse(X):
        raise DataFormatError(f"there are {X.shape[1]} features, but the model has {n_features}", path)
    # Sparse text without a header ends at the last feature that occurs.
    return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
