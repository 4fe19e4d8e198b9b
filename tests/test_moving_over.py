"""docs/how-to/moving-over.md: blocks of other libraries run where these are, and the numbers are what the page says.

A library may live in an environment of its own: OMIKUJI_PYTHON, LIBPECOS_PYTHON, NAPKINXC_PYTHON and FASTTEXT_PYTHON
name its interpreter. The blocks of labelprism need nothing else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "moving-over.md"
MODULES = {"omikuji": "omikuji", "libpecos": "pecos", "napkinxc": "napkinxc", "fasttext": "fasttext"}
TITLES = {"omikuji": "omikuji", "libpecos": "PECOS", "napkinxc": "napkinXC", "fasttext": "fastText"}
FOUND = re.compile(r"P@1 ([\d.]+), P@5 ([\d.]+)")


class Block(NamedTuple):
    """A block of code: what it needs, if anything but labelprism."""

    needs: str | None
    code: str


def blocks() -> list[Block]:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"(?:<!-- not run: needs (\w+) -->\n\n)?```python\n(.*?)```", text, re.DOTALL)
    return [Block(needs or None, code) for needs, code in found]


def stated(title: str, column: int) -> tuple[float, float]:
    """Return P@1 and P@5 of a row of the page's table: column 0 is the other library, 1 is labelprism."""
    row = re.search(rf"^\| {title}[^|]*\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    first, second = row[1].split("|")[column].split("/")
    return float(first), float(second)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's own blocks have run, with what they printed in `printed.txt`."""
    folder = tmp_path_factory.mktemp("moving-over")
    code = "\n".join(block.code for block in blocks() if block.needs is None)
    (folder / "printed.txt").write_text(_printed(sys.executable, code, folder), encoding="utf-8")
    return folder


def _printed(python: str, code: str, folder: Path) -> str:
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_has_both_sides_of_every_library() -> None:
    needs = [block.needs for block in blocks()]
    assert needs == [None, "omikuji", None, "libpecos", None, "napkinxc", None, "fasttext", None]


def test_labelprism(folder: Path) -> None:
    found = FOUND.findall((folder / "printed.txt").read_text(encoding="utf-8"))
    assert len(found) == 4
    for (p1, p5), title in zip(found, TITLES.values(), strict=True):
        assert (float(p1), float(p5)) == pytest.approx(stated(title, 1), abs=0.3)


@pytest.mark.parametrize("library", MODULES)
def test_others(library: str, request: pytest.FixtureRequest) -> None:
    python = os.environ.get(f"{library.upper()}_PYTHON", sys.executable)
    missing = subprocess.run([python, "-c", f"import {MODULES[library]}"], capture_output=True, check=False).returncode
    if missing:
        pytest.skip(f"{library} is not installed; {library.upper()}_PYTHON may name an interpreter that has it")
    code = next(block.code for block in blocks() if block.needs == library)
    printed = _printed(python, code, request.getfixturevalue("folder"))
    said = FOUND.search(printed)
    assert said is not None, printed
    # Other versions of a library may differ a little, and so may threads.
    assert (float(said[1]), float(said[2])) == pytest.approx(stated(TITLES[library], 0), abs=1.5)
