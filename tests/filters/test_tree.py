"""The spectral tree: what holds for every tree, whatever it has learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from planted_trees import fitted, leaf_counts, planted
from sklearn.base import clone

from labelprism import metrics
from labelprism.filters import AllLabels, MostFrequent, SpectralTree
from labelprism.metrics import filter_recall

SEVERAL = pytest.mark.parametrize("labels_per_row", [1.0, 2.5])
KINDS = pytest.mark.parametrize("dense", [False, True])


@SEVERAL
@KINDS
def test_candidates_are_the_heaviest_labels(labels_per_row: float, dense: bool) -> None:
    """Without pruning the counts are exact: all examples followed through the finished tree give the same ones."""
    X, Y = planted(labels_per_row=labels_per_row)
    given = X.toarray() if dense else X
    tree = fitted(given, Y, prune=None, orphans=False, weight_threshold=0.0)
    counts = leaf_counts(tree, given, Y)
    assert tree.leaf_nodes_.size > 8
    for leaf in range(counts.shape[0]):
        row = tree.leaf_candidates_[[leaf]]
        order = np.argsort(-counts[leaf], kind="stable")
        expected = [label for label in order[:4] if counts[leaf, label] > 0]
        assert set(row.indices.tolist()) <= set(np.flatnonzero(counts[leaf] >= counts[leaf, expected[-1]] - 1e-3))
        share = counts[leaf, row.indices] / counts[leaf].sum()
        np.testing.assert_allclose(np.exp(row.data), share, atol=2e-3)
        assert row.nnz == len(expected)


@SEVERAL
def test_leaf_probabilities_sum_to_one(labels_per_row: float) -> None:
    X, Y = planted(labels_per_row=labels_per_row)
    tree = fitted(X, Y)
    probabilities = tree.leaf_probabilities(X)
    assert probabilities.shape == (X.shape[0], tree.leaf_nodes_.size)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    few = tree.leaf_probabilities(X, smallest=0.2)
    assert few.nnz < probabilities.nnz
    assert few.data.min() > 0.2


def test_masses_of_the_children_sum_to_the_parents() -> None:
    X, Y = planted()
    tree = fitted(X, Y, prune=None)
    inner = np.flatnonzero(tree.children_ >= 0)
    left = tree.children_[inner]
    np.testing.assert_allclose(tree.mass_[left] + tree.mass_[left + 1], tree.mass_[inner], rtol=1e-4)
    assert tree.mass_[0] == X.shape[0]


def test_label_counts_of_the_leaves_sum_to_those_of_the_data() -> None:
    X, Y = planted(labels_per_row=2.5)
    total = np.asarray(Y.sum(axis=0)).ravel()
    exact = fitted(X, Y, prune=None, n_candidates=23, target_recall=1.0, max_depth=3, orphans=False)
    counts = leaf_counts(exact, X, Y)
    np.testing.assert_allclose(counts.sum(axis=0), total, rtol=1e-5)
    leaves, labels = exact.leaf_candidates_.nonzero()
    shares = counts[leaves, labels] / counts.sum(axis=1)[leaves]
    np.testing.assert_allclose(np.exp(exact.leaf_candidates_.data), shares, rtol=0.02, atol=1e-5)
    # with the roulette they are right on average
    seeds = range(40)
    sums = np.zeros_like(total)
    for seed in seeds:
        tree = fitted(X, Y, n_candidates=23, target_recall=1.0, max_depth=3, orphans=False, random_state=seed)
        probability = np.exp(tree.leaf_candidates_.toarray()) * (tree.leaf_candidates_.toarray() != 0)
        sums += probability.T @ (tree.mass_[tree.leaf_nodes_] * Y.nnz / X.shape[0])
    np.testing.assert_allclose(sums / len(seeds), total, rtol=0.15)


def test_roulette_is_unbiased_and_threshold_is_not() -> None:
    X, Y = planted(n=300)
    exact = fitted(X, Y, prune=None, max_depth=1)
    assert exact.noise_[0] > 0
    # the same routers, so that the masses of the children can be compared
    masses = {
        rule: np.array(
            [fitted(X, Y, prune=rule, prune_below=0.4, max_depth=1, random_state=seed).mass_[1:] for seed in range(60)]
        )
        for rule in ("roulette", "threshold")
    }
    error = np.abs(masses["roulette"].mean(axis=0) - exact.mass_[1:])
    spread = masses["roulette"].std(axis=0) / np.sqrt(60)
    assert masses["roulette"].std() > 0
    assert (error < 5 * spread + 0.5).all()
    assert (masses["threshold"].sum(axis=1) < exact.mass_[0] - 1).all()


def test_hard_routing_sends_each_example_one_way() -> None:
    X, Y = planted()
    tree = fitted(X, Y, routing="hard")
    assert (tree.noise_ == 0).all()
    np.testing.assert_array_equal(tree.leaf_probabilities(X).argmax(axis=1).ravel(), tree.route(X))
    assert (np.diff(tree.leaf_probabilities(X).indptr) == 1).all()
    # what grew is what is used: every example is in the leaf that counted it
    reached = np.bincount(tree.route(X), minlength=tree.leaf_nodes_.size)
    np.testing.assert_array_equal(tree.mass_[tree.leaf_nodes_], reached)
    # purity and balance are those of the metrics
    right = X @ tree.routers_[[0]].T.toarray().ravel() > tree.bias_[0]
    assert tree.purity_[0] == pytest.approx(metrics.purity(Y, right), abs=1e-3)
    assert tree.balance_[0] == pytest.approx(metrics.balance(right), abs=1e-3)


def test_equal_rows_stay_together() -> None:
    """Ties at the median must fall the same way in growth and in use."""
    X, _ = planted(n=12)
    rows = np.arange(600) % 12
    labels = np.arange(600) % 12
    for seed in range(10):
        tree = fitted(X[rows], labels, routing="hard", n_candidates=1, max_depth=8, random_state=seed)
        reached = np.bincount(tree.route(X[rows]), minlength=tree.leaf_nodes_.size)
        np.testing.assert_array_equal(tree.mass_[tree.leaf_nodes_], reached)
        assert tree.diagnostics(X[rows], labels).train_recall == 1


def test_large_weights_dropped_from_routers_are_dropped_in_growth_too() -> None:
    X, Y = planted()
    tree = fitted(X, Y, routing="hard", weight_threshold=0.1)
    reached = np.bincount(tree.route(X), minlength=tree.leaf_nodes_.size)
    np.testing.assert_array_equal(tree.mass_[tree.leaf_nodes_], reached)
    assert np.abs(tree.routers_.data).min() > 0.1


def test_random_routes_follow_the_probabilities() -> None:
    X, Y = planted(n=200)
    tree = fitted(X, Y)
    rng = np.random.default_rng(0)
    counts = np.zeros((200, tree.leaf_nodes_.size))
    for _ in range(400):
        counts[np.arange(200), tree.sample_route(X, rng)] += 1
    expected = tree.leaf_probabilities(X).toarray()
    assert np.abs(counts / 400 - expected).max() < 0.15
    np.testing.assert_array_equal(
        tree.sample_route(X, np.random.default_rng(1)), tree.sample_route(X, np.random.default_rng(1))
    )


@SEVERAL
def test_permuted_labels_permute_the_candidates(labels_per_row: float) -> None:
    X, Y = planted(labels_per_row=labels_per_row)
    order = np.random.default_rng(1).permutation(Y.shape[1])
    one, other = (fitted(X, labels, prune=None, max_depth=3) for labels in (Y, Y[:, order]))
    assert one.leaf_nodes_.size == 8
    assert (one.route(X) == other.route(X)).mean() > 0.99
    moved = one.leaf_candidates_.toarray()[:, order]
    np.testing.assert_allclose(moved, other.leaf_candidates_.toarray(), rtol=0.02, atol=0.02)


@SEVERAL
def test_permuted_rows_change_rounding_only(labels_per_row: float) -> None:
    X, Y = planted(labels_per_row=labels_per_row)
    order = np.random.default_rng(1).permutation(X.shape[0])
    one, other = fitted(X, Y, prune=None, max_depth=3), fitted(X[order], Y[order], prune=None, max_depth=3)
    np.testing.assert_allclose(one.routers_.toarray(), other.routers_.toarray(), atol=2e-3)
    np.testing.assert_allclose(one.bias_, other.bias_, atol=2e-3)


@SEVERAL
def test_doubled_rows_are_doubled_weights(labels_per_row: float) -> None:
    X, Y = planted(labels_per_row=labels_per_row)
    twice = np.repeat(np.arange(X.shape[0]), 2)
    rows = fitted(X[twice], Y[twice], prune=None, max_depth=3)
    weights = SpectralTree(4, 3, prune=None, random_state=0).fit(X, Y, sample_weight=np.full(X.shape[0], 2.0))
    np.testing.assert_allclose(rows.routers_.toarray(), weights.routers_.toarray(), atol=2e-3)
    np.testing.assert_allclose(rows.mass_, weights.mass_, rtol=1e-2)
    np.testing.assert_allclose(rows.noise_, weights.noise_, rtol=1e-3)


@SEVERAL
@KINDS
def test_the_bits_do_not_depend_on_threads(labels_per_row: float, dense: bool) -> None:
    """Large enough that sums are put together from several tasks."""
    X, Y = planted(n=20_000, labels_per_row=labels_per_row)
    rng = np.random.default_rng(0)
    Y = sp.csr_array(sp.hstack([Y, sp.random_array((20_000, 9000), density=5e-5, rng=rng)]))
    given = X.toarray() if dense else X
    trees = [fitted(given, Y, n_jobs=n_jobs, max_depth=3, validation=0.1) for n_jobs in (1, 2, 3)]
    for other in trees[1:]:
        for name in ("bias_", "noise_", "mass_", "purity_", "children_", "heaviest_labels_"):
            assert getattr(trees[0], name).tobytes() == getattr(other, name).tobytes()
        assert trees[0].recall_path_ == other.recall_path_
        assert trees[0].routers_.data.tobytes() == other.routers_.data.tobytes()
        assert trees[0].leaf_candidates_.data.tobytes() == other.leaf_candidates_.data.tobytes()
        probabilities = [tree.leaf_probabilities(given[:999]).data.tobytes() for tree in (trees[0], other)]
        assert probabilities[0] == probabilities[1]


def test_dense_and_sparse_input_agree() -> None:
    X, Y = planted()
    sparse, dense = fitted(X, Y), fitted(X.toarray(), Y)
    assert (sparse.route(X) == dense.route(X.toarray())).mean() > 0.99
    assert filter_recall(Y, sparse.candidates(X)) == pytest.approx(filter_recall(Y, dense.candidates(X)), abs=0.02)


def test_the_tree_finds_the_planted_labels() -> None:
    X, Y = planted(n=2000)
    X_test, Y_test = X[1500:], Y[1500:]
    tree = fitted(X[:1500], Y[:1500], n_candidates=6)
    recall = filter_recall(Y_test, tree.candidates(X_test))
    frequent = filter_recall(Y_test, MostFrequent(6).fit(X[:1500], Y[:1500]).candidates(X_test))
    assert recall > 0.9
    assert frequent < 0.4


def test_orphans_get_a_home() -> None:
    X, Y = planted(c=24)
    homeless = fitted(X, Y, n_candidates=1, max_depth=2, orphans=False)
    missing = np.setdiff1d(np.arange(24), homeless.leaf_candidates_.indices)
    assert missing.size > 10
    tree = fitted(X, Y, n_candidates=1, max_depth=2)
    np.testing.assert_array_equal(tree.orphans_, missing)
    assert np.unique(tree.leaf_candidates_.indices).size == 24
    counts = leaf_counts(tree, X, Y)
    for label in missing:
        home = tree.leaf_candidates_[:, [label]].nonzero()[0]
        assert home.size == 1
        assert counts[home[0], label] > 0.8 * counts[:, label].max()
    assert tree.candidates(X, k=1).nnz == X.shape[0]
    assert tree.diagnostics(X, Y).orphan_share == missing.size / 24


def test_labels_that_pruning_lost_get_a_home_too(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = planted(n=300, c=40)
    asked = []
    usual_leaf = SpectralTree._usual_leaf

    def watched(self: SpectralTree, X: Any, Y: Any, wanted: Any) -> Any:
        asked.append(wanted)
        return usual_leaf(self, X, Y, wanted)

    monkeypatch.setattr(SpectralTree, "_usual_leaf", watched)
    hard = {"prune": "threshold", "prune_below": 0.4, "noise": "sqrt", "max_depth": 8, "n_candidates": 2}
    tree = fitted(X, Y, **hard)
    assert asked
    seen = np.flatnonzero(np.asarray(Y.sum(axis=0)).ravel())
    np.testing.assert_array_equal(np.unique(tree.leaf_candidates_.indices), seen)
    leaves = tree.route(X)
    for label in asked[0]:
        home = tree.leaf_candidates_[:, [label]].nonzero()[0]
        counts = np.bincount(leaves[Y[:, [label]].nonzero()[0]], minlength=tree.leaf_nodes_.size)
        assert counts[home[0]] == counts.max()
    # no leaf was left without examples, and so without candidates
    assert np.diff(tree.leaf_candidates_.indptr).min() > 0


def test_head_labels_are_candidates_everywhere() -> None:
    X, Y = planted()
    Y = Y.tolil()
    Y[:, 3] = 1
    Y[::2, 5] = 1
    Y = Y.tocsr()
    tree = fitted(X, Y, n_candidates=6, head_labels=2, orphans=False)
    table = tree.leaf_candidates_
    for leaf in range(table.shape[0]):
        labels = set(table.indices[table.indptr[leaf] : table.indptr[leaf + 1]].tolist())
        assert {3, 5} <= labels
        assert len(labels) <= 6
    # the eigenproblem does not see them: the tree is that of the other labels
    tail = Y.toarray()
    tail[:, [3, 5]] = 0
    without = fitted(X, tail, n_candidates=4, orphans=False)
    np.testing.assert_allclose(tree.routers_[[0]].toarray(), without.routers_[[0]].toarray(), atol=1e-4)
    everywhere = fitted(X, Y, n_candidates=2, head_labels=2, orphans=False, max_depth=2)
    np.testing.assert_array_equal(np.unique(everywhere.leaf_candidates_.indices), [3, 5])


def test_macro_prefers_rare_labels() -> None:
    X, Y = planted()
    Y = sp.csr_array(np.concatenate([Y.toarray(), np.ones((600, 1))], axis=1))  # label 24 is everywhere
    plain = fitted(X, Y, n_candidates=1, max_depth=3, orphans=False)
    macro = fitted(X, Y, n_candidates=1, max_depth=3, orphans=False, macro=True)
    assert (plain.leaf_candidates_.indices == 24).all()
    assert (macro.leaf_candidates_.indices != 24).mean() > 0.5


def test_validation_picks_the_depth(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X, Y = planted(n=400, c=40)
    noise = sp.csr_array(rng.random((400, 60)) * (rng.random((400, 60)) < 0.3))
    X = sp.csr_array(X + 0.4 * noise)
    tree = SpectralTree(8, 9, validation=(X[300:], Y[300:]), random_state=0).fit(X[:300], Y[:300])
    path = tree.recall_path_
    assert path[tree.best_depth_] == max(path)
    assert tree.depth_.max() == tree.best_depth_ < 9
    # recall of the cut tree is what was measured on the way
    found = filter_recall(Y[300:], tree.candidates(X[300:]))
    assert found >= path[tree.best_depth_] - 1e-9
    assert found < path[tree.best_depth_] + 0.05  # orphans may add to it
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == len(path)
    assert f"{100 * path[1]:.2f}%" in printed[1]
    # cutting keeps the rest as it was
    whole = SpectralTree(8, tree.best_depth_, random_state=0).fit(X[:300], Y[:300])
    np.testing.assert_array_equal(whole.route(X), tree.route(X))
    np.testing.assert_array_equal(whole.orphans_, tree.orphans_)
    assert (whole.leaf_candidates_ != tree.leaf_candidates_).nnz == 0
    np.testing.assert_array_equal(whole.heaviest_labels_, tree.heaviest_labels_)


def test_orphans_of_a_tree_that_was_cut() -> None:
    """They go to the leaves of the cut tree, not to those that growth reached later."""
    rng = np.random.default_rng(1)
    X, Y = planted(n=400, c=40)
    X = sp.csr_array(X + 0.4 * rng.random((400, 60)) * (rng.random((400, 60)) < 0.3))
    wide = {"n_candidates": 1, "noise": "sqrt"}  # labels that share a leaf and lose
    tree = fitted(X[:300], Y[:300], max_depth=9, validation=(X[300:], Y[300:]), **wide)
    assert tree.best_depth_ < len(tree.recall_path_) - 1
    assert tree.orphans_.size
    whole = fitted(X[:300], Y[:300], max_depth=tree.best_depth_, **wide)
    np.testing.assert_array_equal(whole.orphans_, tree.orphans_)
    assert (whole.leaf_candidates_ != tree.leaf_candidates_).nnz == 0


def test_validation_by_share() -> None:
    X, Y = planted()
    tree = fitted(X, Y, validation=0.2)
    assert tree.mass_[0] == 480
    assert 0 <= tree.best_depth_ < len(tree.recall_path_)
    assert np.isfinite(tree.recall_path_).all()


def test_stopping() -> None:
    X, Y = planted()
    assert fitted(X, Y, max_depth=0).children_.size == 1
    shallow, deep = fitted(X, Y, target_recall=0.5), fitted(X, Y, target_recall=1.0)
    assert shallow.leaf_nodes_.size < deep.leaf_nodes_.size
    assert fitted(X, Y, n_candidates=24).children_.size == 1  # all labels fit at the root
    assert deep.depth_.max() == 5
    lonely = fitted(X[:40], np.arange(40), n_candidates=1, max_depth=12, noise="sqrt")
    assert (lonely.mass_[lonely.children_ >= 0] >= 2).all()
    assert (lonely.mass_[lonely.children_ < 0] < 2).any()


def test_median_against_zero() -> None:
    X, Y = planted()
    median, zero = fitted(X, Y, routing="hard"), fitted(X, Y, routing="hard", bias="zero")
    assert median.balance_[0] < 0.51
    assert zero.balance_[0] >= median.balance_[0]
    assert (zero.bias_ == 0).all()


def test_sqrt_noise_follows_the_scale_of_the_rows() -> None:
    X, Y = planted()
    small, large = (fitted(X * scale, Y, noise="sqrt", prune=None, max_depth=2) for scale in (1.0, 10.0))
    np.testing.assert_allclose(large.noise_, 10 * small.noise_, rtol=1e-3)
    paper = fitted(X, Y, prune=None, max_depth=2)
    np.testing.assert_allclose(paper.noise_[0], small.noise_[0] ** 2, rtol=1e-3)


@KINDS
def test_the_unit_of_the_features_does_not_matter(dense: bool) -> None:
    X, Y = planted()
    given = X.toarray() if dense else X
    one, small, large = (fitted(given * np.float32(scale), Y, noise="sqrt") for scale in (1.0, 2.0**-20, 2.0**20))
    np.testing.assert_array_equal(small.children_, one.children_)
    np.testing.assert_array_equal(large.children_, one.children_)
    np.testing.assert_allclose(small.routers_.toarray(), one.routers_.toarray(), atol=1e-3)


def test_candidates_with_k_and_diagnostics() -> None:
    X, Y = planted(n=1000)
    tree = fitted(X[:800], Y[:800], n_candidates=6)
    two = tree.candidates(X, k=2)
    assert np.diff(two.indptr).max() == 2
    full = tree.candidates(X)
    for row in range(0, 1000, 97):
        best = full[[row]]
        expected = best.indices[np.argsort(-best.data, kind="stable")[:2]]
        assert set(two[[row]].indices) == set(expected)
    numbers = tree.diagnostics(X[:800], Y[:800], (X[800:], Y[800:]))
    assert numbers.n_leaves == tree.leaf_nodes_.size
    assert numbers.depth == tree.depth_.max()
    assert numbers.train_recall == pytest.approx(filter_recall(Y[:800], tree.candidates(X[:800])))
    assert numbers.holdout_recall == pytest.approx(filter_recall(Y[800:], tree.candidates(X[800:])))
    assert numbers.average_depth == pytest.approx(tree.depth_[tree.leaf_nodes_][tree.route(X[:800])].mean())
    assert numbers.average_candidates == pytest.approx(np.diff(tree.candidates(X[:800]).indptr).mean())
    inner = tree.children_ >= 0
    assert ((numbers.purity[inner] >= 0.5) & (numbers.purity[inner] <= 1)).all()
    assert np.isnan(numbers.purity[~inner]).all()
    assert "recall" in str(numbers)


def test_describe_names_the_labels() -> None:
    X, Y = planted()
    tree = fitted(X, Y)
    names = [f"label {i}" for i in range(24)]
    root = tree.describe(0, names)
    counts = np.asarray(Y.sum(axis=0)).ravel()
    assert root[0] == names[int(np.argmax(counts))]
    assert tree.describe(0) == [name.split()[1] for name in root]
    hard = fitted(X, Y, routing="hard", macro=True)
    leaves = hard.route(X)
    for leaf in (0, hard.leaf_nodes_.size - 1):
        inside = np.asarray(Y[leaves == leaf].sum(axis=0)).ravel()
        order = [str(label) for label in np.argsort(-inside, kind="stable") if inside[label] > 0][:20]
        assert hard.describe(hard.leaf_nodes_[leaf]) == order
    with pytest.raises(ValueError, match="no node"):
        tree.describe(10_000)


@pytest.mark.parametrize("flat", [AllLabels(), MostFrequent(5)])
def test_flat_filters_have_the_same_interface(flat: Any) -> None:
    X, Y = planted()
    fitted_filter = clone(flat).fit(X, Y)
    assert (fitted_filter.route(X) == 0).all()
    assert (fitted_filter.sample_route(X, np.random.default_rng(0)) == 0).all()
    np.testing.assert_array_equal(fitted_filter.leaf_probabilities(X).toarray(), np.ones((600, 1)))
    counts = np.asarray(Y.sum(axis=0)).ravel()
    candidates = fitted_filter.candidates(X[:3])
    expected = np.arange(24) if isinstance(flat, AllLabels) else np.sort(np.argsort(-counts, kind="stable")[:5])
    np.testing.assert_array_equal(candidates.indices[: expected.size], expected)
    np.testing.assert_allclose(np.exp(candidates.data[: expected.size]), counts[expected] / counts.sum(), rtol=1e-5)
    assert fitted_filter.n_labels_ == 24
