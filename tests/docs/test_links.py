"""Links between README.md, CONTRIBUTING.md, CHANGELOG.md and the pages of docs/, as they work in the repository.

`make docs` checks them once more as links of the site.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from page_blocks import ROOT, pages

_FENCE = re.compile(r"^ *(```+).*?^ *\1\s*?$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
SOURCES = [*pages(), "CHANGELOG.md"]


@cache
def prose(path: Path) -> str:
    return _FENCE.sub("", path.read_text("utf-8"))


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of headings, as GitHub and MkDocs make them."""
    titles = [title.replace("`", "") for title in _HEADING.findall(prose(path))]
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("source", SOURCES)
def test_links_lead_somewhere(source: str) -> None:
    text = _CODE.sub("", prose(ROOT / source))
    lost = []
    for link in _LINK.findall(text):
        if re.match(r"https?://|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        path = ((ROOT / source).parent / target).resolve() if target else ROOT / source
        if not path.is_relative_to(ROOT) or not path.exists() or (anchor and anchor not in anchors(path)):
            lost.append(link)
    assert not lost, f"{source} has links that lead nowhere: {lost}"


def test_every_page_is_in_the_navigation() -> None:
    """A page that the navigation lacks would be found by nobody; `make docs` would say so too."""
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"^ +- (?:[^#\n]*: )?(\S+\.md)\b", navigation, re.MULTILINE))
    there = {page.removeprefix("docs/") for page in pages() if page.startswith("docs/")}
    made = {"index.md", "contributing.md", "changelog.md"}  # by tools/site_hooks.py
    assert listed >= there, f"missing in mkdocs.yml: {sorted(there - listed)}"
    assert listed <= there | made, f"not there: {sorted(listed - there - made)}"
