"""A tiny corpus whose labels follow from its words, and models of it, made by the program itself."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from labelprism.cli import main
from labelprism.data import load, write_npz, write_xc
from labelprism.data.dataset import Dataset
from labelprism.features import TextFeatures

WORDS = {
    "ship": ["boat", "sail", "harbour", "mast"],
    "sea": ["wave", "water", "coast", "tide"],
    "portrait": ["man", "woman", "face", "sitter"],
    "tree": ["oak", "forest", "leaf", "branch"],
    "castle": ["tower", "wall", "ruin", "gate"],
    "dog": ["hound", "puppy", "bark", "leash"],
}
FILLING = ["the", "a", "of", "in", "with", "view", "study", "old", "young"]


def rows(n: int, seed: int) -> list[str]:
    """Lines of TSV: words of one to three labels, and words that say nothing."""
    draw = random.Random(seed)
    lines = []
    for _ in range(n):
        labels = draw.sample(sorted(WORDS), draw.choice([1, 1, 2, 3]))
        words = [draw.choice(WORDS[label]) for label in labels for _ in range(2)] + draw.sample(FILLING, 3)
        draw.shuffle(words)
        lines.append(f"{' '.join(words)}\t{','.join(sorted(labels))}")
    return lines


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv and test.tsv, and the same as matrices: X_trn.npz, X_tst.npz, test.txt (XC)."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "train.tsv").write_text("\n".join(rows(200, 0)) + "\n")
    (folder / "test.tsv").write_text("\n".join(rows(40, 1)) + "\n")
    train = load(folder / "train.tsv")
    test = load(folder / "test.tsv", label_names=train.label_names)
    features = TextFeatures(n_bits=8).fit(train.texts)
    for name, part in (("trn", train), ("tst", test)):
        matrices = Dataset(X=features.transform(part.texts), Y=part.Y, label_names=train.label_names)
        write_npz(matrices, folder / f"X_{name}.npz")
    write_xc(load(folder / "X_tst.npz"), folder / "test.txt")
    return folder


@pytest.fixture(scope="session")
def text_model(corpus: Path) -> str:
    path = str(corpus / "text-model")
    assert main(["train", str(corpus / "train.tsv"), "--out", path, "-q", "--n-bits", "10", "--n-jobs", "1"]) == 0
    return path


@pytest.fixture(scope="session")
def matrix_model(corpus: Path) -> str:
    path = str(corpus / "matrix-model")
    assert main(["train", str(corpus / "X_trn.npz"), "--out", path, "-q", "--n-jobs", "1"]) == 0
    return path
