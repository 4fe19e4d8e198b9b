"""Draw the pictures of docs/algorithm.md from the embedded Tate collection, and from the tables of docs/benchmarks.md.

    python tools/draw_pictures.py [FOLDER] [--rows N]

FOLDER is docs/pictures unless another is given. Trees learn from N training rows, 15,000 when left out. The same
package and matplotlib give the same bytes.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

from labelprism import PrismClassifier, explore
from labelprism.data import Dataset, load_tate
from labelprism.features import TextFeatures
from labelprism.filters import SpectralTree
from labelprism.heads import ConstantHead

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXAMPLE = "A ship in a storm off the coast of Holland"
CANDIDATES = 200
SMALLEST = 0.04  # ways of less are not drawn
BENCHMARKS = ("tate-subjects", "wordnet-hypernym", "wordnet-ancestors", "debian-deps")


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=DOCS / "pictures")
    parser.add_argument("--rows", type=int, default=15_000, help="training rows (15,000), spread over all of them")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    train, test = load_tate()
    train = train.take(np.linspace(0, train.n_rows - 1, min(arguments.rows, train.n_rows)).astype(int))
    for name, figure in {**tree_pictures(train, test), **frontier_pictures()}.items():
        path = arguments.folder / f"{name}.svg"
        explore.save_picture(figure, path)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def tree_pictures(train: Dataset, test: Dataset) -> dict[str, object]:
    """Return the pictures of the paper's tree, and of a forest of the default recipe."""
    fractional, hard = paper_tree(train, "fractional"), paper_tree(train, "hard")
    forest = PrismClassifier(features=TextFeatures(), n_jobs=-1, random_state=0).fit(train)
    views = {
        "fractional, training rows": explore.tree_view(fractional, train),
        "fractional, test rows": explore.tree_view(fractional, test),
        "deterministic, training rows": explore.tree_view(hard, train),
        "deterministic, test rows": explore.tree_view(hard, test),
    }
    return {
        "node": explore.node_picture(explore.node_margins(fractional, train)),
        "node-refined": explore.node_picture(explore.node_margins(forest, train)),
        "ways": explore.ways_picture(explore.ways(fractional, [EXAMPLE], smallest=SMALLEST)),
        "ways-refined": explore.ways_picture(explore.ways(forest, [EXAMPLE], smallest=SMALLEST)),
        "recall-by-depth": explore.recall_picture(views),
    }


def paper_tree(train: Dataset, routing: str) -> PrismClassifier:
    """Return a tree of the paper, with a head that is of no account here."""
    tree = SpectralTree(CANDIDATES, routing=routing, verbose=False)
    return PrismClassifier(tree, ConstantHead(), features=TextFeatures(), n_jobs=-1, random_state=0).fit(train)


def frontier_pictures() -> dict[str, object]:
    """Return P@1 against the time of training and of prediction, as docs/benchmarks.md has them."""
    tables = benchmark_tables((DOCS / "benchmarks.md").read_text(encoding="utf-8"))
    found = {}
    for name, column, label in (
        ("frontier-training", "(CPU)", "training, CPU seconds"),
        ("frontier-prediction", "predict s", "prediction, seconds"),
    ):
        panels = {
            data: [
                explore.Timed(row["system"], float(row[column]), float(row["P@1"].strip("*")))
                for row in tables[data]
                if row["system"] != "labelprism tail"  # which is made for another measure
            ]
            for data in BENCHMARKS
        }
        found[name] = explore.frontier_picture(panels, label, "P@1, %")
    return found


def benchmark_tables(page: str) -> dict[str, list[dict[str, str]]]:
    """Return the tables between the marks that benchmarks/compare.py sets, by their headings."""
    results = page.split("<!-- tables -->")[1].split("<!-- end -->")[0]
    tables = {}
    for heading, text in re.findall(r"^### (.*)\n\n((?:\|.*\n)+)", results, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
        tables[heading] = [dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head)]
    return tables


if __name__ == "__main__":
    main()
