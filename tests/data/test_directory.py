"""Opened directories: the same data set without copies, and a clear word where something is wrong."""

from __future__ import annotations

import gc
import mmap
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism._string_arrays import PackedStrings, packed_strings
from labelprism.data import DataFormatError, Dataset, directory, load, stream_matrix, stream_texts, write_directory
from labelprism.data.detect import detect_format

sys.path.insert(0, str(Path(__file__).parent))
from directory_problems import assert_same, change_array, change_meta

RNG = np.random.default_rng(0)
DATA = Dataset(
    X=sp.random_array((40, 30), density=0.2, rng=RNG, dtype=np.float32, format="csr"),
    Y=sp.csr_array(RNG.random((40, 6)) < 0.3),
    label_names=["ä", "b", "c", "", "e", "f"],
    texts=[f"text {row} ¿" if row % 5 else "" for row in range(40)],
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_directory(DATA, tmp_path / "data.ds")
    return tmp_path / "data.ds"


def mapping_of(array: np.ndarray) -> object:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base


def test_what_is_opened_is_what_was_written(written: Path) -> None:
    assert detect_format(written) == "directory"
    for opened in (Dataset.open(written), Dataset.open(str(written), verify=False), load(written)):
        assert_same(opened, DATA)
        assert opened.path == written
        assert repr(opened) == repr(DATA)
        assert opened.names_of([0, 5]) == ["ä", "f"]
        opened.verify()
    assert DATA.path is None
    DATA.verify()


def test_nothing_is_copied_and_nothing_can_be_changed(written: Path) -> None:
    opened = Dataset.open(written)
    for array in (opened.X.indices, opened.X.data, opened.Y.indices):
        assert isinstance(mapping_of(array), mmap.mmap)
        assert not array.flags.writeable
    assert opened.Y.data.base.size == 1  # the ones are one


@pytest.mark.parametrize("largest", [2**31 - 1, 20])  # as if there were more than 2**31 values
def test_matrices_over_files_share_their_memory(written: Path, monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(directory, "_SMALL_INDEX", largest)
    indptr, indices = DATA.X.indptr.astype(np.int64), DATA.X.indices.astype(np.int32)
    matrix = directory._csr(indptr, indices, DATA.X.data, DATA.X.shape)
    assert np.shares_memory(matrix.indices, indices)
    assert np.shares_memory(matrix.data, DATA.X.data)
    assert matrix.indices.dtype == np.int32
    opened = Dataset.open(written)
    opened.verify()
    rows = [3, 3, 0, 39]
    assert_same(opened.take(rows), DATA.take(rows))
    assert_same(opened.take([]), DATA.take([]))
    assert_same(opened.take(np.arange(40) % 2 == 0), DATA.take(np.arange(40) % 2 == 0))
    np.testing.assert_array_equal(opened.X[7:20].toarray(), DATA.X[7:20].toarray())
    np.testing.assert_array_equal(opened.Y[7:20].toarray(), DATA.Y[7:20].toarray())
    np.testing.assert_array_equal(opened.X @ np.eye(30), DATA.X.toarray())
    assert_same(Dataset(X=opened.X, Y=opened.Y), Dataset(X=DATA.X, Y=DATA.Y))


def test_a_dense_matrix_and_no_names(tmp_path: Path) -> None:
    data = Dataset(X=np.arange(12).reshape(4, 3), Y=sp.csr_array((4, 2)))
    write_directory(data, tmp_path / "dense.ds")
    assert_same(Dataset.open(tmp_path / "dense.ds"), data)
    assert_same(Dataset.open(tmp_path / "dense.ds").take([2, 0]), data.take([2, 0]))


@pytest.mark.parametrize("shape", [(0, 0, 0), (0, 3, 2), (1, 0, 0), (1, 1, 1), (5, 3, 0)])
def test_small_shapes(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    n, d, c = shape
    names = [f"{label}" for label in range(c)]
    data = Dataset(X=sp.csr_array((n, d)), Y=sp.csr_array((n, c)), texts=[""] * n, label_names=names)
    write_directory(data, tmp_path / "small.ds")
    assert_same(Dataset.open(tmp_path / "small.ds"), data)


def test_streams_read_directories(written: Path) -> None:
    assert list(stream_texts(written)) == DATA.texts
    pieces = list(stream_matrix(written, 30, 7))
    np.testing.assert_array_equal(sp.vstack(pieces).toarray(), DATA.X.toarray())
    only_x = Dataset(X=DATA.X, Y=DATA.Y)
    write_directory(only_x, written)
    with pytest.raises(DataFormatError, match="texts are expected"):
        next(stream_texts(written))
    write_directory(Dataset(texts=DATA.texts, Y=DATA.Y), written)
    with pytest.raises(DataFormatError, match="rows of numbers are expected"):
        next(stream_matrix(written, 30, 7))


def test_an_opened_data_set_outlives_its_replacement(written: Path) -> None:
    opened = Dataset.open(written)
    write_directory(DATA.take([0]), written)
    gc.collect()
    assert_same(opened, DATA)
    assert Dataset.open(written).n_rows == 1


# ------------------------------------------------------------------------------------------------- damaged and forged


def put(position: int, value: float) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        array[position] = value

    return change


def swapped(array: np.ndarray) -> None:
    array[:2] = array[1::-1].copy()


def test_damage_is_found_by_the_sums(written: Path) -> None:
    change_array(written, "x_data", put(5, 0.25), with_sum=False)
    opened = Dataset.open(written, verify=False)
    for call in (opened.verify, lambda: Dataset.open(written), lambda: load(written)):
        with pytest.raises(DataFormatError, match=r"x_data\.npy: the content is not what was saved"):
            call()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x_indices", put(-1, 30), "X has an index that is not from 0 to 29"),
        ("x_indices", put(3, -1), "X has an index"),
        ("x_indices", put(3, 2**31 - 1), "X has an index"),
        ("y_indices", put(0, 6), "Y has an index that is not from 0 to 5"),
        ("x_indices", swapped, "the indices of X do not ascend in row 0"),
        ("x_data", put(7, np.nan), "X holds NaN or infinity"),
        ("x_data", put(-1, np.inf), "X holds NaN or infinity"),
        ("label_names_text", put(3, ord("b")), "label_names must be unique"),
        ("texts_text", put(0, 0xFF), "no UTF-8"),
        ("texts_offsets", put(4, 1 << 40), "damaged"),
        ("texts_offsets", put(4, -5), "damaged"),
    ],
)
@pytest.mark.parametrize("step", [1 << 20, 3])
def test_forged_content_is_found_when_verified(
    written: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: Any, message: str, step: int
) -> None:
    monkeypatch.setattr(directory, "_NUMBERS_PER_STEP", step)
    Dataset.open(written).verify()
    change_array(written, name, change)
    Dataset.open(written, verify=False)  # reads none of it
    with pytest.raises(DataFormatError, match=message):
        Dataset.open(written)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x_indptr", put(0, 1), "index pointers"),
        ("x_indptr", put(-1, 10**12), "index pointers"),
        ("x_indptr", put(5, 10**12), "descend"),
        ("x_indptr", put(5, -(2**63)), "descend"),
        ("y_indptr", put(5, 0), "descend"),
        ("x_indptr", lambda array: array[:-1], "index pointers"),
        ("x_data", lambda array: array[:-1], "values for"),
        ("x_data", lambda array: array.astype(np.float64), "x_data of <f8"),
        ("y_indices", lambda array: array.astype(np.int64), "y_indices of <i8"),
        ("texts_offsets", lambda array: array[:-2], "do not fit together"),
        ("label_names_offsets", put(-1, 10**9), "do not fit together"),
    ],
)
def test_what_does_not_fit_together_is_refused_on_opening(written: Path, name: str, change: Any, message: str) -> None:
    change_array(written, name, change)
    with pytest.raises(DataFormatError, match=message):
        Dataset.open(written, verify=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta.update(format=2), "format 2"),
        (lambda meta: meta["dataset"].pop("rows"), "rows"),
        (lambda meta: meta["dataset"].update(rows=39), "index pointers"),
        (lambda meta: meta["dataset"].update(rows=-1), "-1 rows"),
        (lambda meta: meta["dataset"].update(labels=True), "True labels"),
        (lambda meta: meta["dataset"].update(features=2**31), "features"),
        (lambda meta: meta["dataset"].update(labels="6"), "'6' labels"),
        (lambda meta: meta["arrays"].pop("y_indices"), "y_indices"),
        (lambda meta: meta["arrays"].pop("texts_offsets"), "texts_offsets"),
        (lambda meta: meta["arrays"].update({"../evil": {}}), "an array has the name"),
        (lambda meta: meta.update(arrays=[]), "not the description of a data set"),
    ],
)
def test_a_forged_description(written: Path, change: Any, message: str) -> None:
    change_meta(written, change)
    with pytest.raises(DataFormatError, match=message):
        Dataset.open(written, verify=False)


