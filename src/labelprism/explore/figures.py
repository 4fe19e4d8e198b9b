"""Figures for notebooks, by plotly, which is loaded when one is made."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from labelprism._arrays import Int64, check_whole
from labelprism.explore.payload import kept_nodes
from labelprism.explore.summaries import candidates_of_leaves, coverage_of_labels, levels_of
from labelprism.explore.views import MEASURES, TreeView, tree_view

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def icicle(model: Any, data: Any = None, **options: Any) -> Any:
    """Return a tree as an icicle: the root at the left, sizes by mass.

    Parameters
    ----------
    model : PrismClassifier or TreeView
    data : Dataset or (X, y), optional
        Examples to measure on; see `tree_view`.
    **options
        tree : int, default=0
            Which tree.
        measure : {"purity", "balance", "recall", "tail share"}
            What colours are.
        max_nodes : int, default=400
            The lightest beyond so many are folded into their parents.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    return _tree_figure("icicle", _as_view(model, data), **options)


def treemap(model: Any, data: Any = None, **options: Any) -> Any:
    """Return a tree as boxes in boxes; the parameters are those of `icicle`.

    Parameters
    ----------
    model, data, **options : see `icicle`
    """
    return _tree_figure("treemap", _as_view(model, data), **options)


def recall_by_depth(model: Any, data: Any = None) -> Any:
    """Return how many labels would be candidates if the trees ended at each depth; see `TreeView.budget`.

    Parameters
    ----------
    model : PrismClassifier or TreeView
    data : Dataset or (X, y), optional
    """
    go, view = _plotly(), _as_view(model, data)
    figure = go.Figure()
    for tree, levels in enumerate(levels_of(view)):
        figure.add_trace(_line(go, f"tree {tree + 1}", levels.recall, tree))
    return figure.update_layout(xaxis_title="depth", yaxis_title="recall")


def purity_and_balance(model: Any, data: Any = None) -> Any:
    """Return purity and balance of the splits at each depth, averaged by mass.

    Parameters
    ----------
    model : PrismClassifier or TreeView
    data : Dataset or (X, y), optional
    """
    go, view = _plotly(), _as_view(model, data)
    figure = go.Figure()
    for tree, levels in enumerate(levels_of(view)):
        figure.add_trace(_line(go, f"purity, tree {tree + 1}", levels.purity, tree))
        figure.add_trace(_line(go, f"balance, tree {tree + 1}", levels.balance, tree, marker={"symbol": "circle-open"}))
    return figure.update_layout(xaxis_title="depth")


def candidates_per_leaf(model: Any) -> Any:
    """Return how many leaves have how many candidates.

    Parameters
    ----------
    model : PrismClassifier or TreeView
    """
    go, view = _plotly(), _as_view(model, None)
    figure = go.Figure()
    for tree, histogram in enumerate(candidates_of_leaves(view)):
        figure.add_trace(go.Bar(name=f"tree {tree + 1}", x=histogram.titles(), y=histogram.counts))
    return figure.update_layout(xaxis_title="candidates", yaxis_title="leaves", xaxis_type="category")


def label_coverage(model: Any) -> Any:
    """Return how many labels are candidates in how many leaves, by how frequent the labels are.

    Parameters
    ----------
    model : PrismClassifier or TreeView
    """
    go, view = _plotly(), _as_view(model, None)
    figure = go.Figure()
    for group in coverage_of_labels(view):
        name = f"{group.group}, {group.examples} examples"
        figure.add_trace(go.Bar(name=name, x=group.leaves.titles(), y=group.leaves.counts))
    titles = {"xaxis_title": "leaves that hold the label", "yaxis_title": "labels"}
    return figure.update_layout(**titles, xaxis_type="category", yaxis_type="log")


def _tree_figure(
    shape: Literal["icicle", "treemap"], view: TreeView, tree: int = 0, measure: str = "purity", max_nodes: int = 400
) -> Any:
    go = _plotly()
    values = view.measure(measure)
    kept = nodes_of_tree(view, tree, max_nodes)
    parent = view.nodes.parent[kept]
    is_end = ~np.isin(kept, parent)
    details = [_details(view, node) for node in kept.tolist()]
    trace = {"icicle": go.Icicle, "treemap": go.Treemap}[shape](
        ids=[str(node) for node in kept],
        labels=[_plain(view.title(node)) for node in kept.tolist()],
        parents=["" if above < 0 else str(above) for above in parent],
        values=np.where(is_end, view.mass[kept], 0.0),  # the others are sums
        text=[f"{measure} {value:.3f}" if np.isfinite(value) else "leaf" for value in values[kept]],
        customdata=details,
        hovertemplate="%{customdata}<extra></extra>",
        sort=False,
        marker={
            "colors": np.where(np.isnan(values[kept]), np.nanmean([*values[kept], 0.5]), values[kept]),
            "colorscale": "Viridis",
            "colorbar": {"title": {"text": measure}},
        },
    )
    return go.Figure(trace).update_layout(margin={"t": 30, "l": 5, "r": 5, "b": 5}, title=MEASURES[measure])


def nodes_of_tree(view: TreeView, tree: int, most: int) -> Int64:
    """Return the heaviest nodes of one tree, with their siblings and ancestors, in ascending order.

    Parameters
    ----------
    view : TreeView
    tree : int
    most : int
        How many, about.
    """
    check_whole("tree", tree, 0, view.nodes.n_trees - 1)
    check_whole("max_nodes", most, 1, 2**31 - 1)
    kept = kept_nodes(view, most * view.nodes.n_trees)
    own: Int64 = kept[view.nodes.tree[kept] == tree]
    return own


def _details(view: TreeView, node: int) -> str:
    grown = zip(view.names(view.labels.grown[node]), view.labels.lift[node].tolist(), strict=False)
    lines = [
        f"<b>{_plain(view.title(node, 3))}</b>",
        f"node {node}, depth {view.nodes.depth[node]}, mass {view.mass[node]:,.0f}",
        "most frequent: " + _plain(", ".join(view.names(view.labels.top[node][:6]))),
        "over-represented: " + _plain(", ".join(f"{name} ({lift:.1f}x)" for name, lift in list(grown)[:6])),
    ]
    return "<br>".join(lines)


def _plain(text: str) -> str:
    """Return text that plotly does not read as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _line(go: Any, name: str, values: Any, tree: int, **more: Any) -> Any:
    line = {"dash": _DASHES[tree % len(_DASHES)]}
    return go.Scatter(name=name, x=np.arange(values.size), y=values, mode="lines+markers", line=line, **more)


def _as_view(model: Any, data: Any) -> TreeView:
    if not isinstance(model, TreeView):
        return tree_view(model, data)
    if data is not None:
        raise ValueError("a TreeView has its data already; make another with tree_view(model, data)")
    return model


def _plotly() -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError("figures need plotly: pip install 'labelprism[explore]'") from error
    return go
