"""What nodes do with examples, and the ways of one example, in numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError
from small_data import HOSTILE

from labelprism import PrismClassifier, explore
from labelprism.data.dataset import Dataset
from labelprism.filters import AllLabels, SpectralForest, SpectralTree

Matrices = tuple[Dataset, Dataset]


@pytest.fixture(scope="module")
def tree(matrices: Matrices) -> SpectralTree:
    data = matrices[0]
    return SpectralTree(8, max_depth=4, prune=None, orphans=False, random_state=0).fit(data.X, data.Y)


@pytest.fixture(scope="module")
def forest(matrices: Matrices) -> SpectralForest:
    data = matrices[0]
    return SpectralForest(8, n_trees=2, stop_labels=8, noise=0.5, random_state=0).fit(data.X, data.Y)


# ----------------------------------------------------------------------------------------------------------- one node


def test_the_root_of_the_paper_s_tree(tree: SpectralTree, matrices: Matrices) -> None:
    data = matrices[0]
    root = explore.node_margins(tree, data)
    router = tree.routers_[[0]].toarray()[0]
    np.testing.assert_allclose(root.margins, data.X.toarray() @ router, atol=1e-6)
    np.testing.assert_allclose(root.right, ndtr((root.margins - tree.bias_[0]) / tree.noise_[0]))
    assert (root.reach == 1).all()
    assert root.path == ""
    gap = np.ptp(np.sort(root.margins)[root.margins.size // 2 - 5 : root.margins.size // 2 + 5])
    assert abs(root.median - root.bias) <= gap  # the bias lies beside the median, so that rounding decides nothing
    assert abs((root.margins > root.bias).mean() - 0.5) < 0.05
    np.testing.assert_allclose([root.purity, root.balance], [tree.purity_[0], tree.balance_[0]], atol=1e-5)


@pytest.mark.parametrize("kind", ["tree", "forest"])
def test_inner_nodes(kind: str, request: pytest.FixtureRequest, matrices: Matrices) -> None:
    """The mass of a node and of its labels is that of its leaves, which `leaf_probabilities` knows."""
    filter, data = request.getfixturevalue(kind), matrices[1]
    n_trees = getattr(filter, "n_trees", 1)
    leaves = (filter.leaf_probabilities(data.X, 0.0).toarray() * n_trees).astype(np.float64)
    parent = np.full(filter.children_.size, -1)
    for node, child in enumerate(filter.children_.tolist()):
        if child >= 0:
            parent[[child, child + 1]] = node
    inner = [node for node in np.flatnonzero(filter.children_ >= 0).tolist() if parent[node] >= 0]
    for node in inner[:4]:
        below = [leaf for leaf, at in enumerate(filter.leaf_nodes_.tolist()) if node in _ancestors(at, parent)]
        found = explore.node_margins(filter, data, node, n_labels=5)
        np.testing.assert_allclose(found.reach, leaves[:, below].sum(axis=1), atol=1e-4)
        assert found.path[-1] == ("L" if filter.children_[parent[node]] == node else "R")
        counts = data.Y.T @ found.reach
        np.testing.assert_allclose(found.label_mass, np.sort(counts)[::-1][:5])
        for place, label in enumerate(found.labels.tolist()):
            weight = found.reach * data.Y[:, [label]].toarray()[:, 0]
            np.testing.assert_allclose(found.label_mean[place], np.average(found.margins, weights=weight))
            np.testing.assert_allclose(found.label_right[place], np.average(found.right, weights=weight))
            assert found.label_names[place] == data.label_names[label]


def _ancestors(node: int, parent: np.ndarray) -> list[int]:
    found = [node]
    while parent[found[-1]] >= 0:
        found.append(int(parent[found[-1]]))
    return found


def test_a_classifier_sees_rows_as_its_filter_does(
    text_model: PrismClassifier, tree_model: PrismClassifier, test: Dataset, matrices: Matrices
) -> None:
    own = explore.node_margins(tree_model, matrices[1])
    rows = tree_model._model().rows(matrices[1].X)[0]
    bare = explore.node_margins(tree_model.filter_, (rows, matrices[1].Y))
    np.testing.assert_allclose(own.margins, bare.margins)
    assert bare.label_names == [f"label {label}" for label in bare.labels]
    texts = explore.node_margins(text_model, test, 1)
    assert set(texts.label_names) <= set(map(str, text_model.classes_))
    assert repr(texts) == f"<NodeMargins: node 1, {test.n_rows} examples, 12 labels>"


# -------------------------------------------------------------------------------------------------------- one example


@pytest.mark.parametrize("kind", ["tree", "forest"])
def test_ways_are_those_of_routing(kind: str, request: pytest.FixtureRequest, matrices: Matrices) -> None:
    filter, x = request.getfixturevalue(kind), matrices[1].X[[3]]
    n_trees = getattr(filter, "n_trees", 1)
    wanted = filter.leaf_probabilities(x, 0.0).toarray()[0] * n_trees
    for number in range(n_trees):
        found = explore.ways(filter, x, number, smallest=0)
        assert found.not_followed < 1e-12
        at_leaf = np.isnan(found.right)
        assert (found.nodes[0], found.parent[0], found.probability[0]) == (number, -1, 1)
        for node, probability in zip(found.nodes[at_leaf], found.probability[at_leaf], strict=True):
            np.testing.assert_allclose(probability, wanted[np.searchsorted(filter.leaf_nodes_, node)], atol=1e-5)
        np.testing.assert_allclose(found.probability[at_leaf].sum(), 1)
        decided = [step.node for step in filter.paths(x)[number]]
        assert found.nodes[found.decided].tolist() == decided
        assert [bool(title) for title in found.titles] == at_leaf.tolist()


def test_improbable_ways_are_left_out(tree: SpectralTree, matrices: Matrices) -> None:
    x = matrices[1].X[[3]]
    every, some = explore.ways(tree, x, smallest=0), explore.ways(tree, x, smallest=0.2)
    kept = (every.probability > 0.2) | every.decided
    assert some.nodes.tolist() == every.nodes[kept].tolist()
    at_leaf = np.isnan(some.right)
    np.testing.assert_allclose(some.probability[at_leaf].sum() + some.not_followed, 1)
    for place, above in enumerate(some.parent.tolist()):
        if above >= 0:
            turn = some.right[above] if some.goes_right[place] else 1 - some.right[above]
            np.testing.assert_allclose(some.probability[place], some.probability[above] * turn)


def test_ways_of_texts(text_model: PrismClassifier) -> None:
    found = explore.ways(text_model, ["own7 also7 group0 plain"], 1, n_labels=40)
    best = int(np.argmax(np.where(np.isnan(found.right), found.probability, 0)))
    assert "subject 7" in found.titles[best].split(" · ")
    hostile = explore.ways(text_model, ["own0 also0 group0 plain"], n_labels=40)
    assert any(HOSTILE in title for title in hostile.titles)


# ----------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tree, data: explore.node_margins(tree, data, 10_000), "node must be"),
        (lambda tree, data: explore.node_margins(tree, data, int(tree.leaf_nodes_[0])), "is a leaf, where nothing"),
        (lambda tree, data: explore.node_margins(tree, data.texts), "data must be"),
        (lambda tree, data: explore.node_margins(SpectralTree().fit(data.X, data.Y), data), "tree has no other node"),
        (lambda tree, data: explore.node_margins(tree, (data.X[:3], data.Y)), "3 rows and Y has"),
        (lambda tree, data: explore.node_margins(tree, data, n_labels=0), "n_labels must be"),
        (lambda tree, data: explore.node_margins("model", data), "model must be a PrismClassifier"),
        (lambda tree, data: explore.node_margins(AllLabels().fit(data.X, data.Y), data), "AllLabels has no tree"),
        (lambda tree, data: explore.ways(tree, data.X[:2]), "expected one example, got 2"),
        (lambda tree, data: explore.ways(tree, data.X[:1], 1), "tree must be"),
        (lambda tree, data: explore.ways(tree, data.X[:1], smallest=1.0), "smallest must be"),
        (lambda tree, data: explore.ways(tree, data.X[:1, :5]), "features"),
    ],
)
def test_mistakes(
    tree: SpectralTree, matrices: Matrices, call: Callable[[SpectralTree, Dataset], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call(tree, matrices[1])


def test_not_fitted() -> None:
    for model in (SpectralTree(), PrismClassifier()):
        with pytest.raises(NotFittedError):
            explore.ways(model, np.ones((1, 3)))
