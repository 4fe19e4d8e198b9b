"""Examples beside a model: their rows and labels, the leaves they reach, and why they get their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Int64, as_csr
from labelprism._progress import ProgressBar
from labelprism._targets import encode_known, encode_targets
from labelprism.composition import Composition, RecipeModel, unit_rows
from labelprism.data.dataset import Dataset
from labelprism.estimator import PrismClassifier
from labelprism.explore.structure import nodes_of
from labelprism.filters import Filter, SpectralForest

_ROWS_PER_BLOCK = 8192
_CANDIDATES_PER_BLOCK = 1 << 24
_LONGEST_TEXT = 2000
_MOST_CANDIDATES = 30


@dataclass(frozen=True)
class Examples:
    """Examples with their labels, as a model takes them.

    Parameters
    ----------
    rows : list of n str, or matrix of shape (n, d)
        What the model takes.
    Y : csr_array of shape (n, c)
        The labels that the model knows.
    n_true : int64 array of shape (n,)
        How many labels each example has, known or not.
    """

    rows: Any
    Y: sp.csr_array
    n_true: Int64

    def block(self, rows: slice) -> Any:
        """Return some of the rows."""
        return self.rows[rows]

    def texts(self) -> Sequence[str] | None:
        """Return the texts, where rows are texts."""
        return self.rows if isinstance(self.rows, list) and isinstance(next(iter(self.rows), None), str) else None


def examples_of(model: PrismClassifier, data: Any) -> Examples:
    """Return examples of whatever holds them.

    Parameters
    ----------
    model : PrismClassifier
        Fitted.
    data : Dataset, (X, y) or Examples
        y in any container that `fit` takes. Labels that the model does not know count as not found.
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, Dataset):
        data = data, None
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ValueError("data must be a Dataset, or (X, y)")
    X, y, names = model._opened(*data)
    X = list(X) if isinstance(X, Iterator) else X
    Y = encode_known(y, model.classes_, names)
    n_true = np.diff(encode_targets(y).Y.indptr).astype(np.int64)
    n_rows = len(X) if isinstance(X, (list, tuple)) else X.shape[0]
    if n_rows != Y.shape[0]:
        raise ValueError(f"X has {n_rows} rows and y has {Y.shape[0]}; they must be of the same examples")
    if not Y.nnz:
        raise ValueError("none of the labels of the data is known to the model; is this data of another kind?")
    return Examples(list(X) if isinstance(X, tuple) else X, Y, n_true)


# ------------------------------------------------------------------------------------------------------------ in leaves


class Reached(NamedTuple):
    """What examples bring to leaves, by the probability that they come there.

    Attributes
    ----------
    rows : float64 array of shape (n_leaves,)
        How many examples.
    n_labels : float64 array of shape (n_leaves,)
        How many labels, known or not.
    labels : csr_array of shape (n_leaves, c)
        How often each label.
    filter_recall : float
        The share of an example's labels among its candidates, of all trees together, averaged over the examples that
        have labels.
    """

    rows: npt.NDArray[np.float64]
    n_labels: npt.NDArray[np.float64]
    labels: sp.csr_array
    filter_recall: float


def filter_of(model: PrismClassifier) -> Filter:
    """Return the filter of a fitted classifier."""
    parts = model._model()
    return parts.recipe.forest_ if isinstance(parts, RecipeModel) else parts.filter  # type: ignore[attr-defined]


