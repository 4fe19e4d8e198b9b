"""The embedded data set, and the tool that packed it."""

from __future__ import annotations

import importlib.util
import lzma
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from labelprism.data.dataset import Dataset
from labelprism.data.files import text_lines
from labelprism.data.tate import load_tate
from labelprism.data.text import read_tsv


@pytest.fixture(scope="module")
def tate() -> tuple[Dataset, Dataset]:
    return load_tate()


def names_in_row(data: Dataset, row: int) -> set[str]:
    return set(data.names_of(data.Y.indices[data.Y.indptr[row] : data.Y.indptr[row + 1]]))


def test_sizes(tate: tuple[Dataset, Dataset]) -> None:
    train, test = tate
    assert train.Y.shape == (47_369, 14_905)
    assert test.Y.shape == (11_432, 14_905)
    assert (train.Y.nnz, test.Y.nnz) == (675_823, 161_769)
    assert train.X is None
    assert test.X is None
    assert train.label_names == test.label_names


def test_every_row_has_text_and_labels_and_every_label_has_a_training_row(tate: tuple[Dataset, Dataset]) -> None:
    for data in tate:
        assert data.texts is not None
        assert all(text == text.strip() != "" for text in data.texts)
        assert np.diff(data.Y.indptr).min() >= 2
    assert np.bincount(tate[0].Y.indices, minlength=14_905).min() == 1


def test_known_rows(tate: tuple[Dataset, Dataset]) -> None:
    train, test = tate
    assert train.texts is not None
    assert test.texts is not None
    drawing = (
        "Six Drawings of Figures with Outstretched Arms Robert Blake Graphite on paper date not known on paper, unique"
    )
    row = train.texts.index(drawing)
    postures = {"arm/arms raised", "actions: postures and motions"}
    assert names_in_row(train, row) == postures | {"figure (451)", "adults", "group", "groups (97)", "people (91)"}
    assert test.texts[0].startswith("The Preaching of Warning. Verso: An Old Man Enthroned Between Two Groups")
    assert {"people (91)", "adults"} <= names_in_row(test, 0)


def test_names_that_were_shared_have_their_ids(tate: tuple[Dataset, Dataset]) -> None:
    names = tate[0].label_names
    assert names is not None
    assert {"Cinderella (5765)", "Cinderella (10043)", "Wharfedale"} <= set(names)
    assert "Cinderella" not in names


def test_the_files_are_small_and_say_where_they_come_from() -> None:
    folder = files("labelprism.data") / "tate"
    packed = ["train.tsv.xz", "test.tsv.xz", "labels.txt.xz"]
    assert sum(len((folder / name).read_bytes()) for name in packed) < 2_000_000
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for fact in ("CC0", "github.com/tategallery/collection", "47,369", "11,432", "14,905", *packed):
        assert fact in readme


# ---------------------------------------------------------------- the tool


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "pack_tate.py"
    spec = importlib.util.spec_from_file_location("pack_tate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    contents = {
        "labels": "11\tship\n12\tLondon\n13\tsea, open\n14\tLondon\n",
        "trn": "A ship\u2028at sea\nLondon Bridge\n",
        "tst": "London\n",
        "Y_trn": "2 4\n0 2\n3\n",
        "Y_tst": "1 4\n1 3\n",
    }
    for name, content in contents.items():
        (folder / f"{name}.txt.xz").write_bytes(lzma.compress(content.encode()))
    return folder


def test_packing_keeps_every_row(tool: ModuleType, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    sizes = tool.pack(source, target)
    assert sizes == {path.name: path.stat().st_size for path in target.iterdir()}
    names = [name for _, name in text_lines(target / "labels.txt.xz")]
    assert names == ["ship", "London (12)", "sea, open", "London (14)"]
    train = read_tsv(target / "train.tsv.xz", label_kind="id", label_names=names)
    assert train.texts == ["A ship\u2028at sea", "London Bridge"]
    np.testing.assert_array_equal(train.Y.toarray(), [[1, 0, 1, 0], [0, 0, 0, 1]])
    test = read_tsv(target / "test.tsv.xz", label_kind="id", label_names=names)
    assert test.texts == ["London"]
    np.testing.assert_array_equal(test.Y.toarray(), [[0, 1, 0, 1]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("Y_tst", "2 4\n1 3\n", "Y_tst says '2 4'"),
        ("Y_tst", "1 5\n1 3\n", "Y_tst says '1 5'"),
        ("Y_tst", "1 4\n1 3\n0\n", "Y_tst says"),
        ("tst", "Lon\tdon\n", "holds a TAB"),
        ("labels", "11\tship\n12\tx\n13\tx\n14\tx (12)\n", "another label has already"),
    ],
)
def test_sources_that_do_not_fit_are_refused(
    tool: ModuleType, source: Path, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (source / f"{name}.txt.xz").write_bytes(lzma.compress(content.encode()))
    with pytest.raises(ValueError, match=message):
        tool.pack(source, tmp_path / "target")
    assert not (tmp_path / "target").exists()
