"""Running the blocks of a page: in order, in one folder and one namespace, as a reader would."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from page_blocks import PYTHON, SESSION, SHELL, Block, session_steps

_SECONDS_OF_A_COMMAND = 300
_SECONDS_TO_START = 60
_CHECKER = doctest.OutputChecker()
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_ERROR = "labelprism: "  # what an error of the program begins with


class PageError(AssertionError):
    """A block of a page did not do what the page says."""


class PageRunner:
    """A reader who types a page into the working directory.

    Parameters
    ----------
    programs : Path
        A folder with the program `labelprism`, which comes first in PATH.
    aside : Path
        A folder for what commands print.
    compares_output : bool
        Whether outputs must be those of the page.
    """

    def __init__(self, programs: Path, aside: Path, compares_output: bool) -> None:
        self._aside = aside
        self._compares_output = compares_output
        self._namespace: dict[str, Any] = {"__name__": "__main__"}
        self._environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
        self._groups: list[int] = []

    def run(self, block: Block) -> None:
        """Run a block, or write the file that it is.

        Parameters
        ----------
        block : Block
        """
        if "file" in block.comments:
            path = Path(block.comments["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.language == PYTHON:
            self._compare(block, self._run_python(block), block.output)
        elif block.language == SHELL:
            self._run_command(block, block.text)
        elif block.language == SESSION:
            for command, output in session_steps(block.text):
                self._compare(block, self._run_command(block, command, output), output)

    def close(self) -> None:
        """End what blocks have left running."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _run_python(self, block: Block) -> str:
        code = compile("\n" * block.line + block.text, block.page, "exec")  # tracebacks name the line of the page
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self._namespace)  # noqa: S102 - which is what this is for
        except Exception as error:
            raise PageError(f"{block.place}: {type(error).__name__}: {error}") from error
        return printed.getvalue()

    def _run_command(self, block: Block, command: str, expected: str = "") -> str:
        """Run a command by bash, and return what it prints; one that ends in & goes on once it has said something."""
        printed, complained = (self._aside / f"{len(self._groups)}.{name}" for name in ("out", "err"))
        with printed.open("wb") as out, complained.open("wb") as err:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._groups.append(process.pid)
        code = process.wait(_SECONDS_OF_A_COMMAND)
        if command.rstrip().endswith("&"):
            _wait_for_words(complained, block)
        is_wrong = expected.startswith(_ERROR)  # the page shows what an error looks like
        if (code != 0) != is_wrong:
            said = printed.read_text("utf-8") + complained.read_text("utf-8")
            raise PageError(f"{block.place}: exit code {code} of\n{command}\n{said}")
        return (complained if is_wrong else printed).read_text("utf-8")

    def _compare(self, block: Block, found: str, expected: str | None) -> None:
        if not expected or not self._compares_output or "output not compared" in block.comments:
            return
        if not _CHECKER.check_output(expected.strip() + "\n", found.strip() + "\n", _LENIENT):
            raise PageError(f"{block.place}: the page says\n{expected}\nbut this is printed:\n{found}")


def _wait_for_words(path: Path, block: Block) -> None:
    end = time.monotonic() + _SECONDS_TO_START
    while not path.stat().st_size:
        if time.monotonic() > end:
            raise PageError(f"{block.place}: what was started said nothing for {_SECONDS_TO_START} seconds")
        time.sleep(0.05)
