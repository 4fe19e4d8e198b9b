"""Explanations: parts that add up, ways that lead to the leaf, features that make the score."""

from __future__ import annotations

import dataclasses
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from labelprism import PrismClassifier
from labelprism.filters import AllLabels, SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead, WrappedHead
from labelprism.heads.blend import NOT_REACHED
from labelprism.recipe import PRESETS

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

TREE = SpectralTree(6, max_depth=3, verbose=False)


@pytest.fixture(scope="module")
def data() -> tuple[Any, ...]:
    X, Y = planted(n=400)
    return X, [f"label {number}" for number in Y.indices]


@pytest.fixture(scope="module")
def many() -> tuple[Any, ...]:
    """So many labels that the forest of the default recipe has more than roots."""
    X, Y = planted(n=1200, c=160)
    return X, [f"label {number}" for number in Y.indices]


@pytest.fixture(scope="module", params=["default", "fast", "examples", "space"])
def recipe(request: pytest.FixtureRequest, many: tuple[Any, ...]) -> PrismClassifier:
    if request.param not in ("examples", "space"):
        return PrismClassifier(preset=request.param, random_state=0).fit(*many)
    with pytest.MonkeyPatch.context() as patch:  # near examples, or a space, in any case
        examples = {"examples_from_labels": 0, "example_gain": -1e9}
        wanted: Any = (
            examples
            if request.param == "examples"
            else {
                "space_from_labels": 0,
                "space_gain": -1e9,
                "sieved_leaf_labels": 30,
            }
        )
        forced = dataclasses.replace(PRESETS["default"], **wanted)
        patch.setitem(PRESETS, "default", forced)
        return PrismClassifier(random_state=0).fit(*many)


def test_parts_add_up(many: tuple[Any, ...], recipe: PrismClassifier) -> None:
    X = many[0]
    for row in range(0, 1200, 97):
        explanation = recipe.explain(X[[row]] * np.float32(3), 4, n_features=60)
        labels, scores = recipe.predict_topk(X[[row]], 4)
        assert [label.label for label in explanation.labels] == labels[0].tolist()
        assert [label.name for label in explanation.labels] == recipe.predict_labels(X[[row]], 4)[0]
        found = {c.label: c.log_probability for c in explanation.candidates}
        blend, margins = recipe.recipe_.blend_, recipe.recipe_.head_
        for label, score in zip(explanation.labels, scores[0].tolist(), strict=True):
            assert label.score == pytest.approx(score, rel=1e-5, abs=1e-5)
            further = {"examples": "example_begin", "space": "space_features"}
            votes = {name for name, array in further.items() if array in recipe.recipe_.arrays}
            assert set(label.parts) == {"head", "forest", "centroid", "frequency"} | votes
            assert sum(label.parts.values()) == pytest.approx(score, rel=1e-4, abs=1e-4)
            is_reached = label.log_probability > np.float32(NOT_REACHED)
            of_forest = label.log_probability * blend.forest + (0 if is_reached else blend.unreached)
            assert of_forest == pytest.approx(label.parts["forest"], abs=1e-5)
            assert found[label.label] == pytest.approx(label.log_probability, abs=1e-4)
            assert label.features is not None
            total = label.bias + sum(share.value for share in label.features)  # type: ignore[operator]
            margin = (margins[[label.label]] @ X[[row]].T).toarray()[0, 0] + label.bias
            assert total == pytest.approx(margin, rel=1e-3, abs=1e-3)


def test_ways_of_the_recipe(many: tuple[Any, ...], recipe: PrismClassifier) -> None:
    x = many[0][[3]]
    explanation = recipe.explain(x)
    forest = recipe.recipe_.forest_
    assert len(explanation.paths) == forest.n_trees
    assert [path[0].node for path in explanation.paths] == list(range(forest.n_trees))
    for path, again in zip(explanation.paths, forest.paths(normalize(x)), strict=True):
        assert [step.node for step in path] == [step.node for step in again]
        np.testing.assert_allclose([step.margin for step in path], [step.margin for step in again], atol=1e-5)
        np.testing.assert_allclose([step.probability for step in path], [s.probability for s in again], atol=1e-5)
        for step, following in pairwise(path):
            assert following.node == forest.children_[step.node] + (step.margin > 0)
            assert following.probability <= step.probability
        assert forest.children_[path[-1].node] == -1


