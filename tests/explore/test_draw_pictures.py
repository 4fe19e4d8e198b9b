"""`tools/draw_pictures.py`: what it draws, from what, and that its pictures in docs/ are small and sound."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from labelprism import explore
from labelprism.data.dataset import Dataset

ROOT = Path(__file__).resolve().parents[2]
OF_TREES = {"node", "node-refined", "ways", "ways-refined", "recall-by-depth"}
OF_TABLES = {"frontier-training", "frontier-prediction"}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_pictures", ROOT / "tools" / "draw_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_trees_are_drawn_twice_the_same(
    tool: ModuleType, train: Dataset, test: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "CANDIDATES", 8)  # of 120 labels
    few = train.take(range(300))
    once, again = (tool.tree_pictures(few, test) for _ in range(2))
    assert set(once) == OF_TREES
    for name in ("node", "ways-refined"):
        for number, figures in enumerate((once, again)):
            explore.save_picture(figures[name], tmp_path / f"{number}.svg")
        assert (tmp_path / "0.svg").read_bytes() == (tmp_path / "1.svg").read_bytes()


def test_frontiers_come_from_the_tables(tool: ModuleType) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = {row["system"]: row for row in tool.benchmark_tables(page)["tate-subjects"]}
    figures = tool.frontier_pictures()
    assert set(figures) == OF_TABLES
    axes = figures["frontier-training"].axes[0]
    assert axes.get_title(loc="left") == "tate-subjects"
    drawn = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    wanted = {(float(row["(CPU)"]), float(row["P@1"].strip("*"))) for row in rows.values()}
    tail = rows["labelprism tail"]
    assert drawn == wanted - {(float(tail["(CPU)"]), float(tail["P@1"].strip("*")))}


def test_pictures_of_the_documentation() -> None:
    text = (ROOT / "docs" / "algorithm.md").read_text(encoding="utf-8")
    for name in OF_TREES | OF_TABLES:
        path = ROOT / "docs" / "pictures" / f"{name}.svg"
        assert f"pictures/{path.name}" in text
        assert path.stat().st_size < 150_000
        svg = path.read_text(encoding="utf-8")
        assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme: dark" in svg
