"""The code blocks of a page, in the order in which they stand there.

A comment before a block says what a reader does not need to see:

    <!-- given: tate, tate.model -->          what must lie in the folder first; `given_files` makes it
    <!-- file: corpus.tsv -->                 the next block is the content of this file
    <!-- not run: needs a cluster -->         the next block cannot run here, and why
    <!-- output not compared: times vary -->  what the next block prints is an example

Sybil, pytest-examples and mktestdocs were looked at: each runs Python blocks, none of them shell sessions, files and
outputs that stand in blocks of their own, which is most of what is needed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON, SHELL, SESSION = "python", "sh", "console"
CODE = {PYTHON, SHELL, SESSION}
DATA = {"text", "json", "toml", "ini", "tsv"}

_OPEN = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<language>[^`\s]*)\s*$")
_COMMENT = re.compile(r"^ *<!-- (?P<kind>given|file|not run|output not compared): (?P<value>.+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    comments: dict[str, str]
    follows_block: bool
    """Whether nothing but blank lines stands between it and the block before it."""
    output: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def reason_not_to_run(self) -> str | None:
        return self.comments.get("not run")


def pages() -> list[str]:
    """README.md, CONTRIBUTING.md, and all of docs/."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def given_files_of(page: str) -> list[str]:
    """What the page says must be there before its first block."""
    lines = (ROOT / page).read_text("utf-8").splitlines()
    found = [comment["value"] for comment in map(_COMMENT.match, lines) if comment and comment["kind"] == "given"]
    return [name.strip() for value in found for name in value.split(",")]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page; a text right behind a Python block is what that block prints."""
    found: list[Block] = []
    for block in parsed_blocks(page, (ROOT / page).read_text("utf-8")):
        if found and found[-1].language == PYTHON and block.language == "text" and block.follows_block:
            found[-1] = replace(found[-1], output=block.text)
        else:
            found.append(block)
    return found


def parsed_blocks(page: str, text: str) -> list[Block]:
    """All fenced blocks of a text, with the comments before them."""
    found: list[Block] = []
    comments: dict[str, str] = {}
    follows_block = False
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if opened := _OPEN.match(line):
            inside = []
            for _, line in lines:
                if line.strip() == opened["fence"]:
                    break
                inside.append(line.removeprefix(opened["indent"]))
            else:
                raise ValueError(f"{page}:{number}: the block is not closed")
            found.append(Block(page, number, opened["language"], "\n".join(inside) + "\n", comments, follows_block))
            comments, follows_block = {}, True
        elif comment := _COMMENT.match(line):
            comments[comment["kind"]] = comment["value"]
            follows_block = False
        elif line.strip():  # prose, which parts a comment from a block
            comments, follows_block = {}, False
    return found


def session_steps(text: str) -> list[tuple[str, str]]:
    """The commands of a session, behind `$ `, each with what it prints; a backslash continues a command."""
    steps: list[tuple[str, str]] = []
    is_open = False
    for line in text.splitlines(keepends=True):
        if is_open:
            steps[-1] = steps[-1][0] + line, ""
        elif line.startswith("$ "):
            steps.append((line[2:], ""))
        elif steps:
            steps[-1] = steps[-1][0], steps[-1][1] + line
        else:
            raise ValueError(f"a session begins with a command behind '$ ', not with {line!r}")
        is_open = (is_open or line.startswith("$ ")) and line.rstrip("\n").endswith("\\")
    return steps
