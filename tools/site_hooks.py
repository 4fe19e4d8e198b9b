"""What the site does beyond MkDocs: pages of the root of the repository, README.md first, are pages of the site too.

Links are written as they work in the repository, where README.md links to docs/models.md and docs/models.md to
../CONTRIBUTING.md. For the site they are put right here.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the root, and the pages that they become."""

_LINK = re.compile(r'(?P<open>!?\[[^\]]*\]\(|(?:src|srcset)=")(?P<target>[^)"#\s]+)(?P<close>(?:#[^)"]*)?[)"])')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root.

    Parameters
    ----------
    files : Files
        Those of docs/.
    config : MkDocsConfig
    """
    root = Path(config.config_file_path).parent
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(root / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Return a page with its links put right.

    Parameters
    ----------
    markdown : str
    page : mkdocs.structure.pages.Page
    **_
        What else MkDocs passes.
    """
    uri: str = page.file.src_uri  # type: ignore[attr-defined]
    if uri == PAGES["README.md"]:
        page.meta["hide"] = ["navigation", "toc"]  # type: ignore[attr-defined] - room for the table
    source = {page: name for name, page in PAGES.items()}.get(uri, f"docs/{uri}")
    return _LINK.sub(lambda link: _site_link(link, source, uri), markdown)


def _site_link(link: re.Match[str], source: str, page: str) -> str:
    """Return a link of a file of the repository as one of the page that the file becomes."""
    if re.match(r"[a-z]+:", link["target"]):
        return link[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
    if target in PAGES:
        target = f"docs/{PAGES[target]}"
    if not target.startswith("docs/"):  # a file of the repository that is no page: its name is left
        return link["open"].rstrip("(").strip("[]")
    return link["open"] + posixpath.relpath(target, posixpath.dirname(f"docs/{page}")) + link["close"]
