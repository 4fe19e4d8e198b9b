"""Drawings of how routing works: a node's projection, an example's ways, recall by depth, accuracy against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelprism._arrays import check_whole
from labelprism.explore.drawing import (
    FAINT,
    FOURTH,
    GRID,
    INK,
    LEFT,
    PAPER,
    RIGHT,
    THIRD,
    legend,
    matplotlib_figure,
    plain_axes,
)
from labelprism.explore.routes import NodeMargins, Ways
from labelprism.explore.summaries import levels_of
from labelprism.explore.views import TreeView
from labelprism.filters.routing import probability_right

Float64 = npt.NDArray[np.float64]

_BINS = 60
_SHOWN_TAIL = 0.25  # the example that is shown goes the less probable way about so often
_CERTAIN = 0.995  # turns as probable as this need no number
_LONGEST_NAME, _LONGEST_TITLE = 42, 50  # letters
_COLOURS = (LEFT, RIGHT, THIRD, FOURTH, INK, FAINT)
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
_LINES = ("-", "--", ":", "-.")


# -------------------------------------------------------------------------------------------------- a node's projection


def node_picture(node: NodeMargins, example: int | None = None) -> Any:
    """Return a node's projection: who is where on its line, where it splits, and how noise sends examples both ways.

    Above, the examples by w.x, with the bias and one example's Gaussian, whose tail beyond the bias is the probability
    of the other way; in the middle that probability for every w.x; below, the means of the most frequent labels.

    Parameters
    ----------
    node : NodeMargins
        As `node_margins` returns it.
    example : int, optional
        The row of the example whose Gaussian is drawn; one that goes the other way about every fourth time when left
        out.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if example is None:
        example = _undecided(node)
    check_whole("example", example, 0, node.margins.size - 1)
    figure = matplotlib_figure(8.5, 5.2 + 0.24 * node.labels.size)
    heights = [3.0, 1.1, 0.5 + 0.24 * node.labels.size]
    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    edges = _edges(node)
    for axes in (above, middle, below):
        plain_axes(axes)
        axes.axvline(node.bias, color=INK, linewidth=1.2, label=f"bias {node.bias:.3g}")
    _draw_examples(above, node, edges)
    _draw_gaussian(above, node, example)
    line = np.linspace(edges[0], edges[-1], 301)
    middle.plot(line, probability_right(line, node.bias, node.noise), color=INK, linewidth=1.4)
    middle.plot(node.margins[example], node.right[example], marker="o", color=THIRD)
    middle.set(ylim=(-0.05, 1.05), yticks=[0, 0.5, 1], ylabel="probability\nto go right")
    _draw_labels(below, node)
    below.set(xlabel="w.x", xlim=(edges[0], edges[-1]))
    where = f"Node {node.node}, {node.path}" if node.path else f"Root {node.node}"
    figures = f"{node.reach.sum():,.0f} examples, purity {node.purity:.3f}, balance {node.balance:.3f}"
    above.set_title(f"{where}: {figures}", loc="left", fontsize=11, color=INK)
    handles, names = above.get_legend_handles_labels()
    legend(figure, handles=handles, labels=names, loc="outside lower center", ncols=2)
    return figure


def _undecided(node: NodeMargins) -> int:
    likely = node.reach >= 0.5 * node.reach.max()
    tail = np.minimum(node.right, 1 - node.right)
    return int(np.argmin(np.where(likely, np.abs(tail - _SHOWN_TAIL), np.inf)))


def _edges(node: NodeMargins) -> Float64:
    """Return the bounds of bins, of which one is the bias; a few far examples are left out."""
    order = np.argsort(node.margins, kind="stable")
    share = np.cumsum(node.reach[order]) / node.reach.sum()
    low, high = (float(node.margins[order[np.searchsorted(share, q)]]) for q in (0.001, 0.999))
    low, high = min(low, node.bias - 4 * node.noise), max(high, node.bias + 4 * node.noise)
    width = max((high - low) / _BINS, 1e-9 + 1e-6 * abs(node.bias))
    first, last = np.floor((low - node.bias) / width), np.ceil((high - node.bias) / width)
    bounds: Float64 = node.bias + width * np.arange(min(first, -1), max(last, 1) + 1)
    return bounds


