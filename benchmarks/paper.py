"""The tables of the paper, on its data or on others; Markdown on standard output, progress on standard error.

    python benchmarks/paper.py aloi SOURCE ...       # Table 4: flat rank-50 LR against tree + rank-50 LR
    python benchmarks/paper.py odp SOURCE ...        # Table 5: rank-300 LR on a label embedding against tree + LR
    python benchmarks/paper.py lshtc SOURCE ...      # Tables 6 and 7: rank-800 ILR against tree + ILR
    python benchmarks/paper.py purity SOURCE ...     # Table 3: purity of the root against random directions
    python benchmarks/paper.py ablation SOURCE ...   # growth, routes in training H, the leaf as task
    python benchmarks/paper.py pareto SOURCE ...     # accuracy against speed and depth, with a picture

A SOURCE is a folder of npz files, a folder with train.txt and test.txt of the Extreme Classification Repository, a file
of LIBSVM such as `aloi`, or `synthetic:aloi` (`aloi` takes that when no source is given); see paper_data.py. aloi, odp
and purity reduce rows with several labels to their first; ablation and pareto do so with --one-label. A picture needs
the extra `bench`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from paper_ablation import Curves, ablation_tables, draw, pareto_curves, pareto_tables
from paper_data import Split, load_split, of_frequent_labels, one_label_a_row, subsampled, unit_rows
from paper_models import Settings, say, table
from paper_purity import HEAD, PAPER, purity_rows
from paper_tables import aloi_table, lshtc_tables, odp_table
from timing import machine

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "paper-pareto.svg"
ONE_LABEL = ("aloi", "odp", "purity")


def run_each(write: Callable[[Split], str], sources: Iterable[Split]) -> None:
    for data in sources:
        print(write(data), flush=True)


def run_purity(a: argparse.Namespace, settings: Settings, sources: Iterable[Split]) -> None:
    rows = [row for data in sources for row in purity_rows(data, settings, a.directions)]
    print(table(HEAD, rows + PAPER))


def run_pareto(a: argparse.Namespace, settings: Settings, sources: Iterable[Split]) -> None:
    found: list[Curves] = []
    for data in sources:
        found.append(pareto_curves(data, settings, a.candidates, a.head))
        print(pareto_tables(found[-1]), flush=True)
    draw(found, a.picture)


def prepared(a: argparse.Namespace, source: str) -> Split:
    """Return the data of a source as the command needs it."""
    data = load_split(source)
    if a.command in ONE_LABEL or a.one_label:
        data = one_label_a_row(data)
    data = unit_rows(subsampled(of_frequent_labels(data, a.labels), a.rows), a.hellinger)
    say(data)
    return data


def whole_numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["aloi", "odp", "lshtc", "purity", "ablation", "pareto"])
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    parser.add_argument("--rows", type=int, help="take so many training rows, and at most as many test rows")
    parser.add_argument("--labels", type=int, help="keep so many labels, the most frequent ones, and their rows")
    parser.add_argument("--passes", type=int, default=20, help="passes of H over the examples")
    parser.add_argument(
        "--baseline-passes",
        type=int,
        help="those of the regression over all labels; as --passes by default, 0: odp and lshtc go without it",
    )
    parser.add_argument("--jobs", type=int, default=-1, help="threads; -1 is all cores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=whole_numbers, metavar="K,K", help="k; lshtc and pareto take several")
    parser.add_argument("--depth", type=int, default=14, help="depth limit of the trees")
    parser.add_argument("--noise", choices=["paper", "sqrt"], help="by default paper for sparse data, sqrt for dense")
    parser.add_argument("--hash-bits", type=int, default=15, help="hash more than 2^bits features to so many, for H")
    parser.add_argument("--rank", type=int, help="of the label embedding; 300 for odp and 800 for lshtc by default")
    parser.add_argument("--ridge", type=float, help="of the label embedding; by default the best on training rows")
    parser.add_argument("--fourier", type=int, default=4000, help="random Fourier features of the embedding, for lshtc")
    parser.add_argument("--head", choices=["logistic", "low_rank"], help="by default logistic for sparse data")
    parser.add_argument("--one-label", action="store_true", help="reduce rows to their first labels")
    parser.add_argument("--hellinger", action="store_true", help="values are counts: take the square roots of shares")
    parser.add_argument("--directions", type=int, default=10_000, help="random directions, for purity")
    parser.add_argument("--peers", type=Path, help="JSON lines of other programs' results, for aloi, odp and lshtc")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where pareto draws to")
    a = parser.parse_intermixed_args()
    if not a.sources:
        if a.command != "aloi":
            parser.error(f"{a.command} needs a SOURCE; --help says what that can be")
        a.sources = ["synthetic:aloi"]
    return a


def main() -> None:
    a = arguments()
    settings = Settings(
        passes=a.passes,
        baseline_passes=a.passes if a.baseline_passes is None else a.baseline_passes,
        jobs=a.jobs,
        seed=a.seed,
        max_depth=a.depth,
        noise=a.noise,
        hash_bits=a.hash_bits,
        embedding_rank=a.rank,
        ridge=a.ridge,
        fourier_features=a.fourier,
    )
    say(machine())
    sources = (prepared(a, source) for source in a.sources)  # one at a time in memory
    k = a.candidates[0] if a.candidates else None
    actions: dict[str, Callable[[], None]] = {
        "aloi": lambda: run_each(lambda data: aloi_table(data, settings, k, a.peers), sources),
        "odp": lambda: run_each(lambda data: odp_table(data, settings, k, a.peers), sources),
        "lshtc": lambda: run_each(lambda data: lshtc_tables(data, settings, a.candidates, a.peers), sources),
        "purity": lambda: run_purity(a, settings, sources),
        "ablation": lambda: run_each(lambda data: ablation_tables(data, settings, k, a.head), sources),
        "pareto": lambda: run_pareto(a, settings, sources),
    }
    actions[a.command]()


if __name__ == "__main__":
    main()
