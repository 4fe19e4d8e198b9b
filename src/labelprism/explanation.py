"""Why an example got its labels: the way through each tree, the candidates, the parts of the scores, the features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Float32, Int32
from labelprism._targets import Classes
from labelprism._views import seen_feature
from labelprism.composition import Composition, RecipeModel
from labelprism.filters.base import Step
from labelprism.heads.blend import NOT_REACHED, log_head

Names = Callable[[Int32], list[str | None]]


class FeatureShare(NamedTuple):
    """What one feature adds to the head's score of a label."""

    feature: int | None
    """Its number; None where `head_features` is a transformer that has made it."""
    name: str | None
    value: float


class Candidate(NamedTuple):
    """A label that the filter has found."""

    label: int
    name: Any
    log_probability: float


@dataclass(frozen=True)
class LabelExplanation:
    """One of the best labels.

    Parameters
    ----------
    label : int
        Its place in `classes_`.
    name : object
        Its name.
    score : float
    parts : mapping of str to float
        The shares of head, forest, centroid and frequency, and of the label's clusters, of near examples and of the
        space of features and labels where the model has any, which add up to the score; of a filter and a head of
        your own, the head's, which is all of it.
    log_probability : float
        That of the filter.
    features : tuple of FeatureShare, or None
        The features that count most for the head's score, largest first; None where the head cannot tell.
    bias : float, or None
        What the head's score is without any feature.
    """

    label: int
    name: Any
    score: float
    parts: Mapping[str, float]
    log_probability: float
    features: tuple[FeatureShare, ...] | None
    bias: float | None


@dataclass(frozen=True)
class Explanation:
    """Why an example got its labels; as text, `str(explanation)`.

    Parameters
    ----------
    paths : tuple of tuples of Step
        The way through each tree: node, margin there (right if above 0), probability to come there.
    candidates : tuple of Candidate
        What the filter has found, the most probable first.
    labels : tuple of LabelExplanation
        The best labels, best first.
    """

    paths: tuple[tuple[Step, ...], ...]
    candidates: tuple[Candidate, ...]
    labels: tuple[LabelExplanation, ...]

    def __str__(self) -> str:
        lines = [f"tree {number}: {_way(path)}" for number, path in enumerate(self.paths)]
        shown = ", ".join(f"{c.name} ({np.exp(c.log_probability):.1%})" for c in self.candidates[:10])
        more = f" and {len(self.candidates) - 10} more" if len(self.candidates) > 10 else ""
        lines.append(f"{len(self.candidates)} candidates: {shown}{more}")
        for place, label in enumerate(self.labels, 1):
            parts = ", ".join(f"{name} {value:+.3f}" for name, value in label.parts.items())
            lines.append(f"{place}. {label.name}: score {label.score:.3f} = {parts}")
            for share in label.features or ():
                name = share.name or ("a feature" if share.feature is None else f"feature {share.feature}")
                lines.append(f"     {share.value:+.3f}  {name}")
        return "\n".join(lines)


def _way(path: tuple[Step, ...]) -> str:
    turns = [f"{step.node} {'right' if step.margin > 0 else 'left'} ({step.margin:+.3f})" for step in path[:-1]]
    if not path:
        return "no nodes"
    return " > ".join([*turns, f"leaf {path[-1].node} (reached with {path[-1].probability:.1%})"])


