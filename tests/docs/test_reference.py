"""The API reference has every public name, and docstring examples are true."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from page_blocks import ROOT

import labelprism

PARTS = ["data", "distributed", "errors", "explore", "features", "filters", "heads", "metrics", "serve"]
MODULES = ["labelprism", *(f"labelprism.{part}" for part in PARTS)]


def documented() -> set[int]:
    """The objects that pages of the reference name, by identity."""
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    named = [path.rpartition(".") for path in re.findall(r"^::: (\S+)$", pages, re.MULTILINE) if path not in MODULES]
    return {id(getattr(importlib.import_module(module), name)) for module, _, name in named}


def public_names(module: Any) -> list[str]:
    """What a module exports: `__all__`, or the classes of its own where it has none."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [name for name in own if not name.startswith("_")]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    if name == "labelprism.distributed":
        pytest.importorskip("distributed", reason="Dask is not installed: pip install 'labelprism[dask]'")
    module, known = importlib.import_module(name), documented()
    names = set(public_names(module)) - {*PARTS, "__version__"}  # pages of their own; a string, which a page mentions
    missing = sorted(public for public in names if id(getattr(module, public)) not in known)
    assert not missing, f"docs/reference lacks {missing} of {name}"


def modules_with_examples() -> list[str]:
    folder = Path(labelprism.__file__).parent
    found = [path.relative_to(folder.parent) for path in folder.rglob("*.py") if ">>> " in path.read_text("utf-8")]
    return sorted(".".join(path.with_suffix("").parts) for path in found)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert tried
    assert not failed
