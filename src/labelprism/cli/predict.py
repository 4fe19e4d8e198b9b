"""`labelprism predict`: labels for texts or rows, in batches, so that memory does not grow with the input."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from labelprism._progress import ProgressBar
from labelprism.cli import inputs, models, suggestions
from labelprism.cli.settings import UsageError
from labelprism.data import stream_matrix, stream_sparse_text, stream_texts
from labelprism.data.detect import detect_format
from labelprism.data.files import STANDARD_INPUT, StrPath, reading, text_lines, writing
from labelprism.errors import DataFormatError

logger = logging.getLogger("labelprism")

_ROWS_PER_BATCH = 2048  # a fraction of a second, and a few megabytes
_SECONDS_BETWEEN_LINES = 10.0


def run(arguments: argparse.Namespace) -> None:
    """Read, suggest and write, batch after batch."""
    if arguments.explain and arguments.format != "jsonl":
        raise UsageError("--explain needs --format jsonl: other formats have no place for reasons")
    if arguments.explain and arguments.allow is not None:
        raise UsageError("--explain does not go with --allow: the best labels of all are what is explained")
    model = models.load(arguments.model, arguments.n_jobs)
    path: StrPath = STANDARD_INPUT if arguments.input == "-" else arguments.input
    names = models.label_names(model)
    k = min(arguments.k, len(names))
    options = {} if arguments.allow is None else {"allowed": _allowed(arguments.allow, names)}
    batches = _batches(model, path, arguments)
    ranked = model.predict_topk_proba if arguments.probabilities else model.predict_topk
    if path == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty():
        logger.info("reading from standard input, one row a line; Ctrl-D ends")
    n_done = 0
    with _output(arguments.output) as write, _Progress(path) as progress:
        write(suggestions.header(arguments.format))
        for rows in batches:
            labels, scores = ranked(rows, k, **options)
            texts = rows if isinstance(rows, list) else None
            done = [
                suggestions.Row(
                    n_done + position + 1,
                    [names[label] for label in kept_labels],
                    kept_scores,
                    None if texts is None else texts[position],
                    models.explanation(model, rows, position, kept_labels) if arguments.explain else None,
                )
                for position, (kept_labels, kept_scores) in enumerate(_kept(labels, scores, arguments.threshold))
            ]
            write(suggestions.written(done, arguments.format))
            n_done += len(done)
            progress.advance(len(done))
    logger.info("suggested labels for %s rows", f"{n_done:,}")


def _kept(labels: Any, scores: Any, threshold: float | None) -> Iterator[tuple[list[int], list[float]]]:
    """Yield the labels of each row and their scores, without padding and what scores too low."""
    keep = labels >= 0 if threshold is None else (labels >= 0) & (scores >= threshold)
    for row in range(labels.shape[0]):
        chosen = np.flatnonzero(keep[row])
        yield labels[row, chosen].tolist(), [suggestions.rounded(score) for score in scores[row, chosen].tolist()]


def _batches(model: Any, path: StrPath, arguments: argparse.Namespace) -> Iterator[Any]:
    """Return the input of a model in batches: lists of texts, or matrices."""
    options = inputs.reading_options(arguments)
    if models.takes_texts(model):
        texts = stream_texts(path, arguments.input_format, options.get("text_key", "text"))
        return iter(lambda: list(islice(texts, _ROWS_PER_BATCH)), [])
    width = int(model.n_features_in_)
    can_be_read_twice = Path(path).is_file() or Path(path).is_dir()  # a pipe cannot
    format = detect_format(path) if can_be_read_twice else "sparse text"
    if format in ("npz", "directory"):
        return stream_matrix(path, width, _ROWS_PER_BATCH)
    if format == "sparse text":
        return stream_sparse_text(path, width, _ROWS_PER_BATCH, options.get("zero_based"))
    raise DataFormatError("the model takes rows of numbers, but here are texts", path)


def _allowed(path: str, names: list[str]) -> Any:
    """Return which of the labels are in a file, as booleans."""
    allowed = [line.strip() for _, line in text_lines(path) if line.strip()]
    unknown = set(allowed).difference(names)
    if unknown:
        first = next(name for name in allowed if name in unknown)
        logger.warning("--allow: %d of the labels are unknown to the model, as %r", len(unknown), first)
    mask = np.isin(np.array(names, dtype=object), list(set(allowed)))
    if not mask.any():
        raise DataFormatError("the model knows none of these labels; one a line is expected", path)
    return mask


@contextmanager
def _output(path: str | None) -> Iterator[Any]:
    """Give a function that writes text to a file, which is there once it is whole, or to standard output."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        yield sys.stdout.write
        sys.stdout.flush()
        return
    with writing(path) as stream:
        yield lambda text: stream.write(text.encode())


class _Progress:
    """A bar on a terminal; a line now and then elsewhere."""

    def __init__(self, path: StrPath) -> None:
        self._bar = ProgressBar(_line_count(path) if sys.stderr.isatty() else None, "predicting", "rows")
        self._begin = self._told = monotonic()
        self._n_done = 0

    def advance(self, count: int) -> None:
        self._bar.advance(count)
        self._n_done += count
        now = monotonic()
        if not sys.stderr.isatty() and now - self._told > _SECONDS_BETWEEN_LINES:
            self._told = now
            logger.info("%s rows, %.0f a second", f"{self._n_done:,}", self._n_done / (now - self._begin))

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)


def _line_count(path: StrPath) -> int | None:
    """Return the number of lines of a text file, for the time left; None where that cannot be known beforehand."""
    if not Path(path).is_file() or _is_matrix(path):
        return None
    with reading(path) as stream:
        return sum(piece.count(b"\n") for piece in iter(lambda: stream.read(1 << 20), b""))


def _is_matrix(path: StrPath) -> bool:
    try:
        return detect_format(path) == "npz"
    except DataFormatError:  # plain texts, which have no format
        return False
