"""Matrix files: round trips, names beside them, and files that are damaged or forged."""

from __future__ import annotations

import io
import os
import random
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from labelprism.data.dataset import Dataset
from labelprism.data.files import reading, writing
from labelprism.data.matrices import read_npz, write_npz
from labelprism.errors import DataFormatError

SUFFIXES = ["", ".gz", ".xz", ".zst"]
X = sp.csr_array(np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3], [0, 4, 0]], dtype=np.float32))
Y = sp.csr_array(np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=np.float32))


def array_of(matrix: Any) -> np.ndarray[Any, Any]:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def assert_same(first: Dataset, second: Dataset) -> None:
    assert type(first.X) is type(second.X)
    np.testing.assert_array_equal(array_of(first.X), array_of(second.X))
    np.testing.assert_array_equal(first.Y.toarray(), second.Y.toarray())
    assert first.label_names == second.label_names


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(folder: Path, X: Any = X, Y: Any = Y, names: str | None = None) -> Path:
    """Save the matrices as scipy does, and return the path of X."""
    sp.save_npz(folder / "X.npz", X)
    sp.save_npz(folder / "Y.npz", Y)
    if names is not None:
        (folder / "labels.txt").write_bytes(names.encode())
    return folder / "X.npz"


# ---------------------------------------------------------------- round trips

sizes = st.integers(0, 5)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    n_rows, n_features, n_labels = draw(sizes), draw(sizes), draw(sizes)
    values = st.floats(width=32, allow_nan=False, allow_infinity=False)
    X = draw(npst.arrays(np.float32, (n_rows, n_features), elements=values))
    Y = draw(npst.arrays(np.bool_, (n_rows, n_labels)))
    name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0\ufeff"), max_size=6)
    names = draw(st.none() | st.lists(name, min_size=n_labels, max_size=n_labels, unique=True))
    return Dataset(X=sp.csr_array(X) if draw(st.booleans()) else X, Y=Y, label_names=names)


@given(data=datasets(), suffix=st.sampled_from(SUFFIXES))
def test_what_is_written_is_read(data: Dataset, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, ("X_trn.npz" if sp.issparse(data.X) else "X_trn.npy") + suffix)
        write_npz(data, path)
        assert_same(read_npz(path), data)
        assert set(names_in(path.parent)) - {"labels.txt"} == {path.name, "Y_trn.npz" + suffix}


def test_files_of_scipy_and_for_scipy(tmp_path: Path) -> None:
    assert_same(read_npz(saved(tmp_path)), Dataset(X=X, Y=Y))
    write_npz(Dataset(X=X, Y=Y), tmp_path / "new_X.npz")
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "new_X.npz").toarray(), X.toarray())
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "new_Y.npz").toarray(), Y.toarray())


@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "coo_matrix", "csc_array", "coo_array"])
def test_other_sparse_forms(tmp_path: Path, form: str) -> None:
    make = getattr(sp, form)
    assert_same(read_npz(saved(tmp_path, make(X), make(Y))), Dataset(X=X, Y=Y))


def test_other_dtypes_and_values_of_labels(tmp_path: Path) -> None:
    counts = sp.csr_array(Y.toarray().astype(np.int64) * 7)
    data = read_npz(saved(tmp_path, X.astype(np.float64), counts))
    assert_same(data, Dataset(X=X, Y=Y))
    assert data.X is not None
    assert data.X.dtype == np.float32


def test_same_data_gives_same_bytes(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        write_npz(Dataset(X=X, Y=Y), tmp_path / f"X1.npz{suffix}")
        write_npz(Dataset(X=X, Y=Y), tmp_path / f"X2.npz{suffix}")
        assert (tmp_path / f"X1.npz{suffix}").read_bytes() == (tmp_path / f"X2.npz{suffix}").read_bytes()


def test_nothing_is_compressed_twice(tmp_path: Path) -> None:
    write_npz(Dataset(X=X, Y=Y), tmp_path / "X.npz")
    write_npz(Dataset(X=X, Y=Y), tmp_path / "X.npz.gz")
    for name, method in (("X.npz", zipfile.ZIP_DEFLATED), ("X.npz.gz", zipfile.ZIP_STORED)):
        with reading(tmp_path / name) as stream, zipfile.ZipFile(io.BytesIO(stream.read())) as archive:
            assert {member.compress_type for member in archive.infolist()} == {method}


# ---------------------------------------------------------------- where the labels are


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        ("X.npz", "Y.npz"),
        ("X_trn.npz", "Y_trn.npz"),
        ("X.trn.npz", "Y.trn.npz"),
        ("XX.npz", "YX.npz"),
        ("trn_X.npz", "trn_Y.npz"),
        ("X_trn.npz.gz", "Y_trn.npz.gz"),
        ("X_trn.npy", "Y_trn.npz"),
    ],
)
def test_labels_beside_the_features(tmp_path: Path, features: str, labels: str) -> None:
    data = Dataset(X=X.toarray() if "npy" in features else X, Y=Y)
    write_npz(data, tmp_path / features)
    assert names_in(tmp_path) == sorted([features, labels])
    assert_same(read_npz(tmp_path / features), data)


