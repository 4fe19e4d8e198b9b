"""Opening of plain and compressed files, and writing that is all or nothing."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import stat
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from labelprism.data import files
from labelprism.data.files import reading, text_lines, writing, writing_together
from labelprism.errors import DataFormatError

PACKED = [".gz", ".xz", ".zst"]
SUFFIXES = ["", *PACKED]
MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".zst": b"\x28\xb5\x2f\xfd"}


def write(path: Path, content: bytes) -> Path:
    with writing(path) as stream:
        stream.write(content)
    return path


def read(path: Path) -> bytes:
    with reading(path) as stream:
        return stream.read()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def noise_lines(count: int) -> list[str]:
    """Lines that hardly compress, so that a cut file loses many of them."""
    generator = random.Random(7)
    return [f"{generator.getrandbits(400):x}" for _ in range(count)]


# ---------------------------------------------------------------- reading and writing


@given(content=st.binary(max_size=3000), suffix=st.sampled_from(SUFFIXES))
def test_what_is_written_is_read(content: bytes, suffix: str) -> None:
    assume(suffix or not content.startswith(tuple(MAGIC.values())))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "file" + suffix), content)
        assert read(path) == content
        assert path.read_bytes().startswith(MAGIC[suffix] if suffix else content)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_larger_than_all_buffers(tmp_path: Path, suffix: str) -> None:
    content = random.Random(1).randbytes(700_000) + b"\n" * 300_000
    assert read(write(tmp_path / f"file{suffix}", content)) == content


def test_other_programs_can_read_what_is_written(tmp_path: Path) -> None:
    assert gzip.decompress(write(tmp_path / "a.gz", b"text").read_bytes()) == b"text"
    assert lzma.decompress(write(tmp_path / "a.xz", b"text").read_bytes()) == b"text"
    assert files._import_zstd().decompress(write(tmp_path / "a.zst", b"text").read_bytes()) == b"text"


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("plain.gz", b"text"),
        ("gzip.txt", gzip.compress(b"text")),
        ("xz.gz", lzma.compress(b"text")),
        ("zstd", files._import_zstd().compress(b"text")),
        ("two_members.gz", gzip.compress(b"tex") + gzip.compress(b"t")),
    ],
)
def test_compression_is_told_by_content_not_by_name(tmp_path: Path, name: str, raw: bytes) -> None:
    (tmp_path / name).write_bytes(raw)
    assert read(tmp_path / name) == b"text"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_same_content_gives_same_bytes(tmp_path: Path, suffix: str) -> None:
    first = write(tmp_path / f"first{suffix}", b"content").read_bytes()
    assert write(tmp_path / f"second{suffix}", b"content").read_bytes() == first
    if suffix == ".gz":
        assert first[3] == 0, "the header holds a name"
        assert first[4:8] == bytes(4), "the header holds a time"


def test_a_directory_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="a file is expected"), reading(tmp_path):
        pass
    with pytest.raises(IsADirectoryError, match="a file is expected"), writing(tmp_path):
        pass


def test_missing_file_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), reading(tmp_path / "none"):
        pass
    with pytest.raises(FileNotFoundError, match=r"folder.*none.file\.gz"), writing(tmp_path / "none" / "file.gz"):
        pass


@pytest.mark.parametrize("module", ["lzma", "zstd"])
def test_missing_compression_modules_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    path = write(tmp_path / ("file.xz" if module == "lzma" else "file.zst"), b"text")
    old = path.read_bytes()
    for name in ["lzma"] if module == "lzma" else ["backports", "compression"]:
        monkeypatch.setitem(sys.modules, name, None)
    hint = "built without xz support" if module == "lzma" else r'pip install "labelprism\[zstd\]"'
    with pytest.raises(ImportError, match=hint), reading(path):
        pass
    with pytest.raises(ImportError, match=hint), writing(path):
        pass
    assert path.read_bytes() == old
    assert names_in(tmp_path) == [path.name]


# ---------------------------------------------------------------- damaged files


@pytest.mark.parametrize("suffix", PACKED)
def test_a_file_cut_anywhere_is_truncated(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"file{suffix}", "\n".join(noise_lines(3)).encode())
    whole = path.read_bytes()
    for length in range(len(MAGIC[suffix]), len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataFormatError, match="truncated; copy or download it again") as caught:
            read(path)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("suffix", PACKED)
def test_a_changed_byte_is_told(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"file{suffix}", "\n".join(noise_lines(40)).encode())
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0x10
    path.write_bytes(whole)
    with pytest.raises(DataFormatError, match=r"corrupt|truncated") as caught:
        read(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("suffix", PACKED)
def test_damage_is_told_with_the_line_that_was_reached(tmp_path: Path, suffix: str) -> None:
    lines = noise_lines(20_000)
    path = write(tmp_path / f"file{suffix}", "\n".join(lines).encode())
    cut = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(cut)
    read_lines: list[str] = []
    with pytest.raises(DataFormatError, match="truncated") as caught:
        read_lines.extend(line for _, line in text_lines(path))
    assert caught.value.line == len(read_lines) + 1
    assert read_lines == lines[: len(read_lines)]
    assert len(read_lines) > 1000
    if suffix == ".gz":
        readable = zlib.decompressobj(wbits=31).decompress(cut)
        assert len(read_lines) == readable.count(b"\n")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_exceptions_of_the_callers_own_code_stay(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"file{suffix}", b"text")
    for error in (EOFError("mine"), zlib.error("mine"), OSError("mine")):
        with pytest.raises(type(error), match="mine"), reading(path):
            raise error


# ---------------------------------------------------------------- all or nothing


class Trouble(BaseException):
    pass


def write_half(path: Path, content: bytes, error: BaseException) -> None:
    with writing(path) as stream:
        stream.write(content)
        raise error


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, Trouble])
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_exception_leaves_the_old_file(tmp_path: Path, suffix: str, error: type[BaseException], size: int) -> None:
    path = write(tmp_path / f"file{suffix}", b"old")
    with pytest.raises(error):
        write_half(path, bytes(size), error())
    assert read(path) == b"old"
    assert names_in(tmp_path) == [path.name]


def test_an_exception_leaves_no_file_where_none_was(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        write_half(tmp_path / "file", b"half", ValueError("no"))
    assert names_in(tmp_path) == []


def test_readers_see_the_old_file_until_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "file", b"old")
    with writing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_the_bytes_are_on_the_disk_before_the_old_file_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "file.gz", b"old")
    synced = []

    def fsync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size, read(path)))

    monkeypatch.setattr(os, "fsync", fsync)
    write(path, b"new")
    assert synced == [(path.stat().st_ino, path.stat().st_size, b"old")]


def write_both(paths: list[Path], content: bytes, error: BaseException | None = None) -> None:
    with writing_together(*paths) as streams:
        for stream in streams:
            stream.write(content)
        if error is not None:
            raise error


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_belong_together_are_replaced_together(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    write_both(paths, b"old")
    with pytest.raises(Trouble):
        write_both(paths, b"new", Trouble())
    assert [read(path) for path in paths] == [b"old", b"old"]
    write_both(paths, b"new")
    assert [read(path) for path in paths] == [b"new", b"new"]
    assert names_in(tmp_path) == [path.name for path in paths]


def test_no_file_is_replaced_before_all_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    write_both(paths, b"old")
    synced = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space"):
        write_both(paths, b"new")
    assert [read(path) for path in paths] == [b"old", b"old"]
    assert names_in(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_reading_tells_what_was_taken_from_the_file(tmp_path: Path, suffix: str) -> None:
    content = "\n".join(noise_lines(5000)).encode()
    path = write(tmp_path / f"file{suffix}", content)
    taken: list[int] = []
    with reading(path, taken.append) as stream:
        assert b"".join(stream) == content
    assert sum(taken) == path.stat().st_size
    assert len([count for count in taken if count]) > 1


FULL_DISK = """
import random, resource, signal, sys
from labelprism.data.files import writing
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with writing(sys.argv[1]) as stream:
        for _ in range(int(sys.argv[2])):
            stream.write(random.randbytes(5000))
