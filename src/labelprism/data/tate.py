"""The embedded data set: titles of works in the Tate collection, with the subjects that they show."""

from __future__ import annotations

from importlib.resources import as_file, files

from labelprism.data.dataset import Dataset
from labelprism.data.files import text_lines
from labelprism.data.text import read_tsv


def load_tate() -> tuple[Dataset, Dataset]:
    """Load the subjects of the Tate collection: 58,801 works of art with 14,905 labels, about 14 a work.

    A text is a work's title, artist, medium, date, classification and series; its labels are the subjects it shows,
    with all their ancestors in Tate's subject tree. Half of the labels have one training example. It is real and it
    is here without a download: for first steps, examples and tests. Tate released the data under CC0; the README.md
    beside the files says how it was made.

    Returns
    -------
    train : Dataset
        47,369 rows with `texts`, `Y` and `label_names`; `X` is None.
    test : Dataset
        11,432 rows with the same columns.
    """
    folder = files("labelprism.data") / "tate"
    with as_file(folder / "labels.txt.xz") as path:
        names = [name for _, name in text_lines(path)]
    with as_file(folder / "train.tsv.xz") as path:
        train = read_tsv(path, label_kind="id", label_names=names)
    with as_file(folder / "test.tsv.xz") as path:
        test = read_tsv(path, label_kind="id", label_names=names)
    return train, test
