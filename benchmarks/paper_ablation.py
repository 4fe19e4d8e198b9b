"""What each part of the paper's method does (its section 5.2), and accuracy against speed and depth (its Table 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from paper_data import Split
from paper_models import (
    Model,
    Settings,
    budget,
    fitted,
    grown_tree,
    logistic_head,
    low_rank_head,
    measured,
    percent,
    recall,
    say,
    speed,
    table,
)

from labelprism._arrays import is_sparse
from labelprism.filters import SpectralTree
from labelprism.heads import Head

TASKS = ("none", "bias", "weights", "hash", "low_rank", "group_sparse")
BUDGETS = (25, 100, 400, 1000, 4000, 6000, 12000)
DEPTHS = (2, 4, 6, 8, 10, 12, 14)
PAPER_GROWTH = {"fractional": ("98.1%", "96.5%"), "deterministic": ("100%", "93.3%")}
PAPER_ROUTES = {"sampled": ("95.97%", "91.03%"), "decided": ("97.90%", "79.34%")}
PAPER_TASKS = {"none": ("95.43%", "89.53%"), "weights": ("95.97%", "91.03%")}


def head_of(data: Split, settings: Settings, kind: str | None, **parameters: str) -> Head:
    """Return the head that the paper has for such data: of low rank for dense examples, hashed for sparse ones."""
    kind = kind or ("logistic" if is_sparse(data.X) else "low_rank")
    if kind == "low_rank":
        return low_rank_head(settings, **parameters)
    return logistic_head(data, settings, **parameters)


def usual_task(data: Split, kind: str | None) -> str:
    """Return the task of the paper's experiments: weights of each leaf on ALOI, biases elsewhere."""
    kind = kind or ("logistic" if is_sparse(data.X) else "low_rank")
    return "weights" if kind == "low_rank" else "bias"


# ----------------------------------------------------------------------------------------------------------- ablation


def ablation_tables(data: Split, settings: Settings, k: int | None, kind: str | None) -> str:
    """Return three tables: how the tree grows, how H's examples are routed, and what H makes of the leaf."""
    k = k or budget(data.Y.shape[1])
    tree = grown_tree(data, k, settings)
    return "\n".join(
        [
            f"{data}; k = {k}\n",
            _growth_table(data, settings, tree),
            _routes_table(data, settings, tree, kind),
            _task_table(data, settings, tree, kind),
        ]
    )


def _growth_table(data: Split, settings: Settings, tree: SpectralTree) -> str:
    trees = {"fractional": tree, "deterministic": grown_tree(data, tree.n_candidates, settings, routing="hard")}
    rows = []
    for name, grown in trees.items():
        found = recall(grown, data)
        rows.append([name, percent(found.train), percent(found.test), *PAPER_GROWTH[name]])
    head = ["routing in growth", "train recall", "test recall", "paper (ALOI): train", "paper (ALOI): test"]
    return table(head, rows)


def _routes_table(data: Split, settings: Settings, tree: SpectralTree, kind: str | None) -> str:
    task, rows = usual_task(data, kind), []
    for routes in ("sampled", "decided"):
        head = head_of(data, settings, kind, task=task, routes=routes)
        cells = _accuracies(data, fitted(data, tree, head, f"routes {routes}"))
        rows.append([routes, *cells, *PAPER_ROUTES[routes]])
    head_line = ["routes in training H", "train P@1", "test P@1", "paper (ALOI): train", "paper (ALOI): test"]
    return table(head_line, rows)


def _task_table(data: Split, settings: Settings, tree: SpectralTree, kind: str | None) -> str:
    rows = []
    for task in TASKS:
        try:
            model = fitted(data, tree, head_of(data, settings, kind, task=task), f"task {task}")
        except ValueError as error:
            say(f"task {task} is left out: {error}")
            rows.append([task, "not offered", "", *PAPER_TASKS.get(task, ("", ""))])
            continue
        rows.append([task, *_accuracies(data, model), *PAPER_TASKS.get(task, ("", ""))])
    return table(["the leaf as task", "train P@1", "test P@1", "paper (ALOI): train", "paper (ALOI): test"], rows)


