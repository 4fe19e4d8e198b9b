"""Make the models that stay in tests/fixtures for ever, one set for each format; run once when a format is new.

    python tools/make_model_fixtures.py

Each folder also has `expected.json`: labels and scores for the texts or rows that it names.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from labelprism import PrismClassifier
from labelprism.features import TextFeatures
from labelprism.filters import SpectralTree
from labelprism.heads import LogisticHead
from labelprism.persistence import FORMAT_VERSION

ROOT = Path(__file__).parent.parent / "tests" / "fixtures" / f"models-format-{FORMAT_VERSION}"
WORDS = ["sea", "ship", "wave", "hill", "tree", "field", "house", "street", "bridge", "crowd"]
TEXTS = [f"{WORDS[i % 10]} {WORDS[(i * 3 + 1) % 10]} and {WORDS[(i * 7 + 2) % 10]}" for i in range(120)]
SUBJECTS = [tuple(sorted({word.upper() for word in text.split() if word != "and"})) for text in TEXTS]
ASKED = ["a ship on the sea", "Houses, a bridge, and a crowd", ""]


def keep(name: str, model: PrismClassifier, asked: object) -> None:
    """Save a model, and what it says of some rows."""
    model.save(ROOT / name)
    labels, scores = model.predict_topk(asked, 3)
    rows = asked if isinstance(asked, list) else np.asarray(asked).tolist()
    names = [[None if label < 0 else str(model.classes_[label]) for label in row] for row in labels]
    finite = [[float(score) if np.isfinite(score) else None for score in row] for row in scores]
    expected = {"asked": rows, "labels": names, "scores": finite}
    (ROOT / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")


def main() -> None:
    """Make all models of the present format."""
    ROOT.mkdir(parents=True)
    texts = PrismClassifier(features=TextFeatures(7, keep_names=True), random_state=0).fit(TEXTS, SUBJECTS)
    keep("texts", texts, ASKED)
    X = np.random.default_rng(0).random((60, 6)).astype(np.float32)
    X[np.arange(60), np.arange(60) % 6] += 3
    classes = np.array(["red", "green", "blue"])[np.arange(60) % 3]
    tree = SpectralTree(2, max_depth=3, verbose=False)
    keep("tree", PrismClassifier(tree, LogisticHead(passes=5), random_state=0).fit(X, classes), X[:4])


if __name__ == "__main__":
    main()
