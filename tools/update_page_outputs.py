"""Write into pages what their code blocks print: run it when a change of the library changes outputs.

    python tools/update_page_outputs.py docs/tutorial.md ...

Blocks run as in `tests/docs`, with all of the Tate collection. What stands in the text block behind a Python block, and
behind the commands of a session, is replaced, up to the first block that fails; look at the difference before you
commit it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "docs"))

import program_server
from given_files import give
from page_blocks import PYTHON, SESSION, Block, blocks_of, given_files_of, session_steps
from page_runner import PageError, PageRunner


class Recorder(PageRunner):
    """A reader who notes what is printed in place of comparing it."""

    def __init__(self, programs: Path, aside: Path) -> None:
        super().__init__(programs, aside, compares_output=True)
        self.printed: list[str] = []

    def _compare(self, block: Block, found: str, expected: str | None) -> None:
        self.printed.append(found if "output not compared" not in block.comments else expected or "")


def updated(page: str, folder: Path) -> str:
    """Return the text of a page with the outputs of a run.

    Parameters
    ----------
    page : str
        Its path from the root of the repository.
    folder : Path
        An empty one, where blocks run.
    """
    text = (ROOT / page).read_text("utf-8")
    for name in ("programs", "store", "aside", "here"):
        (folder / name).mkdir()
    server = program_server.start(folder / "programs", with_sample=False)
    os.chdir(folder / "here")
    for name in given_files_of(page):
        give(name, folder / "here", folder / "store", folder / "programs")
    recorder = Recorder(folder / "programs", folder / "aside")
    try:
        for block in blocks_of(page):
            if block.reason_not_to_run:
                continue
            recorder.printed.clear()
            recorder.run(block)
            text = _replaced(text, block, recorder.printed)
    except PageError as failure:
        print(f"stopped there: {failure}", file=sys.stderr)
    finally:
        recorder.close()
        server.kill()
    return text


def _replaced(text: str, block: Block, printed: list[str]) -> str:
    if block.language == PYTHON and block.output is not None:
        old = f"{block.text}```\n\n```text\n{block.output}```"
        return text.replace(old, f"{block.text}```\n\n```text\n{printed[0].rstrip()}\n```", 1)
    if block.language == SESSION:
        commands = [command for command, _ in session_steps(block.text)]
        steps = [f"$ {command}{found.rstrip()}".rstrip() for command, found in zip(commands, printed, strict=True)]
        return text.replace(f"```console\n{block.text}", "```console\n" + "\n\n".join(steps) + "\n", 1)
    return text


def main() -> None:
    """Update the pages that are named."""
    for page in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            text = updated(page, Path(folder))
            os.chdir(ROOT)
        (ROOT / page).write_text(text, "utf-8")
        print(page)


if __name__ == "__main__":
    main()
