"""Benchmarks are scripts beside the package, not part of it: they are imported from their folder, if there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="session", autouse=True)
def benchmarks() -> None:
    """Make the benchmarks importable; skip where only the package is installed."""
    if not FOLDER.is_dir():
        pytest.skip(f"there is no folder {FOLDER}: this is not a checkout, so that there are no benchmarks to test")
    sys.path.insert(0, str(FOLDER))
