"""The numbers of a view, against plain recursion over dense counts and against the metrics of the library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from naive import leaves_below, naive_counts

from labelprism import PrismClassifier, metrics
from labelprism.data.dataset import Dataset
from labelprism.explore import TreeView, tree_view
from labelprism.explore.examples import filter_of
from labelprism.explore.summaries import candidates_of_leaves, coverage_of_labels, levels_of
from labelprism.filters import AllLabels, MostFrequent
from labelprism.heads import ConstantHead


@pytest.fixture(scope="module", params=["text_model", "tree_model"])
def model(request: pytest.FixtureRequest) -> PrismClassifier:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def data(model: PrismClassifier, test: Dataset, matrices: tuple[Dataset, Dataset]) -> Dataset:
    return test if "features_" in model.__dict__ else matrices[1]


@pytest.fixture(scope="module")
def view(model: PrismClassifier) -> TreeView:
    return tree_view(model)


@pytest.fixture(scope="module")
def measured(model: PrismClassifier, data: Dataset) -> TreeView:
    return tree_view(model, data)


def test_the_trees_hang_together(view: TreeView, model: PrismClassifier) -> None:
    nodes = view.nodes
    assert nodes.children.size > 7
    assert nodes.n_trees == getattr(filter_of(model), "n_trees", 1)
    for node in range(nodes.n_trees, nodes.children.size):
        above = nodes.parent[node]
        assert node - nodes.children[above] in (0, 1)
        assert nodes.depth[node] == nodes.depth[above] + 1
        assert nodes.tree[node] == nodes.tree[above]
        assert nodes.path(node) == nodes.path(above) + "LR"[node - nodes.children[above]]
    for node in range(nodes.children.size):
        assert view.n_leaves[node] == len(leaves_below(nodes, node))


def test_labels_are_those_of_the_leaves_below(view: TreeView) -> None:
    counts = naive_counts(view)
    np.testing.assert_allclose(
        view.mass[: view.nodes.n_trees], view.mass[view.nodes.leaf_nodes].sum() / view.nodes.n_trees, rtol=0.05
    )
    for node, own in enumerate(counts):
        n = np.count_nonzero(own)
        assert view.labels.n_labels[node] == n
        best = np.sort(own)[::-1][: min(n, 12)]
        np.testing.assert_allclose(view.labels.top_count[node][: best.size], best, rtol=1e-5)
        shown = view.labels.top[node][: best.size]
        np.testing.assert_allclose(own[shown], best, rtol=1e-5)
        assert (view.labels.top[node][best.size :] == -1).all()
        is_tail, is_head = view.label_counts <= 10, view.label_counts > 100
        np.testing.assert_allclose(view.labels.tail_share[node], own[is_tail].sum() / own.sum())
        np.testing.assert_allclose(view.labels.head_share[node], own[is_head].sum() / own.sum())


def test_lift_is_the_ratio_of_shares(view: TreeView) -> None:
    counts, nodes = naive_counts(view), view.nodes
    assert (view.labels.grown[: nodes.n_trees] == -1).all()
    for node in range(nodes.n_trees, nodes.children.size):
        above = nodes.parent[node]
        share, share_above = counts[node] / view.mass[node], counts[above] / view.mass[above]
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(counts[node] > 0, share * np.log(share / share_above), -np.inf)
        best = np.sort(gain[gain > 0])[::-1][:12]
        grown = view.labels.grown[node]
        assert (grown >= 0).sum() == best.size
        grown = grown[grown >= 0]
        np.testing.assert_allclose(gain[grown], best, rtol=1e-4, atol=1e-9)
        np.testing.assert_allclose(view.labels.lift[node][: grown.size], share[grown] / share_above[grown], rtol=1e-5)


def test_without_data_the_leaves_tell(text_model: PrismClassifier) -> None:
    view = tree_view(text_model)
    counts, nodes = naive_counts(view), view.nodes
    assert view.rows is None
    assert view.filter_recall is None
    for node in np.flatnonzero(nodes.children >= 0):
        left, right = counts[nodes.children[node]], counts[nodes.children[node] + 1]
        np.testing.assert_allclose(view.labels.purity[node], np.maximum(left, right).sum() / (left + right).sum())
        halves = view.mass[nodes.children[node] : nodes.children[node] + 2]
        np.testing.assert_allclose(view.balance[node], halves.max() / halves.sum())
    assert np.isnan(view.labels.purity[nodes.leaf_nodes]).all()
    assert np.isnan(view.balance[nodes.leaf_nodes]).all()
    expected = counts[0].sum() / view.mass[0]
    np.testing.assert_allclose(view.recall[0], min(expected, 1), rtol=1e-5)  # leaves keep sums of single precision
    assert 0.9 < expected < 1 + 1e-5


def test_a_tree_tells_what_it_measured_itself(tree_model: PrismClassifier) -> None:
    view = tree_view(tree_model)
    np.testing.assert_array_equal(view.labels.purity, tree_model.filter_.purity_)
    np.testing.assert_array_equal(view.balance, tree_model.filter_.balance_)


def test_measured_on_examples_by_hard_routes(tree_model: PrismClassifier, matrices: tuple[Dataset, Dataset]) -> None:
    """Purity, balance and recall of every node are those of the metrics on the rows that come there."""
    test = matrices[1]
    view, tree = tree_view(tree_model, test), tree_model.filter_
    nodes = view.nodes
    leaf = tree.route(tree_model._model().rows(test.X)[0])
    at = nodes.leaf_nodes[leaf]
    reached = np.zeros((test.n_rows, nodes.children.size), bool)
    for row, node in enumerate(at):
        while node >= 0:
            reached[row, node] = True
            node = nodes.parent[node]
    np.testing.assert_allclose(view.rows, reached.sum(axis=0))
    held = tree.leaf_candidates_
    found = np.array([np.isin(test.Y[[row]].indices, held[[leaf[row]]].indices).sum() for row in range(test.n_rows)])
    n_labels = np.diff(test.Y.indptr)
    for node in range(nodes.children.size):
        own = reached[:, node]
        if n_labels[own].sum():
            np.testing.assert_allclose(view.recall[node], found[own].sum() / n_labels[own].sum())
        if nodes.children[node] >= 0 and n_labels[own].sum():
            right = reached[own][:, nodes.children[node] + 1]
            np.testing.assert_allclose(view.labels.purity[node], metrics.purity(test.Y[own], right))
            np.testing.assert_allclose(view.balance[node], metrics.balance(right))


def test_every_example_counts_once_in_every_tree(measured: TreeView, data: Dataset) -> None:
    assert measured.n_rows == data.n_rows
    np.testing.assert_allclose(measured.rows[: measured.nodes.n_trees], data.n_rows, rtol=1e-5)


def test_recall_of_the_whole_filter(measured: TreeView, model: PrismClassifier, data: Dataset) -> None:
    expected = metrics.filter_recall(data.Y, model.candidates(data))
    np.testing.assert_allclose(measured.filter_recall, expected)


def test_recall_by_depth_ends_at_the_recall_of_the_tree(view: TreeView, measured: TreeView) -> None:
    for one in (view, measured):
        np.testing.assert_allclose(one.labels.recall_by_depth[:, -1], one.recall[: one.nodes.n_trees], rtol=1e-5)
    root = np.sort(naive_counts(view)[0])[::-1][: view.budget].sum() / view.mass[0]
    np.testing.assert_allclose(view.labels.recall_by_depth[0, 0], root, rtol=1e-5)


def test_labels_that_the_model_does_not_know_are_missed(text_model: PrismClassifier, test: Dataset) -> None:
    more = sp.csr_array(sp.hstack([test.Y, np.ones((test.n_rows, 1))]))
    unknown = Dataset(Y=more, texts=test.texts, label_names=(*test.label_names, "never seen"))
    known, missed = tree_view(text_model, test), tree_view(text_model, unknown)
    n = test.Y.nnz
    np.testing.assert_allclose(missed.recall[0], known.recall[0] * n / (n + test.n_rows), rtol=0.02)
    assert missed.filter_recall < known.filter_recall


def test_examples_of_every_kind(text_model: PrismClassifier, test: Dataset) -> None:
    names = [[test.label_names[label] for label in test.Y[[row]].indices] for row in range(test.n_rows)]
    of_sets = tree_view(text_model, (test.texts, [tuple(row) for row in names]))
    of_iterator = tree_view(text_model, (iter(test.texts), test.Y))
    of_tuple = tree_view(text_model, (tuple(test.texts), test.Y))
    for view in (of_sets, of_iterator, of_tuple):
        np.testing.assert_allclose(view.recall, tree_view(text_model, test).recall)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nonsense", "Dataset, or"),
        ((["a text"], [("nothing known",)]), "none of the labels"),
        ((["a", "b"], [("subject 5",)]), "2 rows and y has 1"),
    ],
)
def test_refused_data(text_model: PrismClassifier, data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_view(text_model, data)


@pytest.mark.parametrize("groups", [(5, 5), (-1, 5), (1, 2, 3)])
def test_refused_groups(text_model: PrismClassifier, groups: Any) -> None:
    with pytest.raises(ValueError, match="ascending"):
        tree_view(text_model, groups=groups)


def test_features_have_names_where_the_model_has_them(
    text_model: PrismClassifier, tree_model: PrismClassifier, matrices: tuple[Dataset, Dataset]
) -> None:
    named = tree_view(text_model).routers
    assert any(name.startswith(("own", "also", "group")) for name in named.names.values())
    numbered = tree_view(tree_model).routers
    assert all(name == f"#{feature}" for feature, name in numbered.names.items())
    router = tree_model.filter_.routers_[[0]].toarray()[0]
    np.testing.assert_array_equal(numbered.weights[0, :5], np.sort(router)[:5])
    np.testing.assert_array_equal(numbered.weights[0, 5:], np.sort(router)[::-1][:5])
    np.testing.assert_array_equal(numbered.weights[0], router[numbered.features[0]])
    leaf = tree_model.filter_.leaf_nodes_[0]
    assert (numbered.features[leaf] == -1).all()
    narrow = PrismClassifier(
        tree_model.filter, ConstantHead(), filter_features=slice(100, None), random_state=0, n_jobs=1
    ).fit(matrices[0])
    shifted = tree_view(narrow).routers.names
    assert all(name == f"#{feature + 100}" for feature, name in shifted.items())


@pytest.mark.parametrize("filter", [AllLabels(), MostFrequent(5)])
def test_filters_without_a_tree_are_one_leaf(filter: Any, matrices: tuple[Dataset, Dataset]) -> None:
    train, test = matrices
    view = tree_view(PrismClassifier(filter, ConstantHead(), n_jobs=1).fit(train), test)
    assert view.nodes.children.tolist() == [-1]
    assert view.title(0) == "tree 1"
    expected = metrics.filter_recall(test.Y, filter.fit(train.X, train.Y).candidates(test.X))
    np.testing.assert_allclose(view.filter_recall, expected)


def test_one_row_and_one_label() -> None:
    model = PrismClassifier(random_state=0, n_jobs=1).fit([[1.0, 0.0]], [("only",)])
    view = tree_view(model, ([[1.0, 0.0]], [("only",)]))
    assert view.names(view.labels.top[0]) == ["only"]
    assert view.recall[0] == 1
    assert view.labels.recall_by_depth[0, 0] == 1


def test_measures_by_name(view: TreeView) -> None:
    assert view.measure("recall") is view.recall
    with pytest.raises(ValueError, match="no measure 'colour'"):
        view.measure("colour")


def test_summaries(view: TreeView) -> None:
    levels = levels_of(view)
    assert sum(one.n_nodes.sum() for one in levels) == view.nodes.children.size
    for tree, one in enumerate(levels):
        np.testing.assert_allclose(one.leaf_mass.sum(), 1)
        np.testing.assert_allclose(one.purity[0], view.labels.purity[tree])
        np.testing.assert_allclose(one.balance[0], view.balance[tree])
        assert np.isnan(one.purity[-1])
    histograms = candidates_of_leaves(view)
    assert sum(one.counts.sum() for one in histograms) == view.nodes.leaf_nodes.size
    assert histograms[0].bounds[-1][1] >= view.n_candidates.max()
    groups = coverage_of_labels(replace(view, groups=(1, 15)))
    assert [one.group for one in groups] == ["head", "torso", "tail"]
    assert sum(one.n_labels for one in groups) == view.label_counts.size
    held = np.bincount(view.held.indices, minlength=view.label_counts.size)
    for one, chosen in zip(
        groups, (view.label_counts > 15, (view.label_counts > 1) & (view.label_counts <= 15)), strict=False
    ):
        assert one.n_labels == chosen.sum()
        assert one.n_covered == (held[chosen] > 0).sum()
        for (low, high), number in zip(one.leaves.bounds, one.leaves.counts, strict=True):
            assert number == ((held[chosen] >= low) & (held[chosen] <= high)).sum()
