"""The drawings of routing: what stands in them, and their files."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from small_data import MARKUP

from labelprism import PrismClassifier, explore
from labelprism.data.dataset import Dataset
from labelprism.explore import Timed


@pytest.fixture(scope="module")
def root(text_model: PrismClassifier, test: Dataset) -> explore.NodeMargins:
    return explore.node_margins(text_model, test, n_labels=8)


def texts_of(axes: object) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_node(root: explore.NodeMargins) -> None:
    figure = explore.node_picture(root, example=5)
    above, middle, below = figure.axes
    left, right = above.patches
    (low, low_edges), (high, high_edges) = ((side.get_data().values, side.get_data().edges) for side in (left, right))
    assert low_edges[-1] == high_edges[0] == pytest.approx(root.bias)
    inside = (root.margins >= low_edges[0]) & (root.margins <= high_edges[-1])
    assert inside.mean() > 0.97
    assert low.sum() == pytest.approx(root.reach[inside & (root.margins < root.bias)].sum())
    assert high.sum() == pytest.approx(root.reach[inside & (root.margins >= root.bias)].sum())
    curve = middle.lines[1]
    np.testing.assert_allclose(np.interp(root.bias, *curve.get_data()), 0.5, atol=0.02)
    assert middle.lines[2].get_data() == ([root.margins[5]], [root.right[5]])
    names = [label.get_text() for label in below.get_yticklabels()]
    assert names == [root.label_names[label] for label in np.argsort(-root.label_mean, kind="stable")]
    bell = next(line for line in above.lines if "sigma" in str(line.get_label()))
    assert bell.get_xdata()[np.argmax(bell.get_ydata())] == pytest.approx(root.margins[5])
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any(f"{min(root.right[5], 1 - root.right[5]):.0%} goes" in line for line in said)
    with pytest.raises(ValueError, match="example must be"):
        explore.node_picture(root, example=10**6)


def test_the_example_of_a_node_is_one_that_may_go_both_ways(root: explore.NodeMargins) -> None:
    shown = explore.node_picture(root).axes[1].lines[2].get_ydata()[0]
    tail = np.minimum(root.right, 1 - root.right)
    assert abs(min(shown, 1 - shown) - 0.25) == pytest.approx(np.abs(tail - 0.25).min())


def test_a_node_without_noise(matrices: tuple[Dataset, Dataset]) -> None:
    from labelprism.filters import SpectralTree

    train, test = matrices
    tree = SpectralTree(8, max_depth=2, routing="hard", random_state=0).fit(train.X, train.Y)
    figure = explore.node_picture(explore.node_margins(tree, test))
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not any("sigma" in line for line in said)
    assert set(figure.axes[1].lines[1].get_ydata()) == {0.0, 1.0}


def test_ways(text_model: PrismClassifier, test: Dataset) -> None:
    found = explore.ways(text_model, test.texts[:1], smallest=0.01)
    axes = explore.ways_picture(found).axes[0]
    at_leaf = np.isnan(found.right)
    shown = texts_of(axes)
    for probability, title in zip(found.probability[at_leaf], np.array(found.titles)[at_leaf], strict=True):
        assert any(text.startswith(f"{probability:.1%}  {title.split(' · ')[0][:20]}") for text in shown)
    nodes = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata()) == 1]
    assert len(nodes) == found.nodes.size
    depth = [line.get_xdata()[0] for line in nodes]
    assert depth == sorted(depth)
    leaves = [line.get_ydata()[0] for line, is_leaf in zip(nodes, at_leaf, strict=True) if is_leaf]
    assert len(set(leaves)) == len(leaves)  # no leaf is drawn over another
    for place, above in enumerate(found.parent.tolist()):
        siblings = [other for other in range(place) if found.parent[other] == above >= 0]
        for other in siblings:  # left turns go up
            assert (nodes[place].get_ydata()[0] < nodes[other].get_ydata()[0]) == found.goes_right[place]


def test_recall(text_model: PrismClassifier, train: Dataset, test: Dataset) -> None:
    views = {"training": explore.tree_view(text_model, train), "test": explore.tree_view(text_model, test)}
    axes = explore.recall_picture(views).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {f"{name}, tree {tree}" for name in views for tree in (1, 2)}
    for name, view in views.items():
        drawn = lines[f"{name}, tree 2"].get_ydata()
        np.testing.assert_allclose(drawn, 100 * view.labels.recall_by_depth[1, : drawn.size])
    alone = explore.recall_picture(views["test"]).axes[0]
    assert [line.get_label() for line in alone.lines] == ["tree 1", "tree 2"]
    with pytest.raises(ValueError, match="nothing to draw"):
        explore.recall_picture({})


def test_frontier() -> None:
    points = [
        Timed("slow", 9, 80),
        Timed("best", 4, 90),
        Timed("quick", 1, 70),
        Timed("worse", 2, 60),
        Timed("b", 4, 90),
    ]
    assert [point.name for point in explore.frontier(points)] == ["quick", "best"]
    figure = explore.frontier_picture({"one": points, "two $x$": points[:1]}, "s", "P@1")
    first, second = figure.axes
    steps = first.lines[0]
    assert (steps.get_xdata().tolist(), steps.get_ydata().tolist()) == ([1, 4], [70, 90])
    assert first.get_xscale() == "log"
    assert second.get_title(loc="left") == "two $x$"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b", "best", "quick", "slow", "worse"]
    with pytest.raises(ValueError, match="nothing to draw"):
        explore.frontier_picture({"none": []})
    with pytest.raises(ValueError, match="slow: seconds must be above 0"):
        explore.frontier_picture({"one": [Timed("slow", 0, 1)]})


def test_files(root: explore.NodeMargins, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    named = replace(root, label_names=[MARKUP, "漢字", "long " * 20, *root.label_names[3:]])
    for name in ("one.svg", "two.svg", "one.png"):
        with caplog.at_level(logging.WARNING, "labelprism"):
            explore.save_picture(explore.node_picture(named), tmp_path / name)
    assert "lacks characters" in caplog.text  # of a Chinese name
    svg = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert svg == (tmp_path / "two.svg").read_text(encoding="utf-8")
    document = ElementTree.fromstring(svg)
    texts = ["".join(element.itertext()) for element in document.iter("{http://www.w3.org/2000/svg}text")]
    assert {MARKUP, "漢字", ("long " * 20)[:41] + "…"} <= set(texts)
    rules = "".join(style.text for style in document.iter("{http://www.w3.org/2000/svg}style"))
    assert '[style*="fill: #ffffff"]{fill:#16191f !important}' in rules
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"are written as \.svg"):
        explore.save_picture(explore.node_picture(root), tmp_path / "one.bmp")


def test_matplotlib_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, root: explore.NodeMargins) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"labelprism\[explore\]"):
        explore.node_picture(root)
