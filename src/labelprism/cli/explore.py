"""`labelprism explore`: the label trees of a model as a page, as pictures and as a table."""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from labelprism.cli import inputs, models
from labelprism.cli.settings import UsageError
from labelprism.cli.tables import size, table
from labelprism.data.files import writing
from labelprism.explore import (
    frequent_labels,
    node_margins,
    node_picture,
    page_of,
    save_picture,
    save_pictures,
    tree_view,
    ways,
    ways_picture,
)
from labelprism.explore.examples import Examples, explained_examples, filter_of
from labelprism.explore.structure import Nodes
from labelprism.explore.table import NodeRow

logger = logging.getLogger("labelprism")


def run(arguments: argparse.Namespace) -> None:
    """Write and print what is wanted."""
    if not (arguments.out or arguments.png or arguments.table):
        raise UsageError("explore needs --out PAGE, --png FOLDER or --table")
    for flag, package in (("out", "plotly"), ("png", "matplotlib")):  # before time is spent
        if getattr(arguments, flag) and importlib.util.find_spec(package) is None:
            raise UsageError(f"--{flag} needs {package}: pip install 'labelprism[explore]'")
    model = models.load(arguments.model, arguments.n_jobs)
    examples = None if arguments.data is None else _examples(model, arguments)
    view = tree_view(model, examples, groups=arguments.groups, n_top=max(12, arguments.top))
    if arguments.out:
        shown = [] if examples is None else explained_examples(model, examples, arguments.examples)
        title = arguments.title or f"Labels of {Path(arguments.model).resolve().name}"
        page = page_of(view, shown, title=title).encode()
        with writing(arguments.out) as stream:
            stream.write(page)
        logger.info("%s: %s", arguments.out, size(len(page)))
    if arguments.png:
        routing = {} if examples is None else _routing_pictures(model, examples, view.nodes, arguments)
        paths = save_pictures(view, arguments.png, arguments.measure)
        for path, figure in routing.items():
            save_picture(figure, path)
        for path in (*paths, *routing):
            logger.info("%s", path)
    if arguments.table:
        rows = frequent_labels(view, arguments.depth, arguments.top)
        print("\n".join(map(_as_json, rows)) if arguments.json else _shown(rows))


def _routing_pictures(model: Any, examples: Examples, nodes: Nodes, arguments: argparse.Namespace) -> dict[Path, Any]:
    """Return how nodes split the examples, and the ways of one of them through each tree, by their paths."""
    if not hasattr(filter_of(model), "routers_"):
        return {}
    folder, n_rows = Path(arguments.png), examples.Y.shape[0]
    if arguments.row > n_rows:
        raise UsageError(f"--row is {arguments.row}, but the data has {n_rows} rows")
    roots = [root for root in range(nodes.n_trees) if nodes.children[root] >= 0]
    pictures: dict[Path, Any] = {}
    for node in roots if arguments.node is None else [arguments.node]:
        try:
            pictures[folder / f"node-{node}.png"] = node_picture(node_margins(model, examples, node))
        except ValueError as error:
            raise UsageError(f"--node: {error}") from None
    row = examples.block(slice(arguments.row - 1, arguments.row))
    for tree in range(nodes.n_trees):
        pictures[folder / f"ways-{tree + 1}.png"] = ways_picture(ways(model, row, tree))
    return pictures


def _examples(model: Any, arguments: argparse.Namespace) -> Examples:
    dataset = inputs.read_dataset(arguments.data, inputs.reading_options(arguments))
    names = models.label_names(model)
    truth = inputs.true_labels(dataset, names, arguments.data)
    rows = inputs.rows_of(dataset, models.takes_texts(model), int(model.n_features_in_), arguments.data)
    if models.takes_texts(model):
        rows = list(rows)  # which may lie in a file
    return Examples(rows, truth.Y[:, : len(names)], np.diff(truth.Y.indptr).astype(np.int64))


def _shown(rows: list[NodeRow]) -> str:
    cells = [["tree", "way", "depth", "mass", "most frequent labels"]]
    cells += [
        [str(row.tree), row.way or "-", str(row.depth), f"{row.mass:,.0f}", "; ".join(row.labels)] for row in rows
    ]
    narrow = table([line[:4] for line in cells], 2).splitlines()
    width = max(map(len, narrow))
    return "\n".join(f"{line.ljust(width)}  {labels[4]}" for line, labels in zip(narrow, cells, strict=True))


def _as_json(row: NodeRow) -> str:
    grown = [[name, round(lift, 3)] for name, lift in row.grown]
    return json.dumps({**row._asdict(), "mass": round(row.mass, 2), "grown": grown}, ensure_ascii=False)