except OSError as error:
    print("told:", error.strerror)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
@pytest.mark.parametrize("blocks", [1, 200])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, suffix: str, blocks: int) -> None:
    path = write(tmp_path / f"file{suffix}", b"old")
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", FULL_DISK, str(path), str(blocks)]
    # The package may be on the path of this process only.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (result.stdout.strip(), result.stderr) == ("told: File too large", "")
    assert read(path) == b"old"
    assert names_in(tmp_path) == [path.name]


def test_permissions(tmp_path: Path) -> None:
    old = write(tmp_path / "old", b"1")
    old.chmod(0o640)
    write(old, b"2")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    usual = tmp_path / "usual"
    usual.touch()
    assert write(tmp_path / "new", b"1").stat().st_mode == usual.stat().st_mode


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    target = write(tmp_path / "target.gz", b"old")
    link = tmp_path / "link.gz"
    link.symlink_to(target)
    write(link, b"new")
    assert link.is_symlink()
    assert read(target) == b"new"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write, args=(pipe, b"through the pipe"), daemon=True)
    writer.start()
    assert read(pipe) == b"through the pipe"
    writer.join()
    assert pipe.is_fifo()


# ---------------------------------------------------------------- lines


def lines_of(path: Path, raw: bytes) -> list[tuple[int, str]]:
    path.write_bytes(raw)
    return list(text_lines(path))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n\r\n", ["a", "b", ""]),
        (b"a\rb\r\r\nc\r", ["a\rb\r", "c\r"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", ["\ufeffa"]),
        ("h\u00e9 \U0001d11e\n".encode(), ["h\u00e9 \U0001d11e"]),
    ],
)
def test_lines(tmp_path: Path, raw: bytes, expected: list[str]) -> None:
    assert lines_of(tmp_path / "file", raw) == list(enumerate(expected, start=1))


@pytest.mark.parametrize(
    ("raw", "line", "token", "message"),
    [
        ("text".encode("utf-16"), 1, "0xff 0xfe", "UTF-16, but UTF-8 is expected"),
        (b"\xfe\xff" + "text".encode("utf-16-be"), 1, "0xfe 0xff", "UTF-16, but UTF-8 is expected"),
        ("text".encode("utf-16-le"), 1, "t\0e\0x\0t\0", "NUL"),
        (b"a\nb\0c\nd", 2, "b\0c\n", "NUL"),
        ("a\nb\nna\u00efve".encode("latin-1"), 3, "0xef", "byte 3 of the line is not UTF-8"),
        (b"a\n\xed\xa0\x80", 2, "0xed", "UTF-8 is expected"),
        (b"a\nb\xe2\x82", 2, "0xe2 0x82", "byte 2"),
    ],
)
def test_wrong_encodings(tmp_path: Path, raw: bytes, line: int, token: str, message: str) -> None:
    path = tmp_path / "file"
    with pytest.raises(DataFormatError, match=message) as caught:
        lines_of(path, raw)
    assert (caught.value.path, caught.value.line, caught.value.token) == (str(path), line, token)


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"))))
def test_lines_come_back(lines: list[str]) -> None:
    for suffix in SUFFIXES:
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder, "file" + suffix), "".join(f"x{line}\n" for line in lines).encode())
            expected = [f"x{line}".removesuffix("\r") for line in lines]
            assert list(text_lines(path)) == list(enumerate(expected, start=1))
