"""Figures, pictures and the table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from small_data import HOSTILE, MARKUP

from labelprism import PrismClassifier, explore
from labelprism.data.dataset import Dataset


@pytest.fixture(scope="module")
def view(text_model: PrismClassifier, test: Dataset) -> explore.TreeView:
    return explore.tree_view(text_model, test)


@pytest.mark.parametrize("make", [explore.icicle, explore.treemap])
def test_trees_as_figures(make: object, view: explore.TreeView) -> None:
    trace = make(view, tree=1, measure="recall", max_nodes=9).data[0]
    kept = np.array([int(node) for node in trace.ids])
    assert set(view.nodes.tree[kept]) == {1}
    assert 5 <= kept.size <= 27
    np.testing.assert_allclose(sum(trace.values), view.mass[1])
    np.testing.assert_allclose(trace.marker.colors, view.recall[kept])
    assert "<script>" not in "".join(trace.labels) + "".join(trace.customdata)
    whole = make(view).data[0]
    assert len(whole.ids) == (view.nodes.tree == 0).sum()
    with pytest.raises(ValueError, match="tree must be"):
        make(view, tree=99)
    with pytest.raises(ValueError, match="no measure"):
        make(view, measure="beauty")


def test_charts_as_figures(view: explore.TreeView, text_model: PrismClassifier, test: Dataset) -> None:
    recall = explore.recall_by_depth(text_model, test)
    np.testing.assert_allclose(recall.data[0].y[0], view.labels.recall_by_depth[0, 0])
    assert len(explore.purity_and_balance(view).data) == 2 * view.nodes.n_trees
    leaves = explore.candidates_per_leaf(view)
    assert sum(int(np.sum(bar.y)) for bar in leaves.data) == view.nodes.leaf_nodes.size
    coverage = explore.label_coverage(text_model)
    assert sum(int(np.sum(bar.y)) for bar in coverage.data) == len(view.label_names)
    with pytest.raises(ValueError, match="its data already"):
        explore.recall_by_depth(view, test)


@pytest.mark.parametrize(
    ("module", "make"), [("plotly.graph_objects", explore.icicle), ("matplotlib.figure", explore.model_picture)]
)
def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, view: explore.TreeView, module: str, make: object
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"labelprism\[explore\]"):
        make(view)


def test_pictures(view: explore.TreeView, tree_model: PrismClassifier, tmp_path: Path) -> None:
    paths = explore.save_pictures(view, tmp_path / "new", "tail share")
    assert [path.name for path in paths] == [*(f"tree-{n + 1}.png" for n in range(view.nodes.n_trees)), "model.png"]
    for path in paths:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    axes = explore.tree_picture(explore.tree_view(tree_model)).axes[0]
    heights = {}
    for box in axes.patches:
        heights.setdefault(box.get_x(), []).append(box.get_height())
    assert heights[0.0] == [1.0]
    np.testing.assert_allclose(sum(heights[1.0]), 1)
    texts = "".join(text.get_text() for text in explore.tree_picture(view).axes[0].texts)
    assert "purity" in texts


def test_table(view: explore.TreeView) -> None:
    rows = explore.frequent_labels(view, depth=2, n_labels=3)
    assert [row.tree for row in rows] == sorted(row.tree for row in rows)
    assert {row.depth for row in rows} == {0, 1, 2}
    for row in rows:
        assert len(row.way) == row.depth
        assert row.labels == view.names(view.labels.top[row.node][:3])
        assert all(lift > 1 for _, lift in row.grown)
    first = [row for row in rows if row.tree == 1]
    assert [row.way for row in first[:3]] == ["", "L", "LL"]
    np.testing.assert_allclose(first[0].mass, view.mass[0])
    with pytest.raises(ValueError, match="n_labels"):
        explore.frequent_labels(view, n_labels=13)


def test_table_names_are_those_of_the_paper_tree(tree_model: PrismClassifier) -> None:
    """The most frequent labels are those that the tree has counted itself, where its leaves hold them all."""
    view = explore.tree_view(tree_model)
    names = view.label_names
    assert {HOSTILE, MARKUP} < set(names)
    for row in explore.frequent_labels(view, depth=1, n_labels=1):
        assert row.labels[0] in tree_model.filter_.describe(row.node, names)[:3]
