"""Every code block of README.md and docs/ is run, and prints what the page says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import program_server
import pytest
import tate_sample
from given_files import give
from page_blocks import CODE, DATA, PYTHON, Block, blocks_of, given_files_of, pages, parsed_blocks, session_steps
from page_runner import PageError, PageRunner

ALL_BLOCKS = [block for page in pages() for block in blocks_of(page)]
PAGES = sorted({block.page for block in ALL_BLOCKS if block.language in CODE and not block.reason_not_to_run})
NOT_RUN = [block for block in ALL_BLOCKS if block.reason_not_to_run]
OUTPUT_OF_ALL_OF_TATE = ("load_tate", "demo --write-data", "tate.model")


@pytest.fixture(scope="session")
def programs(long_run: bool) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # the address of a socket must be short
        server = program_server.start(Path(folder), with_sample=not long_run)
        yield Path(folder)
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("given")


def is_about_tate(page: str) -> bool:
    """Whether outputs of the page are those of all of the Tate collection, and not of the sample."""
    names = " ".join([*given_files_of(page), *(block.text for block in blocks_of(page))])
    return any(sign in names for sign in OUTPUT_OF_ALL_OF_TATE)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_do_what_the_page_says(
    page: str, programs: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_run: bool
) -> None:
    (folder := tmp_path / "here").mkdir()
    (aside := tmp_path / "aside").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    if not long_run:
        for module in tate_sample.replaced_modules():
            monkeypatch.setattr(module, "load_tate", tate_sample.sample)
    for name in given_files_of(page):
        give(name, folder, store, programs)
    reader = PageRunner(programs, aside, compares_output=long_run or not is_about_tate(page))
    try:
        for block in blocks_of(page):
            if not block.reason_not_to_run:
                reader.run(block)
    finally:
        reader.close()


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.place)
def test_blocks_that_are_not_run(block: Block) -> None:
    """They are listed as skipped, each with its reason; Python must be Python even so."""
    if block.language == PYTHON:
        compile(block.text, block.page, "exec")
    assert block.language in CODE, f"{block.place}: {block.language} would not be run anyway; drop the comment"
    pytest.skip(f"{block.place} is not run: {block.reason_not_to_run}")


def test_blocks_say_what_they_are() -> None:
    """A block of a language that nobody runs would be left out in silence."""
    unknown = [block.place for block in ALL_BLOCKS if block.language not in CODE | DATA]
    assert not unknown, f"the language must be one of {sorted(CODE | DATA)}, behind the backquotes: {unknown}"


# ------------------------------------------------------------------------------------------------- the runner itself


def ran(text: str, programs: Path, aside: Path) -> None:
    reader = PageRunner(programs, aside, compares_output=True)
    try:
        for block in parsed_blocks("page.md", text):
            reader.run(block)
    finally:
        reader.close()


@pytest.fixture
def aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder := tmp_path / "here").mkdir()
    monkeypatch.chdir(folder)
    return tmp_path


def test_a_page_is_one_session(programs: Path, aside: Path) -> None:
    page = """
<!-- file: texts/a.txt -->
```text
one
```

```python
from pathlib import Path

lines = Path("texts/a.txt").read_text().split()
```

```console
$ echo two \\
    three > b.txt
$ cat b.txt
two ...
```

```python
assert lines + Path("b.txt").read_text().split() == ["one", "two", "three"]
```
"""
    ran(page, programs, aside)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```python\nx = 1\n1 / 0\n```", "page.md:1: ZeroDivisionError"),
        ("```console\n$ echo one\ntwo\n```", "page.md:1: the page says"),
        ("```sh\nfalse\n```", "page.md:1: exit code 1"),
        ("```sh\nlabelprism train nothing.tsv --out x\n```", "No such file"),
        ("```console\n$ echo fine\nlabelprism: an error\n```", "exit code 0"),
    ],
)
def test_what_is_wrong_is_found(page: str, message: str, programs: Path, aside: Path) -> None:
    with pytest.raises(PageError, match=message):
        ran(page, programs, aside)


def test_comments_belong_to_the_next_block() -> None:
    text = "<!-- not run: needs a moon -->\n\n```sh\nlaunch\n```\n<!-- not run: lost -->\nprose\n```sh\necho\n```\n"
    first, second = parsed_blocks("page.md", text)
    assert (first.reason_not_to_run, second.reason_not_to_run) == ("needs a moon", None)
    with pytest.raises(ValueError, match=r"page\.md:1: the block is not closed"):
        parsed_blocks("page.md", "```python\n1\n")
    with pytest.raises(ValueError, match="begins with a command"):
        session_steps("output\n")
