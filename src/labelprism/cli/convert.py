"""`labelprism convert`: the same data in another format."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path

from labelprism.cli import inputs, interrupts
from labelprism.cli.settings import TEXT_FEATURES, UsageError, parameters_of
from labelprism.data import (
    Dataset,
    convert_to_directory,
    write_directory,
    write_jsonl,
    write_npz,
    write_svmlight,
    write_tsv,
    write_xc,
)
from labelprism.data.files import COMPRESSED_SUFFIXES

logger = logging.getLogger("labelprism")

_WRITERS: dict[str, Callable[[Dataset, str], None]] = {
    ".tsv": write_tsv,
    ".jsonl": write_jsonl,
    ".npz": write_npz,
    ".npy": write_npz,
    ".svm": write_svmlight,
    ".txt": write_xc,
    ".ds": write_directory,
}


def run(arguments: argparse.Namespace) -> None:
    """Read, make features where that is wanted, and write."""
    path = Path(arguments.target)
    is_compressed = path.suffix in COMPRESSED_SUFFIXES
    ending = path.with_suffix("").suffix if is_compressed else path.suffix
    if is_compressed and ending == ".ds":
        raise UsageError(f"{arguments.target}: a directory in .ds is used as it lies on the disk, and not compressed")
    if ending not in _WRITERS:
        raise UsageError(f"{arguments.target}: a name in {', '.join(_WRITERS)} is expected")
    options = inputs.reading_options(arguments)
    if path.suffix == ".ds" and not arguments.features:
        convert_to_directory(arguments.source, path, **inputs.options_for(arguments.source, options))
        logger.info("%s: %s", arguments.target, repr(Dataset.open(path, verify=False)).strip("<>"))
        return
    dataset = inputs.read_dataset(arguments.source, options)
    wants_matrix = ending not in (".tsv", ".jsonl")  # .ds takes both, and comes here with features only
    if arguments.features:
        dataset = _with_features(dataset, arguments)
    if wants_matrix and dataset.X is None:
        raise UsageError(f"{arguments.target} takes rows of numbers; --features makes them of the texts")
    if not wants_matrix and dataset.texts is None:
        raise UsageError(f"{arguments.target} takes texts, but {arguments.source} has rows of numbers")
    if ending == ".tsv" and "label_sep" in options:
        write_tsv(dataset, arguments.target, label_sep=options["label_sep"])
    else:
        _WRITERS[ending](dataset, arguments.target)
    logger.info("%s: %s rows", arguments.target, f"{dataset.n_rows:,}")


def _with_features(dataset: Dataset, arguments: argparse.Namespace) -> Dataset:
    from labelprism.features import TextFeatures

    if dataset.texts is None:
        raise UsageError(f"--features: {arguments.source} has no texts")
    given = parameters_of(vars(arguments), "features")
    values = {setting.name: given[setting.name] for setting in TEXT_FEATURES if setting.name in given}
    with interrupts.at_once():
        X = TextFeatures(**values, n_jobs=-1).fit_transform(dataset.texts)
    return Dataset(X=X, Y=dataset.Y, label_names=dataset.label_names, texts=dataset.texts)