@pytest.mark.parametrize("name", ["x_indptr", "x_indices", "x_data", "y_indptr", "y_indices", "texts_text"])
@pytest.mark.parametrize("size", [0, 60, -1])
def test_a_file_that_was_cut_off(written: Path, name: str, size: int) -> None:
    file = written / f"{name}.npy"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(DataFormatError, match=rf"{name}\.npy: .*(bytes|file size)"):
        Dataset.open(written, verify=False)


def test_what_is_no_data_set(tmp_path: Path, written: Path) -> None:
    with pytest.raises(DataFormatError, match="there is no data set here"):
        Dataset.open(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    (written / "x_data.npy").unlink()
    with pytest.raises(DataFormatError, match=r"x_data\.npy: the file is missing"):
        load(written)
    (written / "meta.json").write_text("{")
    with pytest.raises(DataFormatError, match="not the description of a data set"):
        Dataset.open(written)


# Trains on, and predicts for, matrices with an index far out of range that nobody has looked at.
FOLLOWED = """
import sys
from labelprism import PrismClassifier
from labelprism.data import Dataset
model = PrismClassifier(preset="fast").fit(Dataset.open(sys.argv[1]))
for path in sys.argv[2:]:
    bad = Dataset.open(path, verify=False)
    for call in (lambda: PrismClassifier().fit(bad), lambda: model.predict_topk(bad.X, 3), lambda: bad.take([0, 5, 4])):
        try:
            call()
            print("accepted")
        except ValueError as error:
            print("refused")
"""


def test_native_code_follows_no_forged_index(written: Path, tmp_path: Path) -> None:
    paths = [written]
    for name in ("x_indices", "y_indices"):
        for index in (2**31 - 1, -(2**31)):
            paths.append(tmp_path / f"{name}{index}.ds")
            write_directory(DATA, paths[-1])
            position = 0 if name == "x_indices" else int(DATA.Y.indptr[4])
            change_array(paths[-1], name, put(position, index))
    assert DATA.X.indptr[1] > 0
    assert DATA.Y.indptr[5] > DATA.Y.indptr[4]
    command = [sys.executable, "-c", FOLLOWED, *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["refused"] * 6 + ["refused", "accepted", "refused"] * 2  # X is good in the last


# -------------------------------------------------------------------------------------------------------------- strings


def test_packed_strings_are_a_sequence() -> None:
    strings = ["a", "", "ä\n", "\ud800", "x" * 5000] * 500
    packed = PackedStrings(*packed_strings(strings))
    assert packed == strings
    assert strings == packed
    assert packed != strings[:-1]
    assert packed != "text"
    assert list(packed) == strings
    for index in (0, 3, -1, slice(None), slice(1, 3), slice(5, 2), slice(None, None, 7), slice(None, None, -1)):
        assert packed[index] == strings[index]
    for index in (len(strings), -len(strings) - 1):
        with pytest.raises(IndexError):
            packed[index]
    assert list(PackedStrings(*packed_strings([]))) == []