def test_the_way_through_a_tree(data: tuple[Any, ...]) -> None:
    X = data[0]
    model = PrismClassifier(TREE, LogisticHead(passes=3), random_state=0).fit(*data)
    tree = model.filter_
    chances = tree.leaf_probabilities(normalize(X)).toarray()
    for row in range(0, 400, 57):
        (path,) = model.explain(X[[row]]).paths
        leaf = tree.route(normalize(X[[row]]))[0]
        assert tree.leaf_nodes_[leaf] == path[-1].node
        assert path[0].probability == 1
        assert path[-1].probability == pytest.approx(chances[row, leaf], rel=1e-4)
    assert AllLabels().fit(*planted(n=20)).paths(X[[0]]) == []
    with pytest.raises(ValueError, match="one row"):
        tree.paths(X[:2])


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    "head",
    [
        LogisticHead(passes=3),
        LogisticHead(passes=3, task="none", precondition="diagonal"),
        LogisticHead(passes=3, n_hashed_features=32, n_hashes=2),
        LogisticHead(passes=3, task="hash"),
        LogisticHead(passes=3, task="low_rank"),
        LogisticHead(passes=3, task="weights"),
        LowRankHead(8, passes=3, task="group_sparse"),
    ],
    ids=lambda head: f"{type(head).__name__}-{head.task}",
)
def test_features_make_the_score(data: tuple[Any, ...], head: Any, dense: bool) -> None:
    X, y = data
    X = X.toarray() if dense else X
    model = PrismClassifier(TREE, head, random_state=0).fit(X, y)
    for row in (0, 17):
        explanation = model.explain(X[[row]], 3, n_features=60)
        nothing = X[[row]] * np.float32(0)
        leaf = model.filter_.route(normalize(X[[row]]))
        for label in explanation.labels:
            assert label.parts == {"head": label.score}
            assert label.features is not None
            sizes = [abs(share.value) for share in label.features]
            assert sizes == sorted(sizes, reverse=True)
            present = set(sp.csr_array(X[[row]]).indices.tolist())
            assert {share.feature for share in label.features} <= present
            total = label.bias + sum(share.value for share in label.features)  # type: ignore[operator]
            assert total == pytest.approx(label.score, rel=1e-4, abs=1e-4)
            asked = sp.csr_array(([1.0], [label.label], [0, 1]), shape=(1, model.n_labels_))
            bias = model.head_.score_candidates(nothing, leaf, asked).data[0]
            assert label.bias == pytest.approx(bias, rel=1e-3, abs=1e-3)
        assert len(model.explain(X[[row]], 1, n_features=2).labels[0].features or ()) == 2


def test_heads_that_cannot_tell(data: tuple[Any, ...]) -> None:
    for head in (ConstantHead(), WrappedHead(LogisticRegression())):
        explanation = PrismClassifier(TREE, head, random_state=0).fit(*data).explain(data[0][[0]])
        assert all(label.features is None and label.bias is None for label in explanation.labels)


def test_chosen_features_keep_their_numbers(data: tuple[Any, ...]) -> None:
    X, y = data
    for view in (slice(59, None, -1), np.arange(60)[::-1]):
        model = PrismClassifier(TREE, LogisticHead(passes=3), head_features=view, random_state=0).fit(X, y)
        shares = model.explain(X[[0]], 1, n_features=60).labels[0].features
        assert shares is not None
        assert {share.feature for share in shares} <= set(X[[0]].indices.tolist())


def test_as_text(data: tuple[Any, ...], many: tuple[Any, ...], recipe: PrismClassifier) -> None:
    explanation = recipe.explain(many[0][[0]], 2)
    text = str(explanation)
    assert text.startswith("tree 0: 0 ")
    assert f"{len(explanation.candidates)} candidates: " in text
    assert f"1. {explanation.labels[0].name}: score " in text
    assert f"feature {explanation.labels[0].features[0].feature}" in text  # type: ignore[index]
    composed = PrismClassifier(SpectralForest(20, n_trees=2), ConstantHead(), random_state=0).fit(*data)
    assert len(composed.explain(data[0][[0]]).paths) == 2
    assert "no nodes" not in str(composed.explain(data[0][[0]]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanation.labels = ()  # type: ignore[misc]


def test_bad_requests(many: tuple[Any, ...], recipe: PrismClassifier) -> None:
    X = many[0]
    for arguments, message in (((X[:2],), "one example"), ((X[[0]], 0), "k must be"), ((X[[0], :5],), "60")):
        with pytest.raises(ValueError, match=message):
            recipe.explain(*arguments)
