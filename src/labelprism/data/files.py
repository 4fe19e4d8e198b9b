"""Opening of files, plain or compressed, so that no reader or writer has to think of it.

What is read is recognised by its first bytes, because names lie: browsers unpack a `.gz` and keep its name. What is
written goes to a temporary file beside the target, which takes the target's place only when it is whole.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from labelprism._progress import ProgressBar
from labelprism.errors import DataFormatError

StrPath = str | os.PathLike[str]

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

NUL_FOUND = "the line holds a NUL character: a UTF-8 text file is expected, not a binary or UTF-16 one"
"""What to say of a line of text that holds a NUL character."""

STANDARD_INPUT = Path("/dev/stdin")
"""The path of standard input. It is read by its number, because a socket cannot be opened by a name."""

COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
"""The endings of file names that `writing` compresses for."""

_BUFFER_BYTES = 128 * 1024
_GZIP_LEVEL = 6
_XZ_PRESET = 4
_ZSTD_LEVEL = 6


@contextmanager
def reading(path: StrPath, advance: Callable[[int], object] | None = None) -> Iterator[io.BufferedReader]:
    """Open a file as a stream of its decompressed bytes.

    Gzip, xz and zstd are recognised by the first bytes of the file, whatever its name.

    Parameters
    ----------
    path : path-like
        The file.
    advance : callable, optional
        Told how many bytes were taken from the file itself, before they are decompressed. Where the stream is read
        piece by piece to its end, this adds up to the size of the file.

    Raises
    ------
    DataFormatError
        While reading, when the compressed file is truncated or corrupt.
    ImportError
        When this Python cannot read the compression of the file.
    """
    path = Path(path)
    _refuse_directory(path)
    with _opened(path, advance) as file:
        opened = _decompressor(file)
        if opened is None:
            yield file
            return
        packed, faults = opened
        stream: io.BufferedReader = io.BufferedReader(_Decompressed(packed, faults, path), _BUFFER_BYTES)
        with packed, stream:
            yield stream


@contextmanager
def reading_with_bar(path: StrPath) -> Iterator[io.BufferedReader]:
    """Open a file as `reading` does, and show how much of it was read.

    Parameters
    ----------
    path : path-like
        The file. The bar follows it as it lies on the disk, because only that has a known size.
    """
    size = Path(path).stat().st_size or None  # a pipe has none
    with ProgressBar(size, f"reading {os.fspath(path)}", "B") as bar, reading(path, bar.advance) as stream:
        yield stream


@contextmanager
def writing(path: StrPath) -> Iterator[io.BufferedWriter]:
    """Open a file for writing, all or nothing.

    A name that ends in `.gz`, `.xz` or `.zst` is written compressed. The bytes go to a temporary file beside the
    target, which replaces the target at the end of the with-block; when an exception leaves the block, the target
    stays as it was and the temporary file is removed. The same content always gives the same bytes.

    Parameters
    ----------
    path : path-like
        The file. A symbolic link is kept, and the file it points to is replaced.
    """
    with writing_together(path) as (stream,):
        yield stream


@contextmanager
def writing_together(*paths: StrPath) -> Iterator[tuple[io.BufferedWriter, ...]]:
    """Open files that belong together for writing: as `writing`, but all of them are replaced, or none.

    No target is replaced before all the new files are complete and on the disk.

    Parameters
    ----------
    *paths : path-like
        The files, each another one.
    """
    target_of: dict[Path, Path] = {}
    try:
        with ExitStack() as streams:
            yield tuple([streams.enter_context(_filling(Path(path), target_of)) for path in paths])
        for temporary, target in target_of.items():
            temporary.replace(target)
    except BaseException:
        for temporary in target_of:
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _filling(path: Path, target_of: dict[Path, Path]) -> Iterator[io.BufferedWriter]:
    """Open the temporary file that is to replace `path`, and note it in `target_of`."""
    _refuse_directory(path)
    if path.exists() and not path.is_file():
        # A pipe or a device such as /dev/stdout takes bytes but must never be replaced by a file.
        with path.open("wb") as file, _compressing(file, path.suffix) as stream:
            yield stream
        return
    target = path.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder to write this file into does not exist", str(path))
    temporary = target.with_name(f".labelprism-{secrets.token_hex(8)}.tmp")
    target_of[temporary] = target
    with temporary.open("xb") as file:
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        with _compressing(file, path.suffix) as stream:
            yield stream
        file.flush()
        os.fsync(file.fileno())


def text_lines(path: StrPath, *, show_progress: bool = True) -> Iterator[tuple[int, str]]:
    r"""Yield the number, from 1, and the text of each line of a UTF-8 file, plain or compressed.

    A line ends at "\n" or "\r\n" and nowhere else: other characters that Unicode calls line breaks belong to the
    text. A byte order mark at the start is skipped.

    Parameters
    ----------
    path : path-like
        The file.
    show_progress : bool
        Whether to show a bar; not where whoever takes the lines has one.

    Raises
    ------
    DataFormatError
        With the line number, when the file is not UTF-8, holds NUL characters, or is truncated or corrupt.
    """
    number = 0
    try:
        with reading_with_bar(path) if show_progress else reading(path) as stream:
            for raw in stream:
                number += 1
                if number == 1:
                    raw = without_byte_order_mark(raw, path)
                yield number, _decoded(raw, number, path)
    except DataFormatError as error:
        if error.line is not None:
            raise
        raise DataFormatError(error.message, path, number + 1) from error


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a directory, but a file is expected", str(path))


# ---------------------------------------------------------------- decompression


def _opened(path: Path, advance: Callable[[int], object] | None) -> io.BufferedReader:
    if path == STANDARD_INPUT:
        return io.BufferedReader(io.FileIO(0, closefd=False), _BUFFER_BYTES)
    return path.open("rb") if advance is None else io.BufferedReader(_Watched(path, advance), _BUFFER_BYTES)


class _Watched(io.FileIO):
    """A file that tells how many bytes were taken from it."""

    def __init__(self, path: Path, advance: Callable[[int], object]) -> None:
        super().__init__(path, "rb")
        self._advance = advance

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer) or 0
        self._advance(count)
        return count


Faults = tuple[type[Exception], ...]


def _decompressor(file: io.BufferedReader) -> tuple[io.BufferedIOBase, Faults] | None:
    """Return the decompressing stream over `file` and the exceptions it has for corrupt bytes; None if plain."""
    head = file.peek(len(_XZ_MAGIC))
    if head.startswith(_GZIP_MAGIC):
        return gzip.GzipFile(fileobj=file, mode="rb"), (gzip.BadGzipFile, zlib.error)
    if head.startswith(_XZ_MAGIC):
        lzma = _import_lzma()
        return lzma.LZMAFile(file, "rb"), (lzma.LZMAError,)
    if head.startswith(_ZSTD_MAGIC):
        zstd = _import_zstd()
        return zstd.ZstdFile(file, "rb"), (zstd.ZstdError,)
    return None


class _Decompressed(io.RawIOBase):
    """The bytes of a decompressing stream, with its faults told as a `DataFormatError`.

    Translating here, and not around the caller's with-block, keeps exceptions of the caller's own code as they are.
    """

    def __init__(self, packed: io.BufferedIOBase, faults: Faults, path: Path) -> None:
        self._packed = packed
        self._faults = faults
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            # readinto1 hands over what there is, so that nothing before the damage is lost.
            return self._packed.readinto1(buffer)
        except EOFError as error:
            message = "the compressed file ends too early: it is truncated; copy or download it again"
            raise DataFormatError(message, self._path) from error
        except self._faults as error:
            message = f"the compressed file is corrupt ({error}); copy or download it again"
            raise DataFormatError(message, self._path) from error


# ---------------------------------------------------------------- compression


@contextmanager
def _compressing(file: io.BufferedWriter, suffix: str) -> Iterator[io.BufferedWriter]:
    """Put the compression that `suffix` asks for over `file`, if any; `file` stays open."""
    packed = _compressor(file, suffix)
    if packed is None:
        yield file
        return
    stream: io.BufferedWriter = io.BufferedWriter(_Compressed(packed), _BUFFER_BYTES)
    with packed, stream:
        yield stream


def _compressor(file: io.BufferedWriter, suffix: str) -> io.BufferedIOBase | None:
    if suffix == ".gz":
        # Without name and time the same content gives the same bytes.
        return gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0)
    if suffix == ".xz":
        packed: io.BufferedIOBase = _import_lzma().LZMAFile(file, "wb", preset=_XZ_PRESET)
        return packed
    if suffix == ".zst":
        zstd = _import_zstd()
        level, checksum = zstd.CompressionParameter.compression_level, zstd.CompressionParameter.checksum_flag
        # gzip and xz have a checksum; zstd has one when asked, and damage could go unseen without it.
        packed = zstd.ZstdFile(file, "wb", options={level: _ZSTD_LEVEL, checksum: 1})
        packed.write(b"")  # else nothing written makes an empty file, which is no zstd file
        return packed
    return None


class _Compressed(io.RawIOBase):
    """A compressing stream that can only be written: gzip's own one says that it can seek, and zip files believe it."""

    def __init__(self, packed: io.BufferedIOBase) -> None:
        self._packed = packed

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._packed.write(data)


