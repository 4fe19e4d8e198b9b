"""Still pictures, by matplotlib, which is loaded when one is drawn."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from labelprism.explore.drawing import figure_type, save_picture
from labelprism.explore.figures import nodes_of_tree
from labelprism.explore.summaries import candidates_of_leaves, coverage_of_labels, levels_of
from labelprism.explore.views import MEASURES, TreeView

_LEVELS = 6
_WIDTH, _HEIGHT = 15.0, 9.0  # inches
_LETTERS_PER_INCH, _LINES_PER_INCH = 11.5, 7.2  # of the text in boxes
_STYLES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "D", "^", "x")


def tree_picture(view: TreeView, tree: int = 0, measure: str = "purity") -> Any:
    """Return a tree as an icicle of a few levels: the root at the left, heights by mass.

    Parameters
    ----------
    view : TreeView
    tree : int
    measure : {"purity", "balance", "recall", "tail share"}
        What colours are.

    Returns
    -------
    matplotlib.figure.Figure
    """
    make_figure = figure_type()
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    values = view.measure(measure)
    kept = nodes_of_tree(view, tree, 600)
    kept = kept[view.nodes.depth[kept] <= _LEVELS]
    known = values[kept][~np.isnan(values[kept])]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    colours = ScalarMappable(Normalize(low, high if high > low else low + 1e-3), colormaps["viridis"])
    n_columns = int(view.nodes.depth[kept].max()) + 1
    figure = make_figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes = figure.subplots()
    bottom, total = _bottoms(view, kept), max(float(view.mass[tree]), 1e-300)
    for node in kept.tolist():
        height, value = view.mass[node] / total, values[node]
        colour = colours.to_rgba(value) if np.isfinite(value) else (0.85, 0.86, 0.88, 1.0)
        place = (float(view.nodes.depth[node]), bottom[node] / total)
        axes.add_patch(_box(place, height, colour))
        text = _inside(view, node, measure, value, _WIDTH / n_columns * 0.86, height * _HEIGHT * 0.9)
        ink = "black" if _luminance(colour) > 0.179 else "white"
        axes.text(place[0] + 0.03, place[1] + height - 0.004, text, va="top", fontsize=7.5, color=ink, clip_on=True)
    axes.set(xlim=(0, n_columns), ylim=(0, 1), xlabel="depth", yticks=[], xticks=np.arange(n_columns) + 0.5)
    axes.set_xticklabels(range(n_columns))
    axes.spines[:].set_visible(False)
    measured = f"measured on {view.n_rows:,} examples" if view.n_rows else "of training"
    axes.set_title(f"Tree {tree + 1} of {view.nodes.n_trees}: {measure}, {measured}", loc="left")
    figure.colorbar(colours, ax=axes, label=f"{measure}: {MEASURES[measure]}", shrink=0.8)
    return figure


def model_picture(view: TreeView) -> Any:
    """Return recall, purity and balance by depth, candidates per leaf and label coverage.

    Parameters
    ----------
    view : TreeView

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = figure_type()(figsize=(12, 8), layout="constrained")
    recall, splits, candidates, coverage = figure.subplots(2, 2).ravel()
    for tree, levels in enumerate(levels_of(view)):
        style = {
            "linestyle": _STYLES[tree % 4],
            "marker": _MARKERS[tree % 5],
            "markersize": 4,
            "color": f"C{tree % 10}",
        }
        depth = np.arange(levels.n_nodes.size)
        recall.plot(depth, levels.recall, label=f"tree {tree + 1}", **style)
        splits.plot(depth, levels.purity, label=f"purity, tree {tree + 1}", **style)
        splits.plot(depth, levels.balance, label=f"balance, tree {tree + 1}", markerfacecolor="none", lw=0.8, **style)
    recall.set(title="Recall by depth", xlabel="depth", ylabel=f"recall with {view.budget:,} candidates")
    splits.set(title="Purity and balance by depth", xlabel="depth")
    for axes in (recall, splits):
        axes.xaxis.get_major_locator().set_params(integer=True)
    for number, histogram in enumerate(found := candidates_of_leaves(view)):
        _bars(candidates, histogram.titles(), histogram.counts, number, len(found), f"tree {number + 1}")
    candidates.set(title="Candidates per leaf", xlabel="candidates", ylabel="leaves")
    for number, group in enumerate(groups := coverage_of_labels(view)):
        name = f"{group.group}, {group.examples} examples"
        _bars(coverage, group.leaves.titles(), group.leaves.counts, number, len(groups), name)
    coverage.set(title="Label coverage", xlabel="leaves that hold the label", ylabel="labels", yscale="symlog")
    for axes in (recall, splits, candidates, coverage):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure


def save_pictures(view: TreeView, folder: str | Path, measure: str = "purity") -> list[Path]:
    """Write a picture of each tree, tree-1.png and so on, and model.png; return their paths.

    Parameters
    ----------
    view : TreeView
    folder : path-like
        Made where it is missing.
    measure : {"purity", "balance", "recall", "tail share"}
        What colours of the trees are.
    """
    folder = Path(folder)
    figure_type()
    folder.mkdir(exist_ok=True)
    pictures = {f"tree-{tree + 1}.png": tree_picture(view, tree, measure) for tree in range(view.nodes.n_trees)}
    pictures["model.png"] = model_picture(view)
    for name, figure in pictures.items():
        save_picture(figure, folder / name)
    return [folder / name for name in pictures]


def _bottoms(view: TreeView, kept: Any) -> dict[int, float]:
    """Return where the boxes of kept nodes begin: the left child above the right one."""
    bottom: dict[int, float] = {}
    for node in kept.tolist():
        above = int(view.nodes.parent[node])
        if above < 0:
            bottom[node] = 0.0
        elif node == view.nodes.children[above]:
            bottom[node] = bottom[above] + float(view.mass[node + 1])
        else:
            bottom[node] = bottom[above]
    return bottom


def _inside(view: TreeView, node: int, measure: str, value: float, width: float, height: float) -> str:
    """Return what fits into a box of some inches."""
    n_lines = int(height * _LINES_PER_INCH)
    if n_lines < 1:
        return ""
    said = [f"{measure} {value:.3f}" if np.isfinite(value) else "leaf"] if n_lines > 1 else []
    title = view.title(node, 3).replace("$", r"\$")
    letters = max(6, int(width * _LETTERS_PER_INCH))
    lines = textwrap.wrap(title, letters, max_lines=n_lines - len(said), placeholder=" …", break_on_hyphens=False)
    return "\n".join([*lines, *said])


def _box(place: tuple[float, float], height: float, colour: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(place, 1.0, height, facecolor=colour, edgecolor="white", linewidth=0.7)


def _bars(axes: Any, titles: list[str], counts: Any, number: int, n: int, label: str) -> None:
    place = np.arange(len(titles)) + (number - (n - 1) / 2) * 0.8 / n
    hatch = ("", "///", "...", "xxx")[number % 4]
    axes.bar(place, counts, 0.8 / n, label=label, hatch=hatch, edgecolor="white", linewidth=0.3)
    axes.set_xticks(np.arange(len(titles)), titles, rotation=45, ha="right", fontsize=7)


def _luminance(colour: Any) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