def test_a_name_without_a_clear_x_needs_labels_path(tmp_path: Path) -> None:
    for name in ("trn.npz", "trnX_X.npz"):
        with pytest.raises(ValueError, match="give labels_path"):
            write_npz(Dataset(X=X, Y=Y), tmp_path / name)
        with pytest.raises(ValueError, match="give labels_path"):
            read_npz(tmp_path / name)
    write_npz(Dataset(X=X, Y=Y), tmp_path / "trn.npz", tmp_path / "labels.npz")
    assert_same(read_npz(tmp_path / "trn.npz", tmp_path / "labels.npz"), Dataset(X=X, Y=Y))


def test_missing_files(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "Y.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"labels that belong to X.npz.*labels_path.*Y\.npz"):
        read_npz(path)
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "none", path)
    with pytest.raises(IsADirectoryError):
        read_npz(path, tmp_path)


def test_wrong_endings_are_refused(tmp_path: Path) -> None:
    sparse, dense = Dataset(X=X, Y=Y), Dataset(X=X.toarray(), Y=Y)
    with pytest.raises(ValueError, match=r"a sparse X is written to a file in \.npz, got 'X\.npy'"):
        write_npz(sparse, tmp_path / "X.npy")
    with pytest.raises(ValueError, match=r"a dense X is written to a file in \.npy, got 'X\.npz\.gz'"):
        write_npz(dense, tmp_path / "X.npz.gz")
    with pytest.raises(ValueError, match=r"Y is written to a file in \.npz"):
        write_npz(sparse, tmp_path / "X.npz", tmp_path / "Y.txt")
    with pytest.raises(ValueError, match="no matrix X"):
        write_npz(Dataset(Y=Y, texts=["a"] * 4), tmp_path / "X.npz")
    assert names_in(tmp_path) == []


# ---------------------------------------------------------------- names of the labels


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("ship\nsea\n", ("ship", "sea")),
        ("ship\r\nsea", ("ship", "sea")),
        ("7\tship\n8\tsea\n", ("ship", "sea")),
        ("7\tship\n8\tship\n", ("7\tship", "8\tship")),
        ("7\tship\nsea\n", ("7\tship", "sea")),
        ("7\tship\n8\tsea\tx\n", ("7\tship", "8\tsea\tx")),
        ("7\t\n8\tsea\n", ("7\t", "8\tsea")),
        ("\nsea\n", ("", "sea")),
    ],
)
def test_names_beside_the_features(tmp_path: Path, content: str, names: tuple[str, str]) -> None:
    assert read_npz(saved(tmp_path, names=content)).label_names == names


@pytest.mark.parametrize(
    ("content", "reason"),
    [("ship\n", "1 lines, and Y has 2 columns"), ("a\nb\nc\n", "3 lines"), ("ship\nship\n", "occurs twice")],
)
def test_names_that_do_not_fit_are_left_out_with_a_warning(tmp_path: Path, content: str, reason: str) -> None:
    path = saved(tmp_path, names=content)
    with pytest.warns(UserWarning, match=rf"labels\.txt is not used.*{reason}") as caught:
        assert read_npz(path).label_names is None
    assert caught[0].filename == __file__


def test_names_in_a_wrong_encoding_are_told(tmp_path: Path) -> None:
    path = saved(tmp_path, names="")
    (tmp_path / "labels.txt").write_bytes(b"ship\n\xe9\n")
    with pytest.raises(DataFormatError, match="UTF-8") as caught:
        read_npz(path)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "labels.txt"), 2)


def test_the_names_of_another_data_set_are_not_overwritten(tmp_path: Path) -> None:
    train = Dataset(X=X, Y=Y, label_names=["ship", "sea"])
    write_npz(train, tmp_path / "X_trn.npz")
    write_npz(train.take([0, 1]), tmp_path / "X_tst.npz")
    with pytest.raises(FileExistsError, match="other label names"):
        write_npz(Dataset(X=X, Y=Y, label_names=["sea", "ship"]), tmp_path / "X_other.npz")
    assert names_in(tmp_path) == ["X_trn.npz", "X_tst.npz", "Y_trn.npz", "Y_tst.npz", "labels.txt"]
    assert_same(read_npz(tmp_path / "X_trn.npz"), train)


