"""Conversion to directories: what is opened equals what the readers read, in bounded memory, all or nothing."""

from __future__ import annotations

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _array_directory
from labelprism.data import (
    DataFormatError,
    Dataset,
    convert_to_directory,
    directory_writing,
    load,
    pieces,
    write_directory,
    write_jsonl,
    write_npz,
    write_svmlight,
    write_tsv,
    write_xc,
)

sys.path.insert(0, str(Path(__file__).parent))
from directory_problems import assert_same


@pytest.fixture(params=["small", "usual"])
def piece_size(request: pytest.FixtureRequest) -> Iterator[None]:
    """Pieces of a few bytes and rows, so that small files have many, or as they are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small":
            use_small_pieces(patch)
        yield


def use_small_pieces(patch: pytest.MonkeyPatch) -> None:
    for name, size in (("_READ_BYTES", 7), ("_PIECE_BYTES", 12), ("_PIECE_ROWS", 2), ("_PIECE_LABELS", 3)):
        patch.setattr(pieces, name, size)
    patch.setattr(directory_writing, "_ROWS_PER_STEP", 2)
    patch.setattr(directory_writing, "_NUMBERS_PER_STEP", 3)


def converted(source: Path, **options: Any) -> Dataset:
    target = source.with_name("converted.ds")
    convert_to_directory(source, target, **options)
    return Dataset.open(target)


name = st.text("abcäß ¿", min_size=1, max_size=4).map(str.strip).filter(bool)
names = st.lists(name, unique=True, min_size=1, max_size=7)
formats = st.sampled_from(["xc", "svmlight", "from 0", "tsv", "tsv ids", "jsonl", "npz", "npy", "directory"])


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    label_names = draw(names)
    n, d, c = draw(st.integers(1, 9)), draw(st.integers(1, 6)), len(label_names)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = np.round(rng.standard_normal((n, d)), 2) * (rng.random((n, d)) < 0.5)
    X[:, draw(st.integers(0, d - 1))] = 1  # a row without anything has no line of its own in svmlight
    texts = draw(st.lists(st.text("xyz ä", max_size=9), min_size=n, max_size=n))
    return Dataset(X=sp.csr_array(X), Y=rng.random((n, c)) < 0.4, label_names=label_names, texts=texts)


@given(data=datasets(), format=formats, is_small=st.booleans(), suffix=st.sampled_from(["", ".gz"]))
def test_what_is_opened_equals_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: Dataset, format: str, is_small: bool, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("source") / f"X.npz{suffix}"
    options: dict[str, Any] = {}
    if format == "xc":
        write_xc(data, path)
    elif format in ("svmlight", "from 0"):
        write_svmlight(data, path, zero_based=format == "from 0")
        options = {"zero_based": True} if format == "from 0" else {}
    elif format.startswith("tsv"):
        is_id = format == "tsv ids"
        write_tsv(Dataset(texts=data.texts, Y=data.Y) if is_id else data, path)
        options = {"label_kind": "id"} if is_id else {}
    elif format == "jsonl":
        write_jsonl(data, path)
    elif format == "directory":
        path = path.with_name("source.ds")
        write_directory(data, path)
    else:
        path = path.with_name(f"X.{format}{suffix}")
        write_npz(Dataset(X=data.X.toarray(), Y=data.Y) if format == "npy" else data, path)
    with pytest.MonkeyPatch.context() as patch:
        if is_small:
            use_small_pieces(patch)
        assert_same(converted(path, **options), load(path, **options))


@pytest.mark.parametrize(
    "content",
    [
        "0 5 3\n",
        "2 5 3\n\n0,2 4:1\n",
        "2 5 3\n# no row\n0 1:1\n# nor this\n2 4:1\n\n  \n# the end",
        "\ufeff3 5 3\n0 0:1\n1\n 1:1 0:2",
        "\ufeff2,1,0 7:1 3:2\n\n# a comment\n 1:1e-3 # another\r\n5\r\n",
        "0 1:1\n",
        "1 0:1\n0 2:1\n2",
        "3 1:1 2:-2\n" * 50,
        "a\tx,y\nb\t\nc\ty,y, x\n\n",
        "a\t<u> <v>\nb\t<v>",
        '{"text": "a", "labels": ["z", "y", "z"]}\n\n{"text": "", "labels": []}\n',
        '{"text": "a", "subjects": [{"uri": "u"}]}\n' * 9,
        '{"text": "\\ud83d\\ude00", "labels": [4, 0]}',
    ],
)
@pytest.mark.usefixtures("piece_size")
def test_odd_files_are_read_the_same(tmp_path: Path, content: str) -> None:
    path = tmp_path / "source"
    path.write_bytes(content.encode())
    assert_same(converted(path), load(path))


@pytest.mark.parametrize("content", [
    "3 5 3\n0 0:1\n1 1:1\n", "1 5 3\n0 0:1\n1 1:1\n2 2:2\n", "3 5 3\n0 0:1\n1 1:1\n2 5:1\n", "3 5 3\n0 0:1\n\n3 2:1\n",
    "0 1:1\n1 1:nan\n", "0 1:1\n1 1:1\n2 1:inf\n", "0 1:1\n" * 9 + "0 1:1e39\n", "0 1:1\n1 -1:1\n", "0 1:1\n-1 1:1\n",
    "0 1:1\n1 99999999999:1\n", "0 1:1\n1,1 1:1\n", "0 1:1\n1 1:1 1:2\n", "0 1:1\n0 1:1\n\ufeff0 1:1\n",
    "0 1:1\n2 3 4\n",
    "0 1:1\n" * 5 + "0 1:\xff\n", "# nothing\n\n0 1:1\nx\n", "a\tx\nb\n", "a\tx\nb\ty\n\nc\tz\n", "a\tx\nb\tx,,y\n",
    "a\tx\nb\t<u\nc\t<v> w\n", "a\tx\nb\0\tx\n", '{"text": "a", "labels": []}\n' * 4 + '{"text": 1, "labels": []}',
    '{"text": "a", "labels": []}\n{"text": "a", "labels": [-1]}',
    '{"text": "a", "labels": ["x"]}\n{"text": "", "labels": [1]}',
    '{"text": "a", "labels": []}\n\n{"text": "\\ud800", "labels": []}', '{"text": "a", "labels": []}\n{"text": "a"',
    "", "\n\n", "# nothing\n",
])  # fmt: skip
@pytest.mark.usefixtures("piece_size")
def test_faults_are_told_in_the_same_words_and_lines(tmp_path: Path, content: str) -> None:
    path, target = tmp_path / "source", tmp_path / "target.ds"
    path.write_bytes(content.encode("latin1" if "\xff" in content else "utf-8"))
    with pytest.raises(DataFormatError) as expected:
        load(path)
    with pytest.raises(DataFormatError) as found:
        convert_to_directory(path, target)
    assert str(found.value) == str(expected.value)
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


@given(row=st.integers(0, 299), size=st.integers(1, 64))
def test_the_line_of_a_fault_is_right_across_pieces(
    tmp_path_factory: pytest.TempPathFactory, row: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("source") / "source"
    lines = [f"{row % 7} {row % 5}:0.5" if row % 3 else "# comment" for row in range(300)]
    lines[row] = "0 bad"
    path.write_text("\n".join(["0 0:1", *lines]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_PIECE_BYTES", size)
        with pytest.raises(DataFormatError, match=f"line {row + 2}: ") as found:
            convert_to_directory(path, path.with_name("target.ds"))
    assert found.value.token == "bad"


@pytest.mark.parametrize("content", ["3 1:1\n" * 3000, "text\tlabel\n" * 3000])
@pytest.mark.usefixtures("piece_size")
def test_a_truncated_compressed_file_is_told_with_the_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "source.gz"
    rng = np.random.default_rng(0)
    content = "".join(line.replace("1", f"{rng.integers(10**9)}") + "\n" for line in content.split("\n")[:-1])
    path.write_bytes(gzip.compress(content.encode())[:-40])
    with pytest.raises(DataFormatError) as expected:
        load(path)
    with pytest.raises(DataFormatError, match="truncated") as found:
        convert_to_directory(path, tmp_path / "target.ds")
    assert str(found.value) == str(expected.value)
    assert not (tmp_path / "target.ds").exists()


def test_options_of_readers(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_text("0 0:1\n1 3:1\n")
    options = {"zero_based": True, "n_features": 9, "n_labels": 5}
    assert_same(converted(path, **options), load(path, **options))
    with pytest.raises(ValueError, match="zero_based must be True or False"):
        converted(path, n_features=9)
    path.write_text("a\tz;q\nb\ty\n")
    options = {"label_sep": ";", "label_names": ["y", "z"], "unknown_labels": "ignore"}
    assert_same(converted(path, **options), load(path, **options))
    with pytest.raises(ValueError, match="label_kind"):
        converted(path, label_kind="number")


# -------------------------------------------------------------------------------------------------------------- memory

# Converts, and prints by how many bytes the memory of the process grew, at most, while it did so.
WATCHED = """
import sys, threading
from labelprism.data import convert_to_directory, load
def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
for name in sys.argv[1:2]:
    convert_to_directory(name, sys.argv[3])  # so that all modules are loaded