def explain_recipe(
    model: RecipeModel, x: sp.csr_array, k: int, n_features: int, classes: Classes, names: Names
) -> Explanation:
    """Explain the default recipe.

    Parameters
    ----------
    model : RecipeModel
    x : csr_array of shape (1, d)
    k : int
        How many labels.
    n_features : int
        How many features of each.
    classes : array of shape (c,)
    names : function
        Names of features.
    """
    recipe = model.recipe
    blend = recipe.blend_
    found = model.candidates(x)
    labels, scores = (part[0] for part in model.predict_topk(x, k))
    labels, scores = labels[labels >= 0], scores[labels >= 0]
    order = np.argsort(labels)
    asked = sp.csr_array(
        (np.ones(labels.size, np.float32), labels[order], np.array([0, labels.size])), shape=(1, classes.size)
    )
    said = recipe.experts(x, asked, model.n_jobs)
    place = np.empty(labels.size, np.int64)
    place[order] = np.arange(labels.size)
    explained = []
    for label, score, at in zip(labels.tolist(), scores.tolist(), place.tolist(), strict=True):
        is_reached = said.forest[at] > np.float32(NOT_REACHED)
        parts = {
            "head": float(blend.head * log_head(said.head[at])),
            "forest": float(blend.forest * said.forest[at] + (0 if is_reached else blend.unreached)),
            "centroid": float(blend.centroid * said.centroid[at]),
            "frequency": float(blend.frequency * np.log1p(recipe.label_counts_[label])),
        }
        if said.clusters.size:
            parts["clusters"] = float(blend.clusters * said.clusters[at])
        if said.examples.size:
            parts["examples"] = float(blend.examples * said.examples[at])
        if said.space.size:
            parts["space"] = float(blend.space * said.space[at])
        shares = _largest(recipe.head_contributions(x, label), n_features, names)
        bias, log_probability = float(recipe.head_bias(label)), float(said.forest[at])
        explained.append(LabelExplanation(label, classes[label], score, parts, log_probability, shares, bias))
    paths = tuple(tuple(path) for path in recipe.paths(x))
    return Explanation(paths, _candidates(found, classes), tuple(explained))


def explain_composition(
    model: Composition, x: Any, k: int, n_features: int, classes: Classes, names: Names
) -> Explanation:
    """Explain a filter and a head.

    Parameters
    ----------
    model : Composition
    x : csr_array or float32 array of shape (1, d)
    k, n_features, classes, names : see `explain_recipe`
    """
    for_filter, for_head = model.rows(x)
    leaf = int(model.filter.route(for_filter)[0])
    found = model.filter.candidates(for_filter)
    log_probability = dict(zip(found.indices.tolist(), found.data.tolist(), strict=True))
    labels, scores = (part[0] for part in model.head.topk(for_head, np.array([leaf], np.int32), k))
    explained = []
    for label, score in zip(labels[labels >= 0].tolist(), scores[labels >= 0].tolist(), strict=True):
        shares, bias = None, None
        told = model.head.contributions(for_head, leaf, label)
        if told is not None:
            bias = score - float(told[1].sum(dtype=np.float64))
            shares = _largest(told, n_features, names, model.head_view, x.shape[1])
        # A forest routes to one leaf for its head, which may have labels that its candidates do not.
        said = log_probability.get(label, -np.inf)
        explained.append(LabelExplanation(label, classes[label], score, {"head": score}, said, shares, bias))
    paths = tuple(tuple(path) for path in model.filter.paths(for_filter))
    return Explanation(paths, _candidates(found, classes), tuple(explained))


def _candidates(found: sp.csr_array, classes: Classes) -> tuple[Candidate, ...]:
    order = np.lexsort((found.indices, -found.data))
    labels, values = found.indices[order].tolist(), found.data[order].tolist()
    return tuple(Candidate(label, classes[label], value) for label, value in zip(labels, values, strict=True))


def _largest(
    contributions: tuple[Int32, Float32], n_features: int, names: Names, view: Any = None, width: int = 0
) -> tuple[FeatureShare, ...]:
    """Return the contributions of the largest size; `view` says which of `width` features the head's are."""
    features, values = contributions
    order = np.lexsort((features, -np.abs(values)))[:n_features]
    order = order[values[order] != 0]
    numbers = [seen_feature(view, int(feature), width) for feature in features[order]]
    known = np.array([number for number in numbers if number is not None], np.int32)
    named = iter(names(known))
    return tuple(
        FeatureShare(number, None if number is None else next(named), float(value))
        for number, value in zip(numbers, values[order], strict=True)
    )
