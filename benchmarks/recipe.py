"""What each step of the default recipe buys, and how its training time grows.

    python benchmarks/recipe.py ablation FOLDER ...    # every step switched off by itself
    python benchmarks/recipe.py trees FOLDER ...       # more trees and candidates, on a fifth of the training rows
    python benchmarks/recipe.py settings FOLDER ...    # other numbers in the settings, on the same rows
    python benchmarks/recipe.py candidates FOLDER ...  # more or fewer of them for each label of a row, on the same rows
    python benchmarks/recipe.py scaling FOLDER         # training time against rows and labels

With --runs N the fifth of the training rows is of runs of N neighbours: where like rows lie together, few of them are
learned from then; with --splits N means are of so many fifths that are drawn. FOLDER holds X_trn.npz, Y_trn.npz,
X_tst.npz and Y_tst.npz. Seconds of training and microseconds of prediction are of CPU, which neighbours on the machine
disturb less than those of the clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from timing import machine

from labelprism import metrics
from labelprism.recipe import PRESETS, RecipeSettings, fit_default

DEFAULT = PRESETS["default"]


def with_forest(**changes: Any) -> RecipeSettings:
    return replace(DEFAULT, forest={**DEFAULT.forest, **changes})


STEPS: dict[str, RecipeSettings] = {
    "default": DEFAULT,
    "no router refinement": with_forest(refine_rounds=0),
    "both ways in growth": with_forest(routing="fractional", growth_noise=0.05, prune_below=0.3),
    "two steps of the sketch": with_forest(sketch_steps=2),
    "one leaf a tree": with_forest(smallest=1.0),
    "one tree": replace(DEFAULT, more_trees=0, forest_of_few={}),
    "trees as elsewhere where labels are few": replace(DEFAULT, forest_of_few={}, forest_of_fewest={}),
    "leaves of 30 labels": with_forest(stop_labels=30),
    "clusters of 100 labels": replace(DEFAULT, cluster_labels=100),
    "one tree more": with_forest(n_trees=2),
    "no clusters of labels": replace(DEFAULT, label_clusterings=0, more_trees=0),
    "a tree in place of clusters of labels": replace(with_forest(n_trees=2), label_clusterings=0),
    "two clusterings of labels": replace(DEFAULT, label_clusterings=2),
    "no space of features and labels": replace(DEFAULT, space_passes=0),
    "five passes for the space": replace(DEFAULT, space_passes=5),
    "a space that keeps all candidates and finds none": replace(DEFAULT, kept_candidates=0),
    "a space that keeps 30 candidates and finds none": replace(DEFAULT, space_candidates=0),
    "as many candidates kept in training": replace(DEFAULT, training_share=1.0),
    "candidates by votes in training too": replace(DEFAULT, training_votes=DEFAULT.vote_candidates),
    "three passes of the head": replace(DEFAULT, head={**DEFAULT.head, "passes": 3}),
    "leaves of 30 labels beside a space": replace(DEFAULT, sieved_leaf_labels=30),
    "rows look for candidates in the space, no trees": replace(DEFAULT, mined_from_rows=0),
    "no head": replace(DEFAULT, use_head=False, more_trees=0),
    "no centroids": replace(DEFAULT, centroid_candidates=0),
    "centroids for rows of several labels too": replace(DEFAULT, centroids_up_to_labels_per_row=1e9),
    "no votes": replace(DEFAULT, vote_candidates=0),
    "votes and centroids for few labels too": replace(DEFAULT, retrieval_from_labels=0),
    "routers of large nodes from all rows": with_forest(max_rows=None),
    "no near examples": replace(DEFAULT, longest_example_list=0),
    "no more candidates for several labels": replace(
        DEFAULT, candidates_per_label=0.0, training_candidates_per_label=0.0
    ),
    "blend not learned": replace(DEFAULT, use_learned_blend=False),
    "rows not made unit": replace(DEFAULT, unit_rows=False),
    "fast": PRESETS["fast"],
    "accurate": PRESETS["accurate"],
}


UNCLUSTERED = replace(DEFAULT, label_clusterings=0)
TREES: dict[str, RecipeSettings] = {
    "default": DEFAULT,
    **{f"{n} trees, no clusters": replace(UNCLUSTERED, forest={**DEFAULT.forest, "n_trees": n}) for n in (2, 3, 6, 9)},
    "accurate without clusters": replace(PRESETS["accurate"], label_clusterings=0),
    "accurate: 9, 50 candidates, 5 clusterings": PRESETS["accurate"],
    "accurate, more leaves": replace(PRESETS["accurate"], forest={**PRESETS["accurate"].forest, "smallest": 0.05}),
}

SETTINGS: dict[str, RecipeSettings] = {
    "default: leaves of 60 labels, tolerance 0.8": DEFAULT,
    "50, 0.5": replace(with_forest(stop_labels=50), head={"tolerance": 0.5}),
    "50, 0.8": replace(with_forest(stop_labels=50), head={"tolerance": 0.8}),
    "80, 0.5": replace(with_forest(stop_labels=80), head={"tolerance": 0.5}),
    "two clusterings": replace(DEFAULT, label_clusterings=2),
    **{name: STEPS[name] for name in ("both ways in growth", "two steps of the sketch", "no votes")},
    "centroids for rows of several labels too": STEPS["centroids for rows of several labels too"],
    "ways from a quarter on": with_forest(smallest=0.25),
    "100 candidates in prediction": replace(DEFAULT, forest_candidates=100),
    "50 candidates, 30 by votes": replace(DEFAULT, forest_candidates=50, training_candidates=50, vote_candidates=30),
    "lists of 16 for votes": replace(DEFAULT, longest_vote_list=16),
    "60 centroids from lists of 1,024": replace(DEFAULT, centroid_candidates=60, longest_list=1024),
    "accurate: five clusterings, 50 candidates": PRESETS["accurate"],
    "three": replace(PRESETS["accurate"], label_clusterings=3),
    "five, 200 in prediction": replace(PRESETS["accurate"], forest_candidates=200),
}

CANDIDATES: dict[str, RecipeSettings] = {
    f"{to_learn:g} to learn from, {to_predict:g} to predict with": replace(
        DEFAULT, training_candidates_per_label=to_learn, candidates_per_label=to_predict
    )
    for to_learn, to_predict in ((4.0, 4.0), (6.0, 4.0), (6.0, 3.0), (6.0, 2.0))
}

HELD_OUT = {"trees": TREES, "settings": SETTINGS, "candidates": CANDIDATES}


def read(folder: str) -> tuple[sp.csr_array, ...]:
    names = ("X_trn", "Y_trn", "X_tst", "Y_tst")
    X, Y, X_test, Y_test = (sp.csr_array(sp.load_npz(Path(folder) / f"{name}.npz")) for name in names)
    return X, Y, X_test, Y_test


def held_out(X: sp.csr_array, Y: sp.csr_array, run: int, seed: int) -> tuple[sp.csr_array, ...]:
    """Return the training rows but a fifth, and that fifth, for choices that test rows must not make."""
    n_runs = -(-X.shape[0] // run)
    is_held_out = np.zeros(n_runs, bool)
    is_held_out[np.random.default_rng(7 + seed).permutation(n_runs)[: n_runs // 5]] = True
    others = is_held_out[np.arange(X.shape[0]) // run]
    return X[~others], Y[~others], X[others], Y[others]


METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")


def measured(rows: tuple[sp.csr_array, ...], settings: RecipeSettings, seed: int, n_jobs: int) -> list[float]:
    """Return the metrics, CPU seconds of training and CPU microseconds of a prediction."""
    X, Y, X_test, Y_test = rows
    start = time.process_time()
    model = fit_default(X, Y, preset=settings, n_jobs=n_jobs, random_state=seed)
    trained = time.process_time()
    ranking, _ = model.predict_topk(X_test, 5, n_jobs)
    predicted = time.process_time()
    scores = metrics.evaluate(Y_test, ranking, Y)
    return [*(100 * scores[key] for key in METRICS), trained - start, 1e6 * (predicted - trained) / X_test.shape[0]]


def ablation(folders: list[str], steps: dict[str, RecipeSettings], run: int | None, n_splits: int, n_jobs: int) -> None:
    """Print what each setting comes to: on test rows, or on training rows that are held out in runs."""
    print(f"| data | step | {' | '.join(METRICS)} | CPU s | us a row |\n" + "|---" * 9 + "|")
    for folder in folders:
        X, Y, X_test, Y_test = read(folder)
        for name, settings in steps.items():
            found = []
            for split in range(1 if run is None else n_splits):
                rows = (X, Y, X_test, Y_test) if run is None else held_out(X, Y, run, split)
                found.append(measured(rows, settings, split, n_jobs))
            *scores, seconds, microseconds = np.mean(found, axis=0)
            cells = " | ".join(f"{score:.2f}" for score in scores)
            print(f"| {Path(folder).name} | {name} | {cells} | {seconds:.1f} | {microseconds:.0f} |", flush=True)


def scaling(folder: str, n_jobs: int) -> None:
    X, Y, _, _ = read(folder)
    order = np.random.default_rng(0).permutation(X.shape[0])
    print("| rows | labels | CPU s |\n|---|---|---|")
    points = []
    for share in (8, 4, 2, 1):
        rows = np.sort(order[: X.shape[0] // share])
        points.append((rows.size, seconds_of(X[rows], Y[rows], n_jobs)))
    print_exponent("rows", points)
    points = []
    for share in (8, 4, 2, 1):  # labels of neighbouring numbers become one
        merged = sp.csr_array((Y.data, Y.indices // share, Y.indptr), shape=(Y.shape[0], -(-Y.shape[1] // share)))
        merged.sum_duplicates()
        points.append((merged.shape[1], seconds_of(X, merged, n_jobs)))
    print_exponent("labels", points)


def seconds_of(X: sp.csr_array, Y: sp.csr_array, n_jobs: int) -> float:
    start = time.process_time()
    fit_default(X, Y, n_jobs=n_jobs)
    seconds = time.process_time() - start
    print(f"| {X.shape[0]:,} | {Y.shape[1]:,} | {seconds:.1f} |", flush=True)
    return seconds


def print_exponent(name: str, points: list[tuple[int, float]]) -> None:
    sizes, seconds = np.log(np.array(points)).T
    print(f"\ntime grows with {name}^{np.polyfit(sizes, seconds, 1)[0]:.2f}\n", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ablation", *HELD_OUT, "scaling"])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1, help="rows are held out in runs of so many")
    parser.add_argument("--splits", type=int, default=1, help="so many times")
    arguments = parser.parse_args()
    print(machine(), file=sys.stderr)
    if arguments.what == "ablation":
        ablation(arguments.folders, STEPS, None, 1, arguments.jobs)
    elif arguments.what in HELD_OUT:
        ablation(arguments.folders, HELD_OUT[arguments.what], arguments.runs, arguments.splits, arguments.jobs)
    else:
        scaling(arguments.folders[0], arguments.jobs)


if __name__ == "__main__":
    main()
