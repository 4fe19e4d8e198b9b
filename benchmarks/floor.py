"""The least work of the default recipe, counted on real data, and how far from it we are.

    python benchmarks/floor.py FOLDER ...    # of X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz

Counts are of this algorithm, not of any that would do: the trees, candidates and weights are those of a model that was
trained. A multiply-add is one weight times one value; bytes are what must come from memory or go there if the cache
forgets nothing. Time is that of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from filter import bandwidth
from recipe import read
from sklearn.preprocessing import normalize
from timing import best_of, machine

from labelprism._arrays import csr_parts
from labelprism._stages import NoStages
from labelprism.filters import SpectralForest
from labelprism.heads.label_space import LIST_LABELS, MOST_LISTS, WIDTH
from labelprism.recipe import PRESETS, DefaultRecipe, _Training, fit_default

SETTINGS = PRESETS["default"]
CACHE = 1 << 20  # bytes; what is larger comes from memory again in every pass
SKETCH = 8  # numbers of a sketch
LOOKS_OF_HEAD = 2  # one that learns, and one that finds nothing left to do
FEW_FEATURES = 4096  # one_vs_rest.cpp: of rows of equal values features alone are read
COMPARED = 32  # labels that a row is told from in a pass of the space
LEVELS_OF_BLOCK = 3
ENTRY, FEATURE, VECTOR, LINE = 8, 2, 4 * WIDTH, 64  # bytes
SAMPLE = 2000


class Work(NamedTuple):
    """What must be computed and moved."""

    multiply_adds: float
    n_bytes: float


class Recorded(NoStages):
    """The nodes of every level, as they come."""

    is_kept = True

    def __init__(self) -> None:
        self.levels: list[dict[str, Any]] = []

    def save(self, name: str, arrays: Any) -> None:
        """Keep what is counted."""
        if name == "forest":
            self.levels.append({key: arrays[key] for key in ("node_indptr", "node_rows", "node_weight")})


class Counted(_Training):
    """A training that keeps what its head learns: labels or classes of rows, and candidates."""

    problems: tuple[Any, ...] | None = None

    def _head(self, rows: Any, found: Any, clusters: Any) -> Any:
        if self.settings.use_head:
            self.problems = self._classes(rows, found, clusters)
        return super()._head(rows, found, clusters)


def of_growth(X: sp.csr_array, Y: sp.csr_array, forest: SpectralForest, levels: list[dict[str, Any]]) -> Work:
    """Return the work of the nodes that are split, whose rows are copied without features that only one of them has.

    A direction takes two products with blocks for each step of the sketch, a refinement two passes, which read weights
    and move them; margins are made for votes, and again for the routes of all rows.
    """
    n = X.shape[0]
    to_learn = 2 * SKETCH * forest.sketch_steps + 2 * 2 * forest.refine_rounds + 2
    passes = 2 * forest.sketch_steps + 2 * forest.refine_rounds + 3
    roots = {"node_indptr": np.arange(forest.n_trees + 1) * n, "node_rows": np.tile(np.arange(n), forest.n_trees)}
    roots["node_weight"] = np.ones(roots["node_rows"].size, np.float32)
    multiply_adds, n_bytes = 0.0, 0.0
    for level in [roots, *levels]:
        for begin, end in pairwise(level["node_indptr"].tolist()):
            rows = level["node_rows"][begin:end]
            if rows.size < forest.min_rows:
                continue
            mass = np.sort(level["node_weight"][begin:end] @ Y[rows])[::-1]
            if mass[: forest.stop_labels].sum() >= forest.target_recall * mass.sum():
                continue
            held = X[rows]
            shared = int((np.bincount(held.indices, minlength=X.shape[1])[held.indices] > 1).sum())
            learned = shared * min(1.0, forest.max_rows / rows.size)
            multiply_adds += to_learn * learned + shared
            n_bytes += 2 * ENTRY * shared + (ENTRY * learned * (passes - 1) if ENTRY * learned > CACHE else 0)
    return Work(multiply_adds, n_bytes)


def of_space(X: sp.csr_array, passes: int) -> Work:
    """Return the work of a space: rows are summed up and compared, features moved, labels summed up, pass by pass."""
    in_a_pass = 3 * WIDTH * X.nnz + 2 * COMPARED * WIDTH * X.shape[0]
    return Work(passes * in_a_pass, passes * (2 * VECTOR * X.shape[1] + 2 * ENTRY * X.nnz))


def of_head(X: sp.csr_array, problems: tuple[Any, ...]) -> Work:
    """Return the work of classifiers, each of which copies the rows that have its label or might.

    Rows of equal values are not copied: their features are read as they lie.
    """
    Y, indptr, classes = problems
    met = sp.csr_array(
        (np.ones(indptr[X.shape[0]], np.float32), classes[: indptr[X.shape[0]]], indptr[: X.shape[0] + 1])
    )
    met.resize(Y.shape)
    entries = float(np.diff(sp.csr_array(met + Y).indptr) @ np.diff(X.indptr))
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    is_equal = bool((X.data == X.data[X.indptr[:-1][rows]]).all()) and X.shape[1] <= FEW_FEATURES
    return Work(LOOKS_OF_HEAD * entries, (LOOKS_OF_HEAD * FEATURE if is_equal else 2 * ENTRY) * entries)


def of_routing(model: DefaultRecipe, X: sp.csr_array, smallest: float, noise_scale: float) -> tuple[float, Work]:
    """Return how many entries of leaves are reached, and the work of the ways there."""
    children = model.arrays["forest_children"]
    inner = np.flatnonzero(children >= 0)
    parent = np.full(children.size, -1)
    parent[children[inner]] = parent[children[inner] + 1] = inner
    depth = np.zeros(children.size, np.int64)
    for node in np.flatnonzero(parent >= 0):  # children come after their parents
        depth[node] = depth[parent[node]] + 1
    indptr, leaves, _ = model._scorer.leaf_probabilities(*csr_parts(X), smallest, noise_scale)
    leaf_sizes = np.diff(model.arrays["forest_leaf_begin"])
    nodes, rows = np.flatnonzero(children < 0)[leaves], np.repeat(np.arange(X.shape[0]), np.diff(indptr))
    seen = set()
    while nodes.size:
        inside = parent[nodes] >= 0
        nodes, rows = parent[nodes[inside]], rows[inside]
        seen |= set(zip(rows.tolist(), nodes.tolist(), strict=True))
    at = np.array(sorted(seen), np.int64).reshape(-1, 2)
    visits = sp.csr_array((np.ones(len(at), np.float32), (at[:, 0], at[:, 1])), shape=(X.shape[0], children.size))
    weights = float((visits @ (model.forest_.routers_ != 0).astype(np.float32)).multiply(X != 0).sum())
    blocks = np.bincount(at[depth[at[:, 1]] % LEVELS_OF_BLOCK == 0, 0], minlength=X.shape[0])
    return float(leaf_sizes[leaves].sum()), Work(weights, LINE * float(blocks @ np.diff(X.indptr)))


def of_scores(model: DefaultRecipe, X: sp.csr_array) -> tuple[float, float]:
    """Return the pairs of weights of candidates that rows have features of, and how many candidates there are."""
    candidates = model.candidates(X)
    pattern = ((model.head_ != 0) + (model.centroids_ != 0)).astype(np.float32)  # without a head centroids alone
    candidates.data[:] = 1
    return 2 * float((candidates.astype(np.float32) @ pattern).multiply(X != 0).sum()), float(candidates.nnz)


def of_retrieval(model: DefaultRecipe, X: sp.csr_array, n_features: int) -> float:
    """Return the entries of the lists of strong features that centroids are looked for in, and that have votes."""
    lengths = np.zeros(X.shape[1])
    for name in ("label_near_begin", "label_vote_begin"):
        if model.arrays[name].size:  # there are such lists
            lengths += np.diff(model.arrays[name])
    strongest = (X.indices[begin:end][np.argsort(-X.data[begin:end])[:n_features]] for begin, end in pairwise(X.indptr))
    return float(sum(lengths[features].sum() for features in strongest))


def of_neighbours(model: DefaultRecipe, X: sp.csr_array, n_candidates: float) -> float:
    """Return the multiply-adds of a space: for features, candidates, centres of lists and labels of some lists."""
    if "space_features" not in model.arrays:
        return 0.0
    compared = n_candidates
    if "space_lists" in model.arrays:
        n_lists = int(model.arrays["space_lists"].max()) + 1
        looked_through = float(np.clip(np.sqrt(n_lists) / 5, 4, MOST_LISTS))
        compared += X.shape[0] * (n_lists + looked_through * LIST_LABELS)
    return WIDTH * (X.nnz + compared)


def training(X: sp.csr_array, Y: sp.csr_array, name: str, rate: float) -> DefaultRecipe:
    """Print the work of a training, stage by stage, and return the model."""
    recorded = Recorded()
    trainer = Counted(SETTINGS, "precision", 1, 0, recorded)
    rows = trainer._split(X, Y, None)
    trainer.run(X, Y, None, None)
    model = fit_default(X, Y, preset=SETTINGS, n_jobs=1)
    settings = trainer.settings
    sample = rows.seen.X[:: max(rows.n_seen // SAMPLE, 1)]
    narrow = (settings.training_smallest, settings.training_noise_scale)
    reached, routes = of_routing(model, sample, *narrow)
    scale = rows.X.shape[0] / sample.shape[0]
    near = of_retrieval(model, sample, settings.for_examples().strong_features)
    found = Work(scale * (routes.multiply_adds + reached + near), scale * (routes.n_bytes + ENTRY * (reached + near)))
    for stage, work in {
        "forest": of_growth(rows.seen.X, rows.seen.Y, SpectralForest(**settings.forest), recorded.levels),
        "candidates": found,
        "space": of_space(rows.seen.X, settings.space_passes),
        "head": Work(0, 0) if trainer.problems is None else of_head(rows.X, trainer.problems),
    }.items():
        if work.multiply_adds == 0:  # there is no such stage
            continue
        seconds = model.stage_seconds_[stage]
        print(
            f"| {name} | {stage} | {work.multiply_adds / 1e6:,.0f} | {work.n_bytes / 1e6:,.0f} "
            f"| {work.n_bytes / rate:.2f} | {seconds:.2f} | {1e9 * seconds / work.multiply_adds:.2f} |",
            flush=True,
        )
    return model


def prediction(model: DefaultRecipe, X: sp.csr_array) -> str:
    """Return the work of one prediction, and its time, as a line of a table."""
    X = X[:SAMPLE]
    unit = sp.csr_array(normalize(X))
    n = X.shape[0]
    reached, routes = of_routing(model, unit, model._smallest, 1.0)
    near, (scores, n_candidates) = of_retrieval(model, unit, model.settings.strong_features), of_scores(model, unit)
    space = of_neighbours(model, unit, n_candidates)
    parts = [routes.multiply_adds, reached, near, scores, space]
    lines = routes.n_bytes / LINE + (ENTRY * (reached + near) + 4 * scores / 2 + space) / LINE
    batch = best_of(lambda: model.predict_topk(X, 5, 1), 3)
    singles = []
    for row in (X[[i]] for i in range(min(n, 1000))):
        start = time.perf_counter()
        model.predict_topk(row, 5)
        singles.append(time.perf_counter() - start)
    cells = [X.nnz / n, n_candidates / n, *(part / n for part in parts), sum(parts) / n, lines / n]
    times = f"{1e6 * batch / n:.1f} | {1e6 * float(np.median(singles)):.1f}"
    return " | ".join(f"{cell:,.0f}" for cell in cells) + f" | {times} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    folders = parser.parse_args().folders
    rate = bandwidth(1)
    print(f"{machine()}; {rate / 1e9:.1f} GB/s", file=sys.stderr)
    print("| | stage | multiply-adds, M | to move, MB | s at the rate of a copy | s | ns a multiply-add |")
    print("|---" * 7 + "|")
    of_predictions = []
    for folder in folders:
        X, Y, X_test, _ = read(folder)
        for matrix in (X, Y):  # as `fit_default` would
            matrix.sort_indices()
        name = folder.rstrip("/").split("/")[-1]
        model = training(X, Y, name, rate)
        of_predictions.append(f"| {name} | {prediction(model, X_test)}")
    print(
        "\n| | z | candidates | routers | leaves | centroids, votes | scores | space | all | lines | us a row | one |"
    )
    print("|---" * 12 + "|", *of_predictions, sep="\n")


if __name__ == "__main__":
    main()