# Imported when needed: a Python may lack lzma, zstd came with 3.14, and most files need neither.


def _import_lzma() -> Any:
    try:
        import lzma
    except ImportError as error:
        raise ImportError(
            "this Python was built without xz support (the lzma module); use one that has it, or unpack the file"
        ) from error
    return lzma


def _import_zstd() -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        raise ImportError('zstd files need one more package: pip install "labelprism[zstd]"') from error
    return zstd


# ---------------------------------------------------------------- text


def without_byte_order_mark(raw: bytes, path: StrPath) -> bytes:
    """Return the first bytes of a text file without the mark of UTF-8, made sure that they have none of UTF-16.

    Parameters
    ----------
    raw : bytes
        What the file begins with.
    path : path-like
        The file, for the error message.
    """
    if raw.startswith(_UTF16_BOMS):
        message = "the file is UTF-16, but UTF-8 is expected; convert it, as with iconv -f UTF-16 -t UTF-8"
        raise DataFormatError(message, path, 1, _shown(raw[:2]))
    return raw.removeprefix(_UTF8_BOM)


def _decoded(raw: bytes, number: int, path: StrPath) -> str:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = (
            f"byte {error.start + 1} of the line is not UTF-8 ({error.reason}), but UTF-8 is expected; "
            "convert the file, as with iconv -f LATIN1 -t UTF-8"
        )
        raise DataFormatError(message, path, number, _shown(raw[error.start : error.end])) from error
    if "\0" in line:
        raise DataFormatError(NUL_FOUND, path, number, line)
    if line.endswith("\n"):
        return line[:-2] if line.endswith("\r\n") else line[:-1]
    return line


def _shown(raw: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in raw)
