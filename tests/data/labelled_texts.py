"""What the tests of TSV and JSON Lines share: small data sets with texts, made and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from labelprism.data.dataset import Dataset

SUFFIXES = ["", ".gz", ".xz", ".zst"]


def file_with(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(data: Dataset) -> list[tuple[str, list[str]]]:
    """The data set as pairs of text and sorted label names, whatever the order of its columns."""
    assert data.texts is not None
    labels = np.split(data.Y.indices, data.Y.indptr[1:-1])
    return [(text, sorted(data.names_of(row))) for text, row in zip(data.texts, labels, strict=True)]


def same(first: Dataset, second: Dataset) -> bool:
    return (
        (first.texts, first.label_names) == (second.texts, second.label_names)
        and first.Y.shape == second.Y.shape
        and (first.Y != second.Y).nnz == 0
    )


def one_row(text: str = "text", name: str | None = "name") -> Dataset:
    return Dataset(Y=[[0], [1]], texts=["first", text], label_names=None if name is None else [name])


characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=30)
tsv_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\0\ufeff"), max_size=30)
any_names = st.lists(st.text(characters, min_size=1, max_size=8), unique=True, min_size=1, max_size=6)
tsv_names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\0,;<>"), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool),
    unique=True,
    min_size=1,
    max_size=6,
)


@st.composite
def datasets(draw: st.DrawFn, texts: st.SearchStrategy[str], names: st.SearchStrategy[list[str]] | None) -> Dataset:
    label_names = None if names is None else draw(names)
    n_labels = draw(st.integers(1, 6)) if label_names is None else len(label_names)
    rows = draw(st.lists(st.tuples(texts, st.sets(st.integers(0, n_labels - 1))), min_size=1, max_size=6))
    Y = np.zeros((len(rows), n_labels))
    for row, (_, labels) in enumerate(rows):
        Y[row, list(labels)] = 1
    if label_names is None:  # the file of ids ends at the largest one, so that one must occur
        Y[0, n_labels - 1] = 1
    return Dataset(Y=Y, label_names=label_names, texts=[text for text, _ in rows])
