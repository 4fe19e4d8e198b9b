"""One page for a model: the data, the programs that show it, and nothing from elsewhere."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import urlsplit

from labelprism._arrays import check_whole
from labelprism.estimator import PrismClassifier
from labelprism.explore.examples import examples_of, explained_examples
from labelprism.explore.payload import DETAILS, payload
from labelprism.explore.views import TreeView, tree_view

MAX_BYTES = 10_000_000
_SCRIPTS = ("data.js", "tree.js", "outline.js", "panel.js", "search.js", "example.js", "model.js", "main.js")


def page(
    model: PrismClassifier,
    data: Any = None,
    *,
    title: str = "Label tree",
    n_examples: int = 50,
    groups: tuple[int, int] = (10, 100),
    explain_url: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> str:
    """Return a page that shows the trees of a model; it works offline, from a file.

    Parameters
    ----------
    model : PrismClassifier
        Fitted.
    data : Dataset or (X, y), optional
        Examples to measure on, and to show.
    title : str
    n_examples : int
        How many examples to explain in the page.
    groups : (int, int)
        The most training examples of a rare label, and of one that is not frequent.
    explain_url : str, optional
        Where a server answers for texts that are pasted: it gets a POST of {"text": ...} as JSON, and returns what
        `explained` does. A page without it cannot explain new texts, unless it finds a function
        `window.labelprismExplain` that takes a text and returns a promise of the same.
    max_bytes : int
        What is small is left out until the page is no larger.
    """
    check_whole("n_examples", n_examples, 0, 10_000)
    examples = None if data is None else examples_of(model, data)
    view = tree_view(model, examples, groups=groups)
    shown = [] if examples is None else explained_examples(model, examples, n_examples)
    return page_of(view, shown, title=title, explain_url=explain_url, max_bytes=max_bytes)


def page_of(
    view: TreeView, examples: Sequence[dict[str, Any]] = (), *, title: str = "Label tree",
    explain_url: str | None = None, max_bytes: int = MAX_BYTES,
) -> str:  # fmt: skip
    """Return the page of a view; the parameters are those of `page`.

    Parameters
    ----------
    view : TreeView
    examples : list of dict
        As `explained` returns them.
    title, explain_url, max_bytes : see `page`
    """
    fixed = _fixed(title, explain_url)
    for detail in DETAILS:
        found = {**payload(view, examples, detail), "explain_url": explain_url}
        data = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text = Template(_asset("page.html")).substitute(fixed, data=_packed(data))
        if len(text.encode()) <= max_bytes:
            return text
    raise ValueError(f"the page does not fit into {max_bytes:,} bytes; allow more, or embed fewer examples")


def _fixed(title: str, explain_url: str | None) -> dict[str, str]:
    """Return all parts of the page but its data."""
    program = f'"use strict";\n(() => {{\n{"".join(_asset(name) for name in _SCRIPTS)}}})();\n'
    plotly = _plotly()
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in (program, plotly))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {_origin(explain_url)}; base-uri 'none'; form-action 'none'"
    )
    return {
        "title": html.escape(title.encode("utf-8", "replace").decode()),
        "policy": html.escape(policy),
        "style": _asset("page.css"),
        "plotly": _packed(plotly),
        "program": program,
    }


def _origin(url: str | None) -> str:
    """Return what a policy says of the server of a URL."""
    if url is None:
        return "'none'"
    parts = urlsplit(url)
    if not parts.netloc:
        return "'self'"
    if parts.scheme not in ("http", "https") or set(parts.netloc) & set(" ;,'\""):
        raise ValueError(f"explain_url must be a path, or begin with http:// or https://, got {url!r}")
    return f"{parts.scheme}://{parts.netloc}"


def _asset(name: str) -> str:
    return (files("labelprism.explore") / "assets" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return the JavaScript of plotly."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the page needs plotly: pip install 'labelprism[explore]'") from error
    code: str = get_plotlyjs()
    return code


def _packed(text: str) -> str:
    """Return text so that it can stand in a page whatever is in it; the page unpacks it."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode()


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
