"""The exceptions of labelprism; each is a `ValueError`, so `except ValueError` is always enough."""

from __future__ import annotations

from os import PathLike, fspath


class DataFormatError(ValueError):
    """A file does not hold what its format promises.

    Parameters
    ----------
    message : str
        What was wrong, what was expected and what to do.
    path : path-like, optional
        The file.
    line : int, optional
        The line of the file, counted from 1.
    token : str, optional
        The offending piece of the line, cut to 60 characters.
    """

    def __init__(
        self,
        message: str,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        token: str | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else fspath(path)
        self.line = line
        self.token = None if token is None else _shorten(token)
        super().__init__(message, path, line, token)

    def __str__(self) -> str:
        place = self.path or ""
        if self.line is not None:
            place = f"{place}, line {self.line}" if place else f"line {self.line}"
        text = f"{place}: {self.message}" if place else self.message
        return text if self.token is None else f"{text} (at {self.token!r})"


def _shorten(token: str, limit: int = 60) -> str:
    return token if len(token) <= limit else token[: limit - 3] + "..."


class ModelFormatError(ValueError):
    """A model directory does not hold what it promises.

    Parameters
    ----------
    message : str
        What was wrong, what was expected and what to do.
    path : path-like
        The directory, or the file in it.
    """

    def __init__(self, message: str, path: str | PathLike[str]) -> None:
        self.message = message
        self.path = fspath(path)
        super().__init__(message, path)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class CheckpointError(ModelFormatError):
    """A folder does not hold what a stopped training left, or that of another training.

    Parameters
    ----------
    message : str
        What was wrong, what was expected and what to do.
    path : path-like
        The folder, or the file in it.
    """


class ClusterError(ValueError):
    """A Dask cluster could not do its work: there is none, its workers died again and again, or its scheduler did."""
