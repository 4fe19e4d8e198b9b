"""What it buys to take the names of labels as training rows (`Dataset.with_names_as_rows`).

    python benchmarks/label_names.py FOLDER ... [--jobs 2]

FOLDER holds texts, one a line, in trn.txt and tst.txt; Y_trn.npz and Y_tst.npz; and labels.txt, a line for each label:
an identifier, a TAB, its name.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import scipy.sparse as sp
from timing import machine

from labelprism import PrismClassifier, metrics
from labelprism.data import Dataset
from labelprism.features import TextFeatures

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def read(folder: Path) -> tuple[Dataset, Dataset, list[str]]:
    train, test = (
        Dataset(texts=lines_of(folder / f"{part}.txt"), Y=sp.load_npz(folder / f"Y_{part}.npz"))
        for part in ("trn", "tst")
    )
    return train, test, [line.split("\t")[1].replace("_", " ") for line in lines_of(folder / "labels.txt")]


def measure(folder: Path, n_jobs: int) -> None:
    train, test, names = read(folder)
    for what, rows in {"without": train, "with": train.with_names_as_rows(names)}.items():
        start = time.process_time()
        model = PrismClassifier(features=TextFeatures(), n_jobs=n_jobs, random_state=0).fit(rows)
        seconds = time.process_time() - start
        scores = metrics.evaluate(test.Y, model.predict_topk(test, 5)[0], train.Y)
        cells = " | ".join(f"{100 * scores[name]:.1f}" for name in METRICS)
        print(f"| {folder.name} | {what} | {cells} | {seconds:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(machine(), file=sys.stderr)
    print(f"| data | names | {' | '.join(METRICS)} | CPU s |\n" + "|---" * 8 + "|")
    for folder in arguments.folders:
        measure(folder, arguments.jobs)


if __name__ == "__main__":
    main()
