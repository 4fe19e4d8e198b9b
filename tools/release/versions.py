"""Whether package, changelog, citation and tag name the same version; `make check-release-files`, and the workflow.

python tools/release/versions.py [TAG]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)((a|b|rc)(0|[1-9]\d*))?")
ROOT = Path(__file__).parents[2]


def disagreements(root: Path, tag: str | None = None) -> list[str]:
    """Return what does not fit, as sentences.

    Parameters
    ----------
    root : Path
        Of the repository.
    tag : str, optional
        Of a release, such as v0.1.0. Then the changelog must say when it is released, and the citation too.
    """
    init = (root / "src/labelprism/__init__.py").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    version = _found(r'^__version__ = "(.*)"$', init)
    cited, cited_date = _found(r"^version: (.*)$", citation), _found(r"^date-released: (.*)$", citation)
    newest, date = _found(r"^## (\S+), ", changelog), _found(r"^## \S+, (.*)$", changelog)
    wrong = []
    if not SEMANTIC.fullmatch(version):
        wrong.append(f"the package has the version {version!r}; write MAJOR.MINOR.PATCH, then aN, bN or rcN")
    if newest != version:
        wrong.append(f"the newest section of CHANGELOG.md is that of {newest!r}, the package is {version!r}")
    if cited != version:
        wrong.append(f"CITATION.cff has the version {cited!r}, the package is {version!r}")
    if tag is None:
        return wrong
    if tag != f"v{version}":
        wrong.append(f"the tag is {tag!r}, the package is {version!r}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        wrong.append(f"CHANGELOG.md says {date!r} where the date of the release belongs, as 2030-01-31")
    if cited_date != date:
        wrong.append(f"CITATION.cff has date-released: {cited_date!r}, CHANGELOG.md {date!r}")
    return wrong


def _found(pattern: str, text: str) -> str:
    """Return the first group of the first match; an empty string if there is none."""
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip("\"'") if match else ""


if __name__ == "__main__":
    found = disagreements(ROOT, sys.argv[1] if len(sys.argv) > 1 else None)
    sys.exit("\n".join(found) or None)
