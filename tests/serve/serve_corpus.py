"""A tiny corpus whose labels follow from its words, and a model of it."""

from __future__ import annotations

import random
from pathlib import Path

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


WORDS |= {f"thing {number}": [f"thing{number}{end}" for end in "abcd"] for number in range(100)}
"""Enough labels for trees that have more than a root."""


def corpus(n: int, seed: int) -> tuple[list[str], list[tuple[str, ...]]]:
    """Texts made of words of one to three labels, and the labels; every other text is of the first eight."""
    draw = random.Random(seed)
    names = list(WORDS)
    texts, labels = [], []
    for row in range(n):
        chosen = draw.sample(names[:8] if row % 2 else names[8:], draw.choice([1, 1, 2, 3]))
        words = [draw.choice(WORDS[label]) for label in chosen for _ in range(3)]
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(tuple(chosen))
    return texts, labels


def train_texts(path: Path, seed: int = 0) -> PrismClassifier:
    """Return a model of the corpus, which is also saved."""
    texts, labels = corpus(1000, seed)
    model = PrismClassifier(features=TextFeatures(n_bits=14, keep_names=True), n_jobs=1, random_state=0)
    model.fit(texts, labels).save(path)
    return model
