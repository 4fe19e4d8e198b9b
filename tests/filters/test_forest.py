"""The forest: its routers and scores against the twins, what growth promises, and awkward input."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from planted_trees import planted
from sklearn.base import clone

from labelprism import _core, _reference
from labelprism._arrays import csr_parts
from labelprism.filters import SpectralForest


def grown(X: Any, Y: Any, **parameters: Any) -> SpectralForest:
    defaults = {"n_candidates": 8, "stop_labels": 3, "min_rows": 5, "random_state": 0}
    return SpectralForest(**(defaults | parameters)).fit(X, Y)


def recall(forest: SpectralForest, X: Any, Y: sp.csr_array, k: int) -> float:
    found = forest.candidates(X, k)
    found.data[:] = 1
    return float(found.multiply(Y).sum() / Y.nnz)


def same(one: SpectralForest, other: SpectralForest) -> bool:
    arrays = [
        (f.children_, f.bias_, f.routers_.data, f.routers_.indices, f.leaf_candidates_.data, f.leaf_candidates_.indices)
        for f in (one, other)
    ]
    return all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


# ------------------------------------------------------------------------------------------------------------- routers


@pytest.mark.parametrize("labels_per_row", [1.0, 2.5])
@pytest.mark.parametrize(("rounds", "passes"), [(1, 1), (2, 3), (3, 20)])
def test_refined_router_is_that_of_the_twin(labels_per_row: float, rounds: int, passes: int) -> None:
    X, Y = planted(120, labels_per_row=labels_per_row, seed=3)
    rng = np.random.default_rng(0)
    weight = rng.random(120).astype(np.float32) + 0.1
    margins = rng.standard_normal(120).astype(np.float32)
    labels = csr_parts(Y)
    arguments = (labels.indptr, labels.indices, Y.shape[1], weight, margins, rounds, passes, 1.0)
    router = _core.refined_router(*csr_parts(X), X.shape[1], *arguments)
    expected = _reference.refined_router(X.toarray(), Y.toarray(), weight, margins, rounds, passes, 1.0)
    np.testing.assert_allclose(router, expected, atol=2e-4)


def test_refinement_separates_what_can_be_separated() -> None:
    X = sp.csr_array(np.repeat(np.eye(4, dtype=np.float32), 10, axis=0))
    Y = sp.csr_array(np.repeat(np.eye(4, dtype=np.float32), 10, axis=0))
    margins = np.repeat(np.array([1, 0.5, -0.5, -1], np.float32), 10)
    labels = csr_parts(Y)
    arguments = (labels.indptr, labels.indices, 4, np.ones(40, np.float32), margins, 2, 20, 10.0)
    router = _core.refined_router(*csr_parts(X), 4, *arguments)
    side = router[:4] > router[4]
    assert side[0]
    assert not side[3]


def test_refined_router_rejects_wrong_shapes() -> None:
    X, Y = planted(20)
    labels = csr_parts(Y)
    ones = np.ones(20, np.float32)
    with pytest.raises(ValueError, match="as many rows"):
        _core.refined_router(
            *csr_parts(X), X.shape[1], labels.indptr, labels.indices, Y.shape[1], ones[:9], ones, 1, 1, 1.0
        )


# -------------------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("smallest", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("parameters", [{}, {"refine_rounds": 0}, {"routing": "hard", "noise": 0.0}, {"n_trees": 4}])
def test_scores_are_those_of_the_twin(smallest: float, parameters: dict[str, Any]) -> None:
    X, Y = planted(300, labels_per_row=1.5, seed=1)
    forest = grown(X, Y, smallest=smallest, **parameters)
    found = forest.candidates(X[:40], Y.shape[1])
    for i in range(40):
        expected = _reference.forest_row(forest, X[[i]].toarray()[0], smallest)
        row = slice(found.indptr[i], found.indptr[i + 1])
        scores = np.zeros(Y.shape[1])
        scores[found.indices[row]] = np.exp(found.data[row])
        # A branch whose probability is `smallest` but for rounding may be followed by one and not by the other.
        assert np.abs(scores - expected).max() < 3e-4  # shares are float16
        assert (np.diff(found.indices[row]) > 0).all()


@pytest.mark.parametrize("k", [1, 3, 7, 23])
def test_the_best_k_are_kept(k: int) -> None:
    X, Y = planted(300, labels_per_row=2.0, seed=2)
    forest = grown(X, Y, smallest=0.0)
    all_labels, best = forest.candidates(X, Y.shape[1]), forest.candidates(X, k)
    columns, scores = _core.top_k_csr(*csr_parts(all_labels), k)
    for i in range(X.shape[0]):
        row = slice(best.indptr[i], best.indptr[i + 1])
        kept = columns[i][columns[i] >= 0]
        np.testing.assert_array_equal(best.indices[row], np.sort(kept))
        np.testing.assert_array_equal(np.sort(best.data[row]), np.sort(scores[i][: kept.size]))


def test_default_k_is_n_candidates() -> None:
    X, Y = planted(300)
    forest = grown(X, Y, n_candidates=2)
    assert np.diff(forest.candidates(X).indptr).max() == 2
    assert (forest.candidates(X) != forest.candidates(X, 2)).nnz == 0


def test_training_candidates_are_narrower() -> None:
    X, Y = planted(300, labels_per_row=2.0)
    forest = grown(X, Y)
    assert forest.training_candidates(X).nnz < forest.candidates(X).nnz
    assert recall(forest, X, Y, 8) > 0.8


def test_leaf_probabilities_sum_to_one_and_explain_the_scores() -> None:
    X, Y = planted(200, seed=5)
    forest = grown(X, Y, n_trees=3)
    table = forest.leaf_probabilities(X, smallest=0.0)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-5)
    shares = forest.leaf_candidates_.copy()
    shares.data = np.exp(shares.data)
    forest.smallest = 0.0
    scores = forest.candidates(X, Y.shape[1])
    scores.data = np.exp(scores.data)
    assert abs(table @ shares - scores).max() < 3e-4  # shares are float16


def test_routes_are_leaves_and_drawn_by_their_probabilities() -> None:
    X, Y = planted(100, seed=6)
    forest = grown(X, Y)
    table = forest.leaf_probabilities(X).toarray()
    leaves = forest.route(X)
    np.testing.assert_allclose(table[np.arange(100), leaves], table.max(axis=1))
    rng = np.random.default_rng(0)
    drawn = np.array([forest.sample_route(X[:1], rng)[0] for _ in range(400)])
    assert (table[0, drawn] > 0).all()
    most = int(table[0].argmax())
    assert abs((drawn == most).mean() - table[0, most] / table[0].sum()) < 0.1


def test_a_forged_forest_is_rejected() -> None:
    X, Y = planted(200)
    forest = grown(X, Y)
    forest.children_ = forest.children_.copy()
    forest.children_[forest.leaf_nodes_[-1]] = 0  # in circles
    with pytest.raises(ValueError, match="child"):
        forest.candidates(X)


# -------------------------------------------------------------------------------------------------------------- growth


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("max_rows", [None, 100])
def test_same_bits_for_any_number_of_threads(is_dense: bool, max_rows: int | None) -> None:
    X, Y = planted(900, labels_per_row=1.5)
    X = X.toarray() if is_dense else X
    forests = [grown(X, Y, n_jobs=n_jobs, n_trees=3, max_rows=max_rows) for n_jobs in (1, 2, 5)]
    assert same(forests[0], forests[1])
    assert same(forests[0], forests[2])
    candidates = [forest.candidates(X) for forest in forests]
    assert all((candidates[0] != other).nnz == 0 for other in candidates[1:])


def test_dense_and_sparse_input_agree() -> None:
    X, Y = planted(600)
    sparse, dense = grown(X, Y, min_feature_rows=1), grown(X.toarray(), Y, min_feature_rows=1)
    assert abs(recall(sparse, X, Y, 4) - recall(dense, X.toarray(), Y, 4)) < 0.03
    assert abs(sparse.candidates(X) - sparse.candidates(X.toarray())).max() < 1e-6


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"solver": "krylov"},
        {"solver": "krylov", "n_blocks": 2, "cg_iterations": 4},
        {"routing": "hard"},
        {"max_rows": 200},
        {"sketch_steps": 3},
        {"refine_rounds": 1, "refine_passes": 5},
    ],
)
def test_planted_labels_are_found(parameters: dict[str, Any]) -> None:
    X, Y = planted(1200, labels_per_row=1.3)
    forest = grown(X[:900], Y[:900], **parameters)
    assert forest.leaf_nodes_.size > 6
    assert recall(forest, X[900:], Y[900:], 8) > 0.9


def test_each_step_can_be_switched_off() -> None:
    X, Y = planted(1200, labels_per_row=1.3)
    train, test = (X[:900], Y[:900]), (X[900:], Y[900:])
    paper = grown(*train, refine_rounds=0, solver="krylov", n_blocks=3, cg_iterations=16, n_trees=1)
    assert recall(paper, *test, 8) > 0.7
    assert (paper.noise_[paper.children_ >= 0] != 0.3).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_few_rows_unlike_all_others_do_not_stop_a_tree(seed: int) -> None:
    """Groups of equal rows with ten labels each draw the first directions to them; the other rows must be split too."""
    rng = np.random.default_rng(seed)
    n, n_words, n_groups, group = 8000, 500, 4, 400
    X = np.zeros((n + n_groups * group, n_words + n_groups), np.float32)
    Y = np.zeros((X.shape[0], 100 + 10 * n_groups), np.float32)
    words = rng.integers(n_words, size=(n, 20))
    np.put_along_axis(X[:n], words, 1, axis=1)
    Y[np.arange(n), words[:, 0] // 5] = 1
    for g in range(n_groups):
        rows = slice(n + g * group, n + (g + 1) * group)
        X[rows, n_words + g] = Y[rows, 100 + 10 * g : 110 + 10 * g] = 1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    forest = SpectralForest(n_trees=1, stop_labels=10, min_rows=200, random_state=seed)
    forest.fit(sp.csr_array(X), sp.csr_array(Y))
    shares = forest.leaf_probabilities(sp.csr_array(X)).sum(axis=0) / X.shape[0]
    assert shares.max() < 0.12  # a node of 1,000 rows may end


def test_leaf_shares_are_expected_counts() -> None:
    X, Y = planted(500)
    forest = grown(X, Y, max_depth=0, n_trees=1)
    assert forest.children_.tolist() == [-1]
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    shares = np.exp(forest.leaf_candidates_.toarray()[0]) * (counts > 0)
    np.testing.assert_allclose(shares, counts / counts.sum(), rtol=1e-5)


def test_limits_hold() -> None:
    X, Y = planted(900, c=24)
    forest = grown(X, Y, max_depth=2, n_trees=2)
    assert forest.children_.size <= 2 * 7
    inner = forest.children_ >= 0
    assert (np.diff(forest.routers_.indptr)[~inner] == 0).all()
    for node in np.flatnonzero(inner):
        weights = forest.routers_.data[forest.routers_.indptr[node] : forest.routers_.indptr[node + 1]]
        steps = weights / np.abs(weights).max() * 127
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
        assert np.abs(steps).min() > 3


# -------------------------------------------------------------------------------------------------------- awkward input


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.ones((1, 3)), np.ones((1, 1))),
        (np.eye(6), np.ones((6, 1))),
        (np.eye(6), np.zeros((6, 4))),
        (np.zeros((8, 3)), np.eye(8)),
        (np.ones((12, 3)), np.eye(12)),
        (np.repeat(np.eye(4), 5, axis=0), np.repeat(np.eye(4), 5, axis=0)),
        (np.eye(9, 5), np.vstack([np.eye(5), np.zeros((4, 5))])),
        (np.zeros((1200, 3)), np.eye(1200, 40)),
        (np.ones((1200, 3)), np.eye(1200, 40)),
    ],
)
@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("smallest_share", [0.0, 0.02])
def test_degenerate_input(X: Any, Y: Any, is_dense: bool, smallest_share: float) -> None:
    X = X.astype(np.float32) if is_dense else sp.csr_array(X.astype(np.float32))
    forest = grown(X, Y, stop_labels=1, min_rows=1, smallest_share=smallest_share)
    found = forest.candidates(X)
    assert found.shape == Y.shape
    assert np.isfinite(found.data).all()
    assert (forest.route(X) >= 0).all()


def test_an_example_without_features_has_candidates() -> None:
    X, Y = planted(600)
    forest = grown(X, Y, smallest=0.9)
    found = forest.candidates(sp.csr_array((1, X.shape[1]), dtype=np.float32))
    assert found.nnz > 0


def test_labels_by_number() -> None:
    X, Y = planted(300)
    assert same(grown(X, Y), grown(X, Y.indices.astype(np.int64)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_trees": 0}, "n_trees"),
        ({"routing": "soft"}, "routing"),
        ({"solver": "exact"}, "solver"),
        ({"noise": -1.0}, "noise"),
        ({"refine_cost": 0.0}, "refine_cost"),
        ({"max_rows": 0}, "max_rows"),
        ({"drop_weight": True}, "drop_weight"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grown(*planted(50), **parameters)


def test_wrong_number_of_features() -> None:
    X, Y = planted(100)
    with pytest.raises(ValueError, match="features"):
        grown(X, Y).candidates(X[:, :10])


def test_clone_and_pickle() -> None:
    X, Y = planted(300)
    forest = grown(X, Y, n_trees=3, noise=0.25)
    before = forest.candidates(X)
    copy = clone(forest)
    assert copy.get_params() == forest.get_params()
    assert not hasattr(copy, "children_")
    again = pickle.loads(pickle.dumps(forest))
    assert (again.candidates(X) != before).nnz == 0


def test_the_mass_of_leaves_is_in_the_units_of_the_weights() -> None:
    X, Y = planted(300)
    plain, heavy = (grown(X, Y).fit(X, Y, weight) for weight in (None, np.full(300, 5.0)))
    assert heavy.leaf_mass_.sum() == pytest.approx(5 * plain.leaf_mass_.sum(), rel=1e-4)