def _accuracies(data: Split, model: Model) -> tuple[str, str]:
    quality = measured(model, data, train=True)
    return percent(quality.train_precision), percent(quality.precision[0])


# ------------------------------------------------------------------------------------------------------------- pareto


@dataclass(frozen=True)
class Point:
    """A tree and head with some k and depth, measured."""

    value: int
    precision: tuple[float, float, float]
    recall: float
    examples_per_second: float


@dataclass(frozen=True)
class Curves:
    """The points of a data set: one for each k, and one for each depth."""

    name: str
    budgets: list[Point]
    depths: list[Point]


def pareto_curves(data: Split, settings: Settings, budgets: list[int] | None, kind: str | None) -> Curves:
    """Measure tree and head for every k below the number of labels, and for every depth."""
    n_labels = data.Y.shape[1]
    chosen = budgets or [k for k in BUDGETS if k < n_labels]
    by_budget = [_point(data, settings, k, k, kind) for k in chosen]
    k = budget(n_labels)
    depths = [depth for depth in DEPTHS if depth <= settings.max_depth]
    by_depth = [_point(data, replace(settings, max_depth=depth), depth, k, kind) for depth in depths]
    return Curves(data.name, by_budget, by_depth)


def _point(data: Split, settings: Settings, value: int, k: int, kind: str | None) -> Point:
    tree = grown_tree(data, k, settings)
    head = head_of(data, settings, kind, task=usual_task(data, kind))
    quality = measured(fitted(data, tree, head, f"k = {k}, depth {settings.max_depth}"), data)
    return Point(value, quality.precision, recall(tree, data).test, quality.examples_per_second)


def pareto_tables(curves: Curves) -> str:
    """Return the points of a data set as two tables."""
    cells = ["P@1", "P@3", "P@5", "test recall", "inference speed"]
    parts = [table([name, *cells], [_cells(p) for p in points]) for name, points in _named(curves)]
    return f"{curves.name}\n\n" + "\n".join(parts)


def _named(curves: Curves) -> list[tuple[str, list[Point]]]:
    return [("k", curves.budgets), ("max_depth", curves.depths)]


def _cells(point: Point) -> list[str]:
    shares = [percent(share) for share in (*point.precision, point.recall)]
    return [str(point.value), *shares, speed(point.examples_per_second)]


def draw(all_curves: list[Curves], picture: Path) -> None:
    """Draw P@1 against speed for every k, and P@1 and recall against depth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    matplotlib.rcParams["svg.hashsalt"] = "labelprism"  # the same picture has the same bytes
    shape = (len(all_curves), 2)
    figure, panels = pyplot.subplots(*shape, figsize=(9, 3.2 * shape[0]), layout="constrained", squeeze=False)
    for (left, right), curves in zip(panels, all_curves, strict=True):
        speeds, shares = zip(*((p.examples_per_second, 100 * p.precision[0]) for p in curves.budgets), strict=True)
        left.semilogx(speeds, shares, "o-")
        left.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        left.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        left.xaxis.set_minor_formatter(NullFormatter())
        for number, point in enumerate(curves.budgets):
            at, up = (point.examples_per_second, 100 * point.precision[0]), number % 2 == 0
            offset = {"xytext": (0, 6 if up else -14), "ha": "center", "fontsize": 8}
            left.annotate(f"k = {point.value:,}", at, textcoords="offset points", **offset)
        depths = [point.value for point in curves.depths]
        right.plot(depths, [100 * p.precision[0] for p in curves.depths], "o-", label="P@1")
        right.plot(depths, [100 * p.recall for p in curves.depths], "s--", label="recall of the tree")
        left.margins(x=0.1, y=0.2)
        left.set(title=curves.name, xlabel="examples a second", ylabel="P@1 in %")
        right.set(title=curves.name, xlabel="depth limit", ylabel="%")
        right.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None})
    say(f"drew {picture}")