before, most, ended = anonymous(), [0], threading.Event()
def watch():
    while not ended.wait(0.005):
        most[0] = max(most[0], anonymous())
watcher = threading.Thread(target=watch)
watcher.start()
convert_to_directory(sys.argv[2], sys.argv[3])
converted = most[0] - before
opened = load(sys.argv[3], verify=False)
opened.X is None or opened.X[:10].sum()
opened.texts is None or opened.texts[len(opened.texts) // 2]
ended.set()
watcher.join()
print(converted, most[0] - before, opened.n_rows)
"""


def sparse_lines(n_bytes: int) -> Iterator[bytes]:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        features = np.sort(rng.choice(100_000, 60, replace=False)) + 1
        labels = ",".join(map(str, np.sort(rng.choice(10_000, 3, replace=False))))
        lines.append(f"{labels} {' '.join(f'{feature}:0.{feature % 97}1' for feature in features)}\n")
    block = "".join(lines).encode()
    yield from (block for _ in range(n_bytes // len(block)))


def text_lines(n_bytes: int) -> Iterator[bytes]:
    block = "".join(f"a ship at sea, number {row} ä\tsea{row % 977},ship{row % 13}\n" for row in range(20_000)).encode()
    yield from (block for _ in range(n_bytes // len(block)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(("lines", "megabytes"), [(sparse_lines, 150), (text_lines, 30)])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, lines: Any, megabytes: int, long_run: bool) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for path, size in ((small, 1), (large, megabytes * (8 if long_run else 1))):
        with path.open("wb") as file:
            file.writelines(lines(size << 20))
        file.close()
    if not small.stat().st_size:
        small.write_bytes(next(lines(1 << 30)))
    command = [sys.executable, "-c", WATCHED, str(small), str(large), str(tmp_path / "target.ds")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    converting, opened, n_rows = map(int, result.stdout.split())
    assert 0 < converting < 40 << 20
    assert opened - converting < 8 * n_rows + (4 << 20)  # index pointers
    large.unlink()


# ------------------------------------------------------------------------------------------------------ all or nothing

OLD = Dataset(X=np.eye(3), Y=np.eye(3))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_text("".join(f"{row % 9} {row % 50 + 1}:1\n" for row in range(5000)))
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_an_older_data_set_is_replaced(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.ds"
    write_directory(OLD, target)
    convert_to_directory(source, target)
    assert_same(Dataset.open(target), load(source))
    convert_to_directory(target, target)  # onto itself
    assert_same(Dataset.open(target), load(source))
    assert names_in(tmp_path) == ["source", "target.ds"]


@pytest.mark.parametrize("content", ["file", "empty", "folder", "model"])
def test_what_is_no_data_set_is_not_replaced(source: Path, tmp_path: Path, content: str) -> None:
    target = tmp_path / "target.ds"
    if content == "file":
        target.write_text("keep me")
    else:
        target.mkdir()
    if content == "folder":
        (target / "thesis.txt").write_text("keep me")
    if content == "model":
        (target / "meta.json").write_text(json.dumps({"format": 1, "model": {}, "arrays": {}}))
    with pytest.raises(FileExistsError, match="is there and is no data set"):
        convert_to_directory(source, target)
    assert names_in(tmp_path) == ["source", "target.ds"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("place", ["piece", "fsync", "take place"])
def test_a_failure_leaves_the_old_data_set(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, place: str
) -> None:
    target = tmp_path / "target.ds"
    write_directory(OLD, target)
    use_small_pieces(monkeypatch)
    owner, name = {
        "piece": (directory_writing._Writer, "add"),
        "fsync": (os, "fsync"),
        "take place": (_array_directory, "_take_place"),
    }[place]
    real, calls = getattr(owner, name), [0]

    def failing(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] > 3 or place == "take place":
            raise error
        return real(*args)

    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(type(error)):
        convert_to_directory(source, target)
    monkeypatch.undo()
    assert_same(Dataset.open(target), OLD)
    assert names_in(tmp_path) == ["source", "target.ds"]


FULL_DISK = """
import resource, signal, sys
from labelprism.data import convert_to_directory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    convert_to_directory(sys.argv[1], sys.argv[2])
except OSError as error:
    print("told:", error.strerror)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_full_disk_leaves_the_old_data_set(source: Path, tmp_path: Path) -> None:
    write_directory(OLD, tmp_path / "target.ds")
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", FULL_DISK, str(source), str(tmp_path / "target.ds")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.stdout.strip(), result.stderr) == ("told: File too large", "")
    assert_same(Dataset.open(tmp_path / "target.ds"), OLD)
    assert names_in(tmp_path) == ["source", "target.ds"]


CONVERTER = """
import sys
from labelprism.data import convert_to_directory
print("ready", flush=True)
while True:
    for source in sys.argv[1:3]:
        convert_to_directory(source, sys.argv[3])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_a_killed_conversion_leaves_the_old_data_set_or_the_new_one(
    source: Path, tmp_path: Path, long_run: bool
) -> None:
    other, target = tmp_path / "other", tmp_path / "target.ds"
    other.write_text("".join(f"text {row}\t{row % 9}\n" for row in range(3000)))
    expected = [load(source), load(other)]
    convert_to_directory(source, target)
    rng = np.random.default_rng(0)
    for _ in range(60 if long_run else 4):
        command = [sys.executable, "-c", CONVERTER, str(source), str(other), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0, 0.2))
            os.kill(process.pid, signal.SIGKILL)
        found = Dataset.open(target, verify=True)
        assert_same(found, expected[0] if found.texts is None else expected[1])
    convert_to_directory(source, target)
    assert names_in(tmp_path) == ["other", "source", "target.ds"]  # nothing was left behind
