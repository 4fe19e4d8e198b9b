"""Small models of texts and of rows."""

from __future__ import annotations

import pytest
from small_data import dataset

from labelprism import PrismClassifier
from labelprism.data.dataset import Dataset
from labelprism.features import TextFeatures
from labelprism.filters import SpectralTree
from labelprism.heads import LogisticHead


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