def test_names_with_ids_beside_them_are_the_same_names(tmp_path: Path) -> None:
    path = saved(tmp_path, names="7\tship\n8\tsea\n")
    write_npz(read_npz(path).take([2]), tmp_path / "X_part.npz")
    assert (tmp_path / "labels.txt").read_text() == "7\tship\n8\tsea\n"


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\r", "a\0b", "\ufeffa", "\ud800"])
def test_names_that_lines_cannot_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="label name"):
        write_npz(Dataset(X=X, Y=Y, label_names=[name, "b"]), tmp_path / "X.npz")
    assert names_in(tmp_path) == []


# ---------------------------------------------------------------- damaged and forged files


def forged(**changes: Any) -> bytes:
    """A file like those of `scipy.sparse.save_npz`, with some of its arrays changed or, by None, left out."""
    parts: dict[str, Any] = {"format": b"csr", "shape": np.array(X.shape)}
    parts |= {"data": X.data, "indices": X.indices, "indptr": X.indptr} | changes
    file = io.BytesIO()
    np.savez(file, **{name: part for name, part in parts.items() if part is not None})
    return file.getvalue()


def dense(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zipped(save: Any, *matrices: Any) -> bytes:
    file = io.BytesIO()
    save(file, *matrices)
    return file.getvalue()


ints = np.array
FORGED: dict[str, bytes] = {
    "column beyond the shape": forged(indices=ints([1, 0, 3, 1])),
    "column far beyond the shape": forged(indices=ints([1, 0, 2_000_000_000, 1])),
    "negative column": forged(indices=ints([1, 0, -1, 1])),
    "row of a csc beyond the shape": forged(format=b"csc", shape=ints([2_000_000, 4]), indices=ints([1, 9, 2**30, 1])),
    "negative row of a csc": forged(format=b"csc", shape=ints([3, 4]), indices=ints([1, -(2**30), 2, 1])),
    "indptr that goes back": forged(indptr=ints([0, 3, 1, 3, 4])),
    "indptr beyond the end": forged(indptr=ints([0, 1, 1, 3, 400])),
    "indptr that does not start at 0": forged(indptr=ints([1, 1, 1, 3, 4])),
    "indptr too short": forged(indptr=ints([0, 1, 4])),
    "fewer data than indices": forged(data=X.data[:2]),
    "negative shape": forged(shape=ints([-4, 3])),
    "shape of three": forged(shape=ints([4, 3, 2])),
    "shape of one": forged(shape=ints([4])),
    "shape of text": forged(shape=np.array(["4", "x"])),
    "too many columns": forged(shape=ints([4, 2**31])),
    "fractions as columns": forged(indices=ints([1.0, 0.0, 1.9, 1.0])),
    "whole floats as columns": forged(indices=X.indices.astype(np.float64)),
    "floats as indptr": forged(indptr=X.indptr.astype(np.float32)),
    "booleans as columns": forged(indices=X.indices.astype(np.bool_)),
    "floats in a csc": forged(format=b"csc", shape=ints([3, 4]), indices=ints([1.5, 0, 2, 1])),
    "floats in a coo": forged(format=b"coo", row=ints([0.5, 1]), col=ints([0, 0]), data=ints([1.0, 1.0])),
    "floats as coords of a coo": forged(format=b"coo", coords=np.array([[0.5, 1], [0, 0]]), data=ints([1.0, 1.0])),
    "NaN": forged(data=ints([1, 2, np.nan, 4])),
    "infinity": forged(data=ints([1, 2, np.inf, 4])),
    "beyond float32": forged(data=ints([1, 2, 1e300, 4])),
    "text as data": forged(data=np.array(["a", "b", "c", "d"])),
    "objects as data": forged(data=np.array([1, "b", None, {}], dtype=object)),
    "missing array": forged(indptr=None),
    "unknown format": forged(format=b"xyz"),
    "format that is no text": forged(format=ints([1.5, 2.5])),
    "coo beyond the shape": forged(format=b"coo", row=ints([0, 9]), col=ints([0, 0]), data=ints([1.0, 1.0])),
    "coo of absurd size": forged(
        format=b"coo", row=ints([0]), col=ints([0]), data=ints([1.0]), shape=ints([2**60, 3])
    ),
    "bsr": zipped(sp.save_npz, sp.bsr_array(X.toarray())),
    "dia": zipped(sp.save_npz, sp.dia_array(X.toarray())),
    "dense arrays in a zip": zipped(np.savez, X.toarray()),
    "zip of something else": b"PK\x03\x04" + bytes(100),
    "text": b"1 2 3\n",
    "nothing": b"",
    "dense of one dimension": dense(np.zeros(4)),
    "dense of three dimensions": dense(np.zeros((4, 2, 2))),
    "dense with NaN": dense(np.array([[0.0], [np.nan], [0.0], [0.0]])),
    "dense objects": dense(np.array([[None]] * 4)),
    "dense text": dense(np.array([["a"]] * 4)),
    "dense, cut": dense(np.zeros((4, 100)))[:-1],
    "dense of absurd size": dense(np.zeros((4, 1))).replace(b"(4, 1), }              ", b"(4, 900000000000000), }"),
    "dense, wrong header": dense(np.zeros((4, 1))).replace(b"'descr'", b"'d(scr{"),
}  # fmt: skip


@pytest.mark.parametrize("part", ["X", "Y"])
@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_forged_files(tmp_path: Path, kind: str, part: str) -> None:
    saved(tmp_path)
    path = tmp_path / f"{part}.npz"
    path.write_bytes(FORGED[kind])
    with pytest.raises(DataFormatError) as caught:
        read_npz(tmp_path / "X.npz")
    assert caught.value.path == str(path)


def test_the_forgery_itself_is_sound(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(forged())
    assert_same(read_npz(path), Dataset(X=X, Y=Y))
    path.write_bytes(dense(X.toarray()))
    assert_same(read_npz(path), Dataset(X=X.toarray(), Y=Y))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    marker = tmp_path / "executed"

    class Exploit:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(marker),)

    path = saved(tmp_path)
    for content in (forged(data=np.array([Exploit()], dtype=object)), dense(np.array([[Exploit()]], dtype=object))):
        path.write_bytes(content)
        with pytest.raises(DataFormatError, match="allow_pickle"):
            read_npz(path)
    assert not marker.exists()


def test_different_numbers_of_rows(tmp_path: Path) -> None:
    path = saved(tmp_path, Y=Y[:3])
    with pytest.raises(DataFormatError, match="Y has 3 rows, but X has 4") as caught:
        read_npz(path)
    assert caught.value.path == str(tmp_path / "Y.npz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_anywhere(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"X.npz{suffix}"
    write_npz(Dataset(X=X, Y=Y), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DataFormatError) as caught:
            read_npz(path)
        assert caught.value.path == str(path)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_random_damage_is_told_or_harmless(tmp_path: Path, long_run: bool) -> None:
    generator = random.Random(3)
    path = saved(tmp_path)
    file = io.BytesIO()
    sp.save_npz(file, X, compressed=False)
    sources = [file.getvalue(), forged(format=b"csc", shape=np.array([3, 4])), dense(X.toarray())]
    told = 0
    for _ in range(20_000 if long_run else 1_000):
        content = bytearray(generator.choice(sources))
        for _ in range(generator.randint(1, 4)):
            content[generator.randrange(len(content))] = generator.choice([0, 1, 255, generator.randrange(256)])
        path.write_bytes(content)
        try:
            read_npz(path)
        except DataFormatError as error:
            told += 1
            assert error.path in (str(path), str(tmp_path / "Y.npz"))  # noqa: PT017
    assert told > 300


def test_a_failed_write_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset(X=X, Y=Y)
    write_npz(data, tmp_path / "X.npz")

    def full(*arguments: Any, **options: Any) -> None:
        arguments[0].write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sp, "save_npz", full)
    with pytest.raises(OSError, match="No space"):
        write_npz(data.take([0]), tmp_path / "X.npz")
    assert names_in(tmp_path) == ["X.npz", "Y.npz"]
    assert_same(read_npz(tmp_path / "X.npz"), data)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_failed_write_leaves_both_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, failing: int
) -> None:
    """Whichever matrix it is that cannot be written; nor is `labels.txt` left alone."""
    path, data = tmp_path / f"X.npz{suffix}", Dataset(X=X, Y=Y)
    write_npz(data, path)
    save, calls = sp.save_npz, []

    def save_some(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        save(*arguments, **options)
        if len(calls) > failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sp, "save_npz", save_some)
    with pytest.raises(OSError, match="No space"):
        write_npz(Dataset(X=X[:1], Y=Y[:1], label_names=["ship", "sea"]), path)
    assert len(calls) == failing + 1
    assert names_in(tmp_path) == [f"X.npz{suffix}", f"Y.npz{suffix}"]
    assert_same(read_npz(path), data)


def test_features_and_labels_need_two_files(tmp_path: Path) -> None:
    path, data = tmp_path / "X.npz", Dataset(X=X, Y=Y)
    write_npz(data, path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.npz").symlink_to(path)
    for same in (path, tmp_path / "folder" / ".." / "X.npz", tmp_path / "link.npz"):
        with pytest.raises(ValueError, match="X and Y cannot go to the same file"):
            write_npz(data.take([0]), path, same)
    assert_same(read_npz(path), data)


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_files_compressed_by_others(tmp_path: Path, suffix: str) -> None:
    saved(tmp_path)
    for part in "XY":
        with writing(tmp_path / f"{part}_all.npz{suffix}") as stream, (tmp_path / f"{part}.npz").open("rb") as plain:
            shutil.copyfileobj(plain, stream)
    assert_same(read_npz(tmp_path / f"X_all.npz{suffix}"), Dataset(X=X, Y=Y))
