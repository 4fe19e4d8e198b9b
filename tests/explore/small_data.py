"""Texts whose labels follow from words; some names of labels are an attack on the page."""

from __future__ import annotations

import random

from labelprism.data.dataset import Dataset

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
