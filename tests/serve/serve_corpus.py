"""A tiny corpus whose labels follow from its words, and a model of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from labelprism import PrismClassifier
from labelprism.features import TextFeatures

WORDS = {
    "ship": ["boat", "sail", "harbour", "mast"],
    "sea": ["wave", "water", "coast", "tide"],
    "portrait": ["man", "woman", "face", "sitter"],
    "tree": ["oak", "forest", "leaf", "branch"],
    "castle": ["tower", "wall", "ruin", "gate"],
    "dog": ["hound", "puppy", "bark", "leash"],
    "<b>bold & \"quoted\"</b>": ["bold", "quoted", "markup", "tag"],
    "straße": ["weg", "gasse", "straße", "platz"],
}  # fmt: skip


def corpus(n: int, seed: int) -> tuple[list[str], list[tuple[str, ...]]]:
    """Texts made of words of one to three labels, and the labels."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(n):
        chosen = draw.sample(sorted(WORDS), draw.choice([1, 1, 2, 3]))
        words = [draw.choice(WORDS[label]) for label in chosen for _ in range(3)]
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(tuple(chosen))
    return texts, labels


def train_texts(path: Path, seed: int = 0, **options: Any) -> PrismClassifier:
    texts, labels = corpus(250, seed)
    features = TextFeatures(n_bits=10, keep_names=True)
    model = PrismClassifier(features=features, n_jobs=1, random_state=0, **options).fit(texts, labels)
    model.save(path)
    return model
