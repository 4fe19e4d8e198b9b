"""Small models of texts and of rows, whose labels follow from words; some names are an attack on the page."""

from __future__ import annotations

import random

import pytest

from labelprism import PrismClassifier
from labelprism.data.dataset import Dataset
from labelprism.features import TextFeatures
from labelprism.filters import SpectralTree
from labelprism.heads import LogisticHead

HOSTILE = "</script><script>window.hacked=1</script>"
MARKUP = '<b>bold & "quoted"</b> $x$'
N_LABELS = 120


def label_names() -> tuple[str, ...]:
    return (HOSTILE, MARKUP, "Überschrift · 漢字", *(f"subject {number}" for number in range(3, N_LABELS)))


def dataset(n_rows: int, seed: int) -> Dataset:
    """Each label has two words of its own and one of its group of ten; a few rows have no label."""
    draw = random.Random(seed)
    texts, rows = [], []
    for place in range(n_rows):
        labels = [] if place % 97 == 96 else draw.sample(range(N_LABELS), draw.choice([1, 1, 2, 3]))
        if labels and draw.random() < 0.5:
            labels = sorted({*labels, labels[0] // 10 * 10})  # the first of each group is frequent
        words = [word for label in labels for word in (f"own{label}", f"also{label}", f"group{label // 10}")]
        draw.shuffle(words)
        texts.append(" ".join([*words, draw.choice(["plain", "old", "new"])]))
        rows.append([1.0 if label in labels else 0.0 for label in range(N_LABELS)])
    return Dataset(Y=rows, texts=texts, label_names=label_names())


@pytest.fixture(scope="session")
def train() -> Dataset:
    return dataset(900, 0)


@pytest.fixture(scope="session")
def test() -> Dataset:
    return dataset(150, 1)


@pytest.fixture(scope="session")
def text_model(train: Dataset) -> PrismClassifier:
    """The default recipe: a forest, texts, names of features."""
    features = TextFeatures(n_bits=12, keep_names=True)
    return PrismClassifier(features=features, random_state=0, n_jobs=1).fit(train)


@pytest.fixture(scope="session")
def matrices(train: Dataset, test: Dataset) -> tuple[Dataset, Dataset]:
    features = TextFeatures(n_bits=9).fit(train.texts)
    return tuple(
        Dataset(X=features.transform(part.texts), Y=part.Y, label_names=part.label_names) for part in (train, test)
    )


@pytest.fixture(scope="session")
def tree_model(matrices: tuple[Dataset, Dataset]) -> PrismClassifier:
    """A filter and a head: one tree, rows of numbers, features without names."""
    tree = SpectralTree(n_candidates=8, max_depth=5, verbose=False)
    return PrismClassifier(tree, LogisticHead(passes=2), random_state=0, n_jobs=1).fit(matrices[0])
