"""`labelprism demo` and `make demo`: what the library can do, on the embedded data set, in under a minute."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from labelprism import PrismClassifier, metrics
from labelprism.cli import interrupts
from labelprism.data import Dataset, load_tate, write_jsonl
from labelprism.features import TextFeatures

N_RANKED = 10
N_SHOWN = 3


def run(arguments: argparse.Namespace) -> None:
    """Show what the library can do, or write the data that it is shown on: the command `demo`."""
    if arguments.write_data is None:
        main(as_json=arguments.json)
        return
    folder = Path(arguments.write_data)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(("train", "test"), load_tate(), strict=True):
        write_jsonl(part, folder / f"{name}.jsonl")
        print(f"{folder / name}.jsonl: {part.n_rows:,} works of the Tate with their subjects")


def show_examples(test: Dataset, predicted: np.ndarray, seed: int = 3) -> None:
    """Print a few test artworks with what was suggested and what is true."""
    assert test.texts is not None
    for row in np.random.default_rng(seed).choice(test.n_rows, N_SHOWN, replace=False):
        true = test.Y.indices[test.Y.indptr[row] : test.Y.indptr[row + 1]]
        suggested = [f"{'*' if label in true else ' '}{name}" for label, name in named(test, predicted[row, :8])]
        print(f"\n  {test.texts[row][:150]}")
        print(f"    suggested  {' | '.join(suggested)}   (* is right)")
        print(f"    true       {' | '.join(name for _, name in named(test, true))}")


def named(data: Dataset, labels: np.ndarray) -> list[tuple[int, str]]:
    """Return labels with their names; -1, where nothing was suggested, is left out."""
    assert data.label_names is not None
    return [(int(label), data.label_names[label]) for label in labels if label >= 0]


@contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    """Record the seconds that the block takes."""
    start = time.perf_counter()
    yield
    times[name] = time.perf_counter() - start


def main(as_json: bool = False) -> None:
    """Learn from the training artworks, suggest subjects for the others, and print how good they are.

    Parameters
    ----------
    as_json : bool
        Whether to print one JSON object, without examples.
    """
    times: dict[str, float] = {}
    with timed(times, "read the data"):
        train, test = load_tate()
    if not as_json:
        print(
            f"Tate collection: {train.n_rows} artworks to learn from, {test.n_rows} to test, {train.n_labels} subjects"
        )
    model = PrismClassifier(features=TextFeatures(n_jobs=-1), n_jobs=-1, random_state=0)
    with timed(times, "train"), interrupts.at_once():
        model.fit(train)
    with timed(times, "predict"):
        predicted, _ = model.predict_topk(test, N_RANKED)
    scores = metrics.evaluate(test.Y, predicted, train.Y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        model_bytes = sum(file.stat().st_size for file in Path(folder).rglob("*.npy"))
    shown = {name: scores[name] for name in ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")}
    if as_json:
        print(json.dumps({"seconds": times, "metrics": shown, "bytes": model_bytes}))
        return
    rows = [(f"seconds to {name}", f"{seconds:.1f}") for name, seconds in times.items()]
    rows += [(name, f"{100 * score:.1f}") for name, score in shown.items()]
    rows.append(("model size, MB", f"{model_bytes / 1e6:.0f}"))
    print("\n".join(f"  {name:38}{value:>8}" for name, value in rows))
    show_examples(test, predicted)


if __name__ == "__main__":
    main()