def _draw_examples(axes: Any, node: NodeMargins, edges: Float64) -> None:
    counts, _ = np.histogram(node.margins, edges, weights=node.reach)
    at = int(np.searchsorted(edges, node.bias))
    to_right = float(node.reach[node.margins > node.bias].sum() / node.reach.sum())
    left = (counts[:at], edges[: at + 1], LEFT, f"nearer to the left ({1 - to_right:.0%})")
    right = (counts[at:], edges[at:], RIGHT, f"nearer to the right ({to_right:.0%})")
    for values, bounds, colour, name in (left, right):
        axes.stairs(values, bounds, fill=True, color=colour, alpha=0.45, label=name)
    axes.set(ylabel="examples", ylim=(0, 1.12 * max(float(counts.max()), 1e-9)))
    if abs(node.median - node.bias) > edges[1] - edges[0]:
        axes.axvline(node.median, color=INK, linewidth=1.2, linestyle=":", label=f"median {node.median:.3g}")


def _draw_gaussian(axes: Any, node: NodeMargins, example: int) -> None:
    if not node.noise > 0:
        return
    centre, width = float(node.margins[example]), node.noise
    line = np.linspace(centre - 4 * width, centre + 4 * width, 161)
    bell = 0.7 * axes.get_ylim()[1] * np.exp(-0.5 * ((line - centre) / width) ** 2)
    axes.plot(line, bell, color=THIRD, linewidth=1.6, label=f"an example with its noise, sigma {width:.3g}")
    right = float(node.right[example])
    tail, way = (line <= node.bias, "left") if centre > node.bias else (line >= node.bias, "right")
    axes.fill_between(line[tail], bell[tail], color=THIRD, alpha=0.55, linewidth=0)
    axes.plot([], [], color=THIRD, alpha=0.55, linewidth=6, label=f"its tail: {min(right, 1 - right):.0%} goes {way}")
    axes.plot(centre, 0, marker="o", color=THIRD, clip_on=False, zorder=5)


def _draw_labels(axes: Any, node: NodeMargins) -> None:
    order = np.argsort(-node.label_mean, kind="stable")
    place = np.arange(order.size)
    mean, share = node.label_mean[order], node.label_right[order]
    for goes_right, marker, colour in ((False, "<", LEFT), (True, ">", RIGHT)):
        own = (mean > node.bias) == goes_right
        axes.plot(mean[own], place[own], marker=marker, color=colour, linestyle="", markersize=7)
    for at, centre, part in zip(place.tolist(), mean.tolist(), share.tolist(), strict=True):
        axes.hlines(at, min(centre, node.bias), max(centre, node.bias), color=GRID, linewidth=1.5, zorder=0)
        side = 1 if centre > node.bias else -1
        text, align = (f"{part:.0%} right", "left") if side > 0 else (f"{1 - part:.0%} left", "right")
        shift = {"xytext": (8 * side, 0), "textcoords": "offset points", "va": "center", "ha": align}
        axes.annotate(text, (centre, at), color=INK, fontsize=8, annotation_clip=False, **shift)
    names = [_cut(node.label_names[label], _LONGEST_NAME) for label in order.tolist()]
    axes.set_yticks(place, names, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(-0.7, order.size - 0.3), ylabel="means of labels")


# ---------------------------------------------------------------------------------------------------- an example's ways