def reached_leaves(model: PrismClassifier, examples: Examples) -> Reached:
    """Route examples to leaves, as prediction does.

    Parameters
    ----------
    model : PrismClassifier
    examples : Examples
    """
    filter, prepared, parts = filter_of(model), rows_for_filter(model), model._model()
    nodes = nodes_of(filter)
    tree_of_leaf = nodes.tree[nodes.leaf_nodes]
    n, n_leaves = examples.Y.shape[0], tree_of_leaf.size
    rows, n_labels, shares = np.zeros(n_leaves), np.zeros(n_leaves), np.zeros(n)
    labels = sp.csr_array((n_leaves, examples.Y.shape[1]))
    longest = int(np.diff(filter.leaf_candidates_.indptr).max(initial=1))
    n_block = max(1, min(_ROWS_PER_BLOCK, _CANDIDATES_PER_BLOCK // longest))
    with ProgressBar(n, "routing", "rows") as bar:
        for begin in range(0, n, n_block):
            block = slice(begin, min(begin + n_block, n))
            X, Y, n_true = model._rows(examples.block(block)), examples.Y[block], examples.n_true[block]
            to_leaves = sp.csr_array(_probabilities(filter, prepared(X), tree_of_leaf).T)
            rows += np.asarray(to_leaves.sum(axis=1)).ravel()
            n_labels += to_leaves @ n_true
            labels = sp.csr_array(labels + to_leaves @ Y)
            shares[block] = _found(parts.candidates(X), Y) / np.maximum(n_true, 1)
            bar.advance(block.stop - block.start)
    labels.sort_indices()
    labels.eliminate_zeros()
    has_labels = examples.n_true > 0
    return Reached(rows, n_labels, labels, float(shares[has_labels].mean()) if has_labels.any() else float("nan"))


def _found(candidates: sp.csr_array, Y: sp.csr_array) -> npt.NDArray[np.float64]:
    """Return how many labels of each row are candidates."""
    offered = sp.csr_array((np.ones(candidates.nnz), candidates.indices, candidates.indptr), shape=candidates.shape)
    return np.asarray(Y.multiply(offered).sum(axis=1), np.float64).ravel()


def rows_for_filter(model: PrismClassifier) -> Callable[[Any], Any]:
    """Return what makes rows as the filter sees them.

    Parameters
    ----------
    model : PrismClassifier
        Fitted.
    """
    parts = model._model()
    if isinstance(parts, RecipeModel):
        recipe = parts.recipe
        return lambda X: unit_rows(as_csr(X), recipe.settings.unit_rows)
    assert isinstance(parts, Composition)
    composition = parts
    return lambda X: composition.rows(X)[0]


def _probabilities(filter: Filter, X: Any, tree_of_leaf: Int64) -> sp.csr_array:
    """Return the probabilities with which prediction uses the leaves; those of each tree sum to 1."""
    if isinstance(filter, SpectralForest):
        found = filter.leaf_probabilities(X).astype(np.float64)
        # Unlikely branches are not followed, so that what is left of a row must be brought to 1 again.
        row = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        group = row * filter.n_trees + tree_of_leaf[found.indices]
        found.data /= np.bincount(group, found.data, found.shape[0] * filter.n_trees)[group]
        return sp.csr_array(found)
    leaves = filter.route(X)
    shape = (leaves.size, filter.leaf_candidates_.shape[0])
    return sp.csr_array((np.ones(leaves.size), leaves, np.arange(leaves.size + 1)), shape=shape)


# ------------------------------------------------------------------------------------------------------------ explained


def explained(
    model: PrismClassifier, x: Any, *, labels: Iterable[Any] = (), title: str | None = None
) -> dict[str, Any]:
    """Return why one example gets its labels, fit for JSON: what the page shows, and what a server answers it.

    Parameters
    ----------
    model : PrismClassifier
        Fitted.
    x : list of one text, or matrix of shape (1, d)
        What the model takes.
    labels : iterable of labels, optional
        The true ones, to be marked.
    title : str, optional
        What to call the example; its text, or its strongest features, when left out.

    Returns
    -------
    dict
        "title"; "true", true labels as [name, place among the candidates, or None]; "paths", for each tree a list of
        [node, margin, probability to come there]; "candidates", the likeliest as [name, F's probability], of
        "n_candidates"; "labels", the best as dicts of "name", "score", "parts", "filter" (F's probability) and
        "features" ([name, share of the head's score]).
    """
    found = model.explain(x, 5, n_features=8)
    place = {str(one.name): number for number, one in enumerate(found.candidates, 1)}
    return {
        "title": (_title(model, x) if title is None else title)[:_LONGEST_TEXT],
        "true": [[str(label), place.get(str(label))] for label in labels],
        "paths": [
            [[step.node, _short(step.margin), _short(step.probability)] for step in path] for path in found.paths
        ],
        "n_candidates": len(found.candidates),
        "candidates": [
            [str(one.name), _short(np.exp(one.log_probability))] for one in found.candidates[:_MOST_CANDIDATES]
        ],
        "labels": [
            {
                "name": str(label.name),
                "score": _short(label.score),
                "parts": {name: _short(value) for name, value in label.parts.items()},
                "filter": _short(np.exp(label.log_probability)),
                "features": [
                    [_feature_title(one.name, one.feature), _short(one.value)] for one in label.features or ()
                ],
            }
            for label in found.labels
        ],
    }


def explained_examples(model: PrismClassifier, examples: Examples, n: int) -> list[dict[str, Any]]:
    """Return explanations of n examples, spread evenly over the rows.

    Parameters
    ----------
    model : PrismClassifier
    examples : Examples
    n : int
        All, if there are no more.
    """
    total = examples.Y.shape[0]
    chosen = np.unique(np.linspace(0, total - 1, min(n, total)).astype(np.int64)).tolist() if total and n else []
    texts, found = examples.texts(), []
    for row in chosen:
        own = slice(row, row + 1)
        true = model.classes_[examples.Y.indices[slice(*examples.Y.indptr[row : row + 2])]]
        title = None if texts is None else texts[row]
        found.append({**explained(model, examples.block(own), labels=true, title=title), "row": row + 1})
    return found


def _title(model: PrismClassifier, x: Any) -> str:
    if isinstance(x, list) and x and isinstance(x[0], str):
        return x[0]
    row = as_csr(model._rows(x))
    strongest = np.argsort(-np.abs(row.data), kind="stable")[: min(12, np.count_nonzero(row.data))]
    features = row.indices[strongest]
    names = map(_feature_title, model._feature_names(features), features.tolist())
    shown = ", ".join(f"{name} {_short(value)}" for name, value in zip(names, row.data[strongest], strict=True))
    return shown or "no features"


def _feature_title(name: str | None, feature: int | None) -> str:
    return name or ("a feature" if feature is None else f"#{feature}")


def _short(value: float) -> float | None:
    """Return a number of four digits; None where it is infinite."""
    return float(f"{value:.4g}") if np.isfinite(value) else None
