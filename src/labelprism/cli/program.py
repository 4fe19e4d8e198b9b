"""From a command line to an exit code: what went wrong becomes one line on standard error, and a number."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from labelprism.cli import interrupts
from labelprism.cli.flags import build_parser
from labelprism.cli.settings import UsageError

OK, UNEXPECTED, USAGE, BAD_DATA, BAD_MODEL, BAD_FILE = range(6)


def run() -> NoReturn:
    """Run the program of this process: the entry point of the console script."""
    interrupts.watch()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where it is closed
            stream.reconfigure(errors="backslashreplace")  # names of labels may be beyond the terminal's characters
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments, without the name of the program; those of this process when left out.

    Returns
    -------
    int
        The exit code; `labelprism --help` has the list.
    """
    debug = False
    try:
        arguments = build_parser().parse_args(argv)
        debug = arguments.debug
        with _logging(arguments.more - arguments.less):
            importlib.import_module(arguments.module).run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse, after --help, --version or a mistake
        return _as_code(stop.code)
    except BrokenPipeError:  # as with `| head`: whoever read has read enough
        _close_output()
        return OK
    except BaseException as error:  # noqa: BLE001 - whatever it is, it becomes a line and a number
        code, message = explain(error)
        if debug:
            traceback.print_exc()
        print(f"labelprism: {message}", file=sys.stderr)
        _close_output()
        return code
    return OK


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for whatever ended a command."""
    from labelprism.errors import DataFormatError, ModelFormatError

    if isinstance(error, KeyboardInterrupt):
        code = interrupts.TERMINATED if isinstance(error, interrupts.Terminated) else interrupts.INTERRUPTED
        return code, interrupts.message_of(code)
    if isinstance(error, UsageError):
        return USAGE, str(error)
    if isinstance(error, ImportError):
        return USAGE, f"something is not installed: {error}"
    if isinstance(error, ModelFormatError):
        return BAD_MODEL, str(error)
    if isinstance(error, (DataFormatError, ValueError)):
        return BAD_DATA, _one_line(error)
    if isinstance(error, OSError):
        return BAD_FILE, _told(error)
    if isinstance(error, MemoryError):
        return UNEXPECTED, "out of memory; take fewer rows, fewer bits, or --preset fast"
    return UNEXPECTED, f"unexpected {type(error).__name__}: {_one_line(error)}; --debug shows where"


def _told(error: OSError) -> str:
    if error.filename is None:
        return str(error.strerror or error)
    return f"{error.filename}: {error.strerror}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _as_code(code: Any) -> int:
    return code if isinstance(code, int) else OK if code is None else USAGE


def _close_output() -> None:
    """Make sure that Python does not try to write what is left once more at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def _logging(verbosity: int) -> Iterator[None]:
    """Show what the library logs, and its warnings, as lines on standard error; with the time where nobody looks on."""
    logger = logging.getLogger("labelprism")
    handler = logging.StreamHandler(sys.stderr)
    is_terminal = sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(message)s" if is_terminal else "%(asctime)s %(levelname)s %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel({-1: logging.WARNING, 0: logging.INFO}.get(max(verbosity, -1), logging.DEBUG))
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _logged_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def _logged_warning(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    logging.getLogger("labelprism").warning("%s", " ".join(str(message).split()))
