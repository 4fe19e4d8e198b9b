"""Strings as two arrays, one run of UTF-8 and where each string begins in it: NumPy's own would be pickled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from labelprism._arrays import Int64

UInt8 = npt.NDArray[np.uint8]

_STRINGS_PER_RUN = 1024  # decoded together while iterating


def packed_strings(strings: Iterable[str]) -> tuple[UInt8, Int64]:
    """Return strings as bytes and offsets.

    Parameters
    ----------
    strings : iterable of n str

    Returns
    -------
    text : uint8 array
    offsets : int64 array of shape (n + 1,)
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


class PackedStrings(Sequence[str]):
    """Strings that are decoded when they are asked for; slices are lists.

    Parameters
    ----------
    text : uint8 array
    offsets : int64 array of shape (n + 1,)
        As `packed_strings` returns them; both may be mapped files, and may have been forged.
    """

    def __init__(self, text: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> None:
        fits = text.dtype == np.uint8 and text.ndim == 1 and offsets.dtype == np.int64 and offsets.ndim == 1
        if not fits or not offsets.size or offsets[0] or offsets[-1] != text.size:
            raise ValueError("the arrays of strings do not fit together")
        self._text = text
        self._offsets = offsets

    def __len__(self) -> int:
        return self._offsets.size - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            rows = range(*index.indices(len(self)))
            return self._run(rows.start, rows.stop) if rows.step == 1 else [self[row] for row in rows]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"there is no string {index}; there are {len(self)}")
        return self._run(row, row + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _STRINGS_PER_RUN):
            yield from self._run(begin, min(begin + _STRINGS_PER_RUN, len(self)))

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence, also a list, has the same strings."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} strings, {self._text.size:,} bytes>"

    def _run(self, begin: int, end: int) -> list[str]:
        """Return strings that follow each other."""
        if begin >= end:
            return []
        offsets = self._offsets[begin : end + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        if (np.diff(offsets) < 0).any() or first < 0 or last > self._text.size:
            raise ValueError(f"the offsets of strings {begin} to {end - 1} are damaged")
        content, ends = self._text[first:last].tobytes(), (offsets - first).tolist()
        try:
            return [content[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(ends)]
        except UnicodeDecodeError as error:
            raise ValueError(f"the strings {begin} to {end - 1} are no UTF-8 ({error}): damaged") from error