def ways_picture(ways: Ways) -> Any:
    """Return the ways of an example down a tree: the root at the left, left turns up, lines as thick as probable.

    Parameters
    ----------
    ways : Ways
        As `labelprism.explore.ways` returns it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    is_leaf = np.isnan(ways.right)
    depth, height = _depths(ways), _heights(ways)
    n_leaves, deepest = int(is_leaf.sum()), max(int(depth.max()), 1)
    figure = matplotlib_figure(4.6 + 0.62 * deepest, 1.1 + 0.42 * max(n_leaves, 2))
    axes = figure.subplots()
    plain_axes(axes)
    for place in range(ways.nodes.size):
        if ways.parent[place] >= 0:
            _draw_turn(axes, ways, place, depth, height)
    for place in range(ways.nodes.size):
        fill = INK if ways.decided[place] else PAPER
        size = 3.5 + 7 * np.sqrt(ways.probability[place])
        axes.plot(depth[place], height[place], marker="o", markersize=size, color=INK, markerfacecolor=fill, zorder=3)
        if is_leaf[place]:
            text = f"{ways.probability[place]:.1%}  {_shortened(ways.titles[place])}"
            shift = {"xytext": (11, 0), "textcoords": "offset points", "va": "center"}
            at = (depth[place], height[place])
            axes.annotate(text, at, color=INK, fontsize=8.5, annotation_clip=False, parse_math=False, **shift)
    axes.set(xlim=(-0.3, deepest + 0.2), ylim=(height.min() - 0.8, height.max() + 0.8), yticks=[], xlabel="depth")
    axes.set_xticks(range(deepest + 1))
    axes.spines["left"].set_visible(False)
    for colour, name in ((LEFT, "left, up"), (RIGHT, "right, down")):
        axes.plot([], [], color=colour, linewidth=3, label=name)
    axes.plot([], [], marker="o", color=INK, linestyle="", label="the more probable turn each time")
    axes.plot([], [], color=FAINT, linestyle=":", label=f"not followed: {ways.not_followed:.1%}")
    legend(figure, loc="outside lower center", ncols=4)
    return figure


def _shortened(title: str) -> str:
    """Return as many whole names of a title as fit."""
    while len(title) > _LONGEST_TITLE and " · " in title:
        title = title.rpartition(" · ")[0]
    return _cut(title, _LONGEST_TITLE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _depths(ways: Ways) -> Float64:
    depth = np.zeros(ways.nodes.size)
    for place in range(1, depth.size):
        depth[place] = depth[ways.parent[place]] + 1
    return depth


def _heights(ways: Ways) -> Float64:
    """Return where nodes are drawn: leaves one below the other, the others in the middle of their children."""
    below: list[list[int]] = [[] for _ in range(ways.nodes.size)]
    for place in range(1, ways.nodes.size):
        below[ways.parent[place]].append(place)
    height = np.zeros(ways.nodes.size)
    slots = iter(range(0, -ways.nodes.size - 1, -1))

    def visit(place: int) -> float:
        children = sorted(below[place], key=lambda child: bool(ways.goes_right[child]))
        height[place] = np.mean([visit(child) for child in children]) if children else next(slots)
        return float(height[place])

    visit(0)
    return height


def _draw_turn(axes: Any, ways: Ways, place: int, depth: Float64, height: Float64) -> None:
    above = int(ways.parent[place])
    start, end = (depth[above], height[above]), (depth[place], height[place])
    goes_right = bool(ways.goes_right[place])
    colour, line_width = RIGHT if goes_right else LEFT, 0.8 + 6 * ways.probability[place]
    axes.plot(*zip(start, end, strict=True), color=colour, linewidth=line_width, solid_capstyle="round")
    turn = ways.right[above] if goes_right else 1 - ways.right[above]
    if turn < _CERTAIN:
        middle = (start[0] + 0.56 * (end[0] - start[0]), start[1] + 0.56 * (end[1] - start[1]))
        box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8}
        axes.text(*middle, f"{turn:.0%}", ha="center", va="center", fontsize=7.5, color=INK, bbox=box, zorder=4)
        if not ((ways.parent == above) & (ways.goes_right != goes_right)).any():  # the other turn is not drawn
            other = start[1] + (0.45 if goes_right else -0.45)
            axes.plot([start[0], start[0] + 0.4], [start[1], other], color=FAINT, linestyle=":", linewidth=1.2)


# ------------------------------------------------------------------------------------------------------ recall by depth


def recall_picture(views: TreeView | Mapping[str, TreeView]) -> Any:
    """Return how many labels would be candidates if trees ended at each depth; see `TreeView.budget`.

    Parameters
    ----------
    views : TreeView, or mapping of names to TreeViews
        Several are drawn together.

    Returns
    -------
    matplotlib.figure.Figure
    """
    named = {"": views} if isinstance(views, TreeView) else dict(views)
    if not named:
        raise ValueError("there is nothing to draw: give a TreeView, or a mapping of names to TreeViews")
    figure = matplotlib_figure(7.5, 4.2)
    axes = figure.subplots()
    plain_axes(axes)
    number = 0
    for name, view in named.items():
        levels = levels_of(view)
        for tree, level in enumerate(levels):
            title = ", ".join(
                part for part in (name, f"tree {tree + 1}" if len(levels) > 1 or not name else "") if part
            )
            style = {"marker": _MARKERS[number % 8], "linestyle": _LINES[number % 4], "color": _COLOURS[number % 6]}
            axes.plot(np.arange(level.recall.size), 100 * level.recall, label=title, markersize=5, **style)
            number += 1
    axes.set(xlabel="depth at which trees end", ylabel="labels among the candidates, %")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    legend(axes, loc="best")
    return figure


# ------------------------------------------------------------------------------------------------ accuracy against time


class Timed(NamedTuple):
    """A system, how long it takes and how good it is."""

    name: str
    seconds: float
    accuracy: float


def frontier(points: Sequence[Timed]) -> list[Timed]:
    """Return the systems that no other beats in time and accuracy at once, the fastest first.

    Parameters
    ----------
    points : sequence of Timed
    """
    best: list[Timed] = []
    for point in sorted(points, key=lambda point: (point.seconds, -point.accuracy)):
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    return best


def frontier_picture(panels: Mapping[str, Sequence[Timed]], xlabel: str = "seconds", ylabel: str = "accuracy") -> Any:
    """Return accuracy against time, a panel for each data set, with the frontier of what no other system beats.

    Parameters
    ----------
    panels : mapping of titles to sequences of Timed
        Systems of the same name look the same in all of them. Seconds must be above 0: their axis is logarithmic.
    xlabel, ylabel : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not panels or not all(panels.values()):
        raise ValueError("there is nothing to draw: every panel needs at least one system")
    for point in (point for points in panels.values() for point in points):
        if not (0 < point.seconds < np.inf and np.isfinite(point.accuracy)):
            raise ValueError(f"{point.name}: seconds must be above 0 and accuracy a number, got {point[1:]}")
    names = sorted({point.name for points in panels.values() for point in points})
    figure = matplotlib_figure(3.1 * len(panels) + 0.6, 3.9)
    for axes, (title, points) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        plain_axes(axes)
        best = frontier(points)
        axes.plot(
            [p.seconds for p in best], [p.accuracy for p in best], color=FAINT, linewidth=1, drawstyle="steps-post"
        )
        for point in points:
            look = _look(names.index(point.name))
            fill = look["color"] if point in best else PAPER
            axes.plot(point.seconds, point.accuracy, markersize=8, markerfacecolor=fill, **look)
        axes.set(xscale="log", xlabel=xlabel)
        axes.set_title(title, fontsize=10, loc="left", color=INK, parse_math=False)
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    figure.axes[0].set_ylabel(ylabel)
    for number, name in enumerate(names):
        figure.axes[0].plot([], [], label=name, **_look(number))
    legend(figure, loc="outside lower center", ncols=min(4, len(names)))
    return figure


def _look(number: int) -> dict[str, Any]:
    return {"marker": _MARKERS[number % 8], "color": _COLOURS[number % 6], "linestyle": ""}
