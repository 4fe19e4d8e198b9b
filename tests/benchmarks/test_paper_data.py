"""The loaders of the paper's tables, on small files of the formats of the originals."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp

ALOI_ROWS = 40
XC_TRAIN = "4 5 6\n0,3 0:1 4:2\n2 1:1.5\n5,1 2:1 3:1\n 0:3\n"
XC_TEST = "2 5 6\n3 0:1\n1,2 4:1\n"


@pytest.fixture
def paper_data() -> ModuleType:
    import paper_data

    return paper_data


def write_aloi(path: Path, per_row: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Write a file as LIBSVM's `aloi` is: class numbers from 0, features from 1, zeros left out."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 99, (ALOI_ROWS, 8)) * (np.arange(8) < per_row)
    labels = rng.permutation(np.arange(ALOI_ROWS) % 5)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row) if value)
        for label, row in zip(labels, X, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return X, labels


def test_libsvm_file(paper_data: ModuleType, tmp_path: Path) -> None:
    X, labels = write_aloi(tmp_path / "aloi", per_row=8)
    split = paper_data.load_split(str(tmp_path / "aloi"))
    assert split.name == "aloi"
    assert split.X.shape == (36, 8)
    assert split.X_test.shape == (4, 8)
    assert isinstance(split.X, np.ndarray)  # hardly any zeros
    assert split.Y.shape == (36, 5)
    rows = [*map(tuple, np.vstack([split.X, split.X_test]))]
    numbers = np.concatenate([split.Y.indices, split.Y_test.indices])
    assert {(row, int(label)) for row, label in zip(rows, numbers, strict=True)} == {
        (tuple(row), int(label)) for row, label in zip(X.astype(np.float32), labels, strict=True)
    }
    again = paper_data.load_split(str(tmp_path / "aloi"))
    np.testing.assert_array_equal(again.X_test, split.X_test)  # the same split each time


def test_sparse_libsvm_file_stays_sparse(paper_data: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "wide").write_text("0 1:1 90:2\n1 3:1\n0 5:1\n")
    split = paper_data.load_split(str(tmp_path / "wide"))
    assert sp.issparse(split.X)
    assert split.X.shape[1] == split.X_test.shape[1] == 90


@pytest.mark.parametrize(
    ("train", "test"),
    [("train.txt", "test.txt"), ("wikiLSHTC_train.txt", "wikiLSHTC_test.txt"), ("trn.txt.gz", "tst.txt.gz")],
)
def test_extreme_classification_files(paper_data: ModuleType, tmp_path: Path, train: str, test: str) -> None:
    folder = tmp_path / "WikiLSHTC-325K"
    folder.mkdir()
    for name, text in ((train, XC_TRAIN), (test, XC_TEST), ("inv_prop.txt", "1\n")):
        (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    split = paper_data.load_split(str(folder))
    assert split.name == "WikiLSHTC-325K"
    assert split.X.shape == (4, 5)
    assert split.X_test.shape == (2, 5)
    np.testing.assert_array_equal(split.Y.toarray()[0], [1, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(split.Y_test.toarray()[1], [0, 1, 1, 0, 0, 0])
    assert "2 examples, 5 features, 6 labels" in str(split)


def test_npz_folder(paper_data: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part, n in (("trn", 6), ("tst", 3)):
        sp.save_npz(tmp_path / f"X_{part}.npz", sp.csr_matrix(rng.random((n, 4))))
        sp.save_npz(tmp_path / f"Y_{part}.npz", sp.csr_matrix(np.eye(n, 7)))
    split = paper_data.load_split(str(tmp_path))
    assert split.X.shape == (6, 4)
    assert split.X.dtype == np.float32
    assert split.Y_test.shape == (3, 7)
    assert split.name == tmp_path.name


def test_synthetic(paper_data: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {name: shape.scaled(0.001) for name, shape in paper_data.SHAPES.items()}
    monkeypatch.setattr(paper_data, "SHAPES", small)
    split = paper_data.load_split("synthetic:aloi")
    assert split.X.shape == (87, 128)
    assert split.X_test.shape == (10, 128)
    assert split.Y.shape[1] == 1000
    with pytest.raises(ValueError, match="there are aloi, odp"):
        paper_data.load_split("synthetic:nothing")


def test_what_cannot_be_loaded(paper_data: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file or folder"):
        paper_data.load_split(str(tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"one file like train\.txt; found none"):
        paper_data.load_split(str(tmp_path))
    (tmp_path / "train.txt").write_text(XC_TRAIN)
    (tmp_path / "test.txt").write_text("1 4 6\n3 0:1\n")
    with pytest.raises(ValueError, match="disagree: 5 features"):
        paper_data.load_split(str(tmp_path))
    (tmp_path / "a_train.txt").write_text(XC_TRAIN)
    with pytest.raises(ValueError, match=r"found a_train\.txt, train\.txt"):
        paper_data.load_split(str(tmp_path))
    (tmp_path / "single").write_text("0 1:1\n")
    with pytest.raises(ValueError, match="cannot be split"):
        paper_data.load_split(str(tmp_path / "single"))


def small_split(paper_data: ModuleType) -> object:
    X = sp.csr_array(np.arange(1, 13, dtype=np.float32).reshape(4, 3))
    Y = sp.csr_array(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]], np.float32))
    return paper_data.Split("small", X, Y, X[:2], Y[:2])


def test_one_label_a_row(paper_data: ModuleType) -> None:
    split = paper_data.one_label_a_row(small_split(paper_data))
    np.testing.assert_array_equal(split.Y.indices, [1, 0, 2])  # the row without labels is gone
    np.testing.assert_array_equal(np.diff(split.Y.indptr), 1)
    np.testing.assert_array_equal(split.X.toarray()[1], [7, 8, 9])
    assert split.X_test.shape[0] == split.Y_test.shape[0] == 1


def test_of_frequent_labels(paper_data: ModuleType) -> None:
    split = small_split(paper_data)
    assert paper_data.of_frequent_labels(split, None) is paper_data.of_frequent_labels(split, 3) is split
    fewer = paper_data.of_frequent_labels(split, 2)  # labels 2, of two rows, and 0, the first of the others
    np.testing.assert_array_equal(fewer.Y.toarray(), [[0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(fewer.X.toarray()[:, 0], [1, 7, 10])
    np.testing.assert_array_equal(fewer.Y_test.toarray(), [[0, 1]])


def test_subsampled(paper_data: ModuleType) -> None:
    split = small_split(paper_data)
    assert paper_data.subsampled(split, None) is split
    fewer = paper_data.subsampled(split, 3)
    assert fewer.X.shape[0] == fewer.Y.shape[0] == 3
    assert fewer.X_test.shape[0] == 2
    rows = [split.X.toarray().tolist().index(row) for row in fewer.X.toarray().tolist()]
    np.testing.assert_array_equal(fewer.Y.toarray(), split.Y.toarray()[rows])


@pytest.mark.parametrize("hellinger", [False, True])
def test_unit_rows(paper_data: ModuleType, hellinger: bool) -> None:
    split = paper_data.unit_rows(small_split(paper_data), hellinger)
    for X in (split.X, split.X_test):
        np.testing.assert_allclose(np.linalg.norm(X.toarray(), axis=1), 1, rtol=1e-6)
    wanted = np.sqrt(np.array([1, 2, 3]) / 6) if hellinger else np.array([1, 2, 3]) / np.sqrt(14)
    np.testing.assert_allclose(split.X.toarray()[0], wanted, rtol=1e-6)
    dense = paper_data.Split("dense", np.ones((2, 2)), split.Y[:2], np.ones((1, 2)), split.Y[:1])
    assert paper_data.unit_rows(dense) is dense
