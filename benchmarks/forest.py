"""What the steps and parameters of the forest buy, and what they cost.

    python benchmarks/forest.py FOLDER ... [--only SETTING ...]     # a line for each folder and setting

FOLDER holds X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz. Rows are made unit. Recall is the mean over test rows of the
share of a row's labels among its k best candidates. Seconds are CPU seconds on one thread, which neighbours on the
machine disturb less than wall seconds.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from timing import machine

from labelprism.filters import SpectralForest
from labelprism.filters.base import largest_entries

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "1 tree": {"n_trees": 1},
    "3 trees": {"n_trees": 3},
    "no refinement": {"refine_rounds": 0},
    "1 round": {"refine_rounds": 1},
    "3 rounds": {"refine_rounds": 3},
    "1 pass": {"refine_passes": 1},
    "5 passes": {"refine_passes": 5},
    "krylov, 1 block": {"solver": "krylov"},
    "krylov, 2 blocks": {"solver": "krylov", "n_blocks": 2},
    "krylov, 2 blocks, 2 CG steps": {"solver": "krylov", "n_blocks": 2, "cg_iterations": 2},
    "sketch, 1 step": {"sketch_steps": 1},
    "hard growth": {"routing": "hard"},
    "hard growth, 3 trees": {"routing": "hard", "n_trees": 3},
    "hard growth, 3 trees, leaves of 100": {"routing": "hard", "n_trees": 3, "stop_labels": 100},
    "hard growth, 3 trees, smallest 0.08": {"routing": "hard", "n_trees": 3, "smallest": 0.08},
    "growth noise 0.05": {"growth_noise": 0.05},
    "growth noise 0.2": {"growth_noise": 0.2},
    "noise 0.1 in use too": {"noise": 0.1},
    "one leaf a tree": {"smallest": 1.0},
    "smallest 0.02": {"smallest": 0.02},
    "prune below 0.1": {"prune_below": 0.1},
    "leaves of 30": {"stop_labels": 30},
    "leaves of 100": {"stop_labels": 100},
    "at most 4096 rows": {"max_rows": 4096},
    "features of 1 row": {"min_feature_rows": 1},
    "features of 3 rows": {"min_feature_rows": 3},
    "all weights": {"drop_weight": 0.0},
    "weights over 0.1": {"drop_weight": 0.1},
    "all leaf labels": {"drop_share": 0.0},
    "leaf labels over 0.004": {"drop_share": 0.004},
}


def cpu_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    def now() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    start = now()
    result = function()
    return now() - start, result


def recall(candidates: sp.csr_array, Y: Any, k: int) -> float:
    best = largest_entries(candidates, k)
    best.data[:] = 1
    counts = np.diff(Y.indptr)
    hits = np.asarray(best.multiply(Y).sum(axis=1)).ravel()[counts > 0]
    return float(100 * (hits / counts[counts > 0]).mean())


def measure(folder: str, name: str, parameters: dict[str, Any]) -> str:
    X, Y, X_test, Y_test = (
        sp.load_npz(Path(folder) / f"{n}.npz").tocsr() for n in ("X_trn", "Y_trn", "X_tst", "Y_tst")
    )
    X, X_test = normalize(X), normalize(X_test)
    forest = SpectralForest(400, random_state=0, **parameters)
    grow, _ = cpu_seconds(lambda: forest.fit(X, Y))
    prepare, _ = cpu_seconds(lambda: forest.scorer_)
    use = min(cpu_seconds(lambda: forest.candidates(X_test, 200))[0] for _ in range(3))
    train, _ = cpu_seconds(lambda: forest.training_candidates(X, 200))
    candidates = forest.candidates(X_test)
    recalls = " ".join(f"{recall(candidates, Y_test, k):5.1f}" for k in (50, 100, 200, 400))
    return (
        f"{Path(folder).name:18} {name:28} {recalls} {grow + prepare:6.2f} s {train:6.2f} s "
        f"{1e6 * use / X_test.shape[0]:6.1f} us {forest.leaf_nodes_.size:6} leaves "
        f"{forest.routers_.nnz / 1e6:6.2f} M weights {forest.leaf_candidates_.nnz / 1e6:6.2f} M leaf labels"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--only", nargs="*", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    arguments = parser.parse_args()
    print(machine(), file=sys.stderr)
    print("recall at 50, 100, 200, 400; CPU seconds to grow and to score the training rows; us to score a test row")
    for folder in arguments.folders:
        for name in arguments.only:
            print(measure(folder, name, SETTINGS[name]), flush=True)


if __name__ == "__main__":
    main()
