"""One suite for both heads by gradient descent, over dense and CSR input, every task and both losses."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from head_problems import Problem, WanderingRoutes, candidate_table, random_problem, separable_problem
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from labelprism._reference_heads import HeadParameters, head_scores
from labelprism.heads import LogisticHead, LowRankHead
from labelprism.heads.preparation import FeatureHash
from labelprism.heads.sgd import TASKS, SGDHead, grouped

HEADS = {"logistic": LogisticHead, "low_rank": LowRankHead}
INPUTS = {"csr": lambda X: X, "dense": lambda X: X.toarray()}


def made(name: str, **parameters: Any) -> SGDHead:
    defaults: dict[str, Any] = {"passes": 5, "random_state": 0}
    if name == "low_rank":
        defaults["rank"] = 6
    return HEADS[name](**(defaults | parameters))


def fitted(name: str, problem: Problem, **parameters: Any) -> SGDHead:
    return made(name, **parameters).fit(problem.X, problem.Y, problem.routes)


def of_input(problem: Problem, kind: str) -> Problem:
    return Problem(INPUTS[kind](problem.X), problem.Y, problem.routes)


@pytest.fixture(params=HEADS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=INPUTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("labels_per_row", [1, 2])
def test_scores_are_those_of_the_formula(name: str, kind: str, task: str, labels_per_row: int) -> None:
    problem = of_input(random_problem(seed=2, labels_per_row=labels_per_row), kind)
    head = fitted(name, problem, task=task, group_penalty=0.01, n_codes=2)
    assert head.loss_ == ("softmax" if labels_per_row == 1 else "logistic")
    found = head.scores(problem.X, problem.leaves)
    np.testing.assert_array_equal(np.diff(found.indptr), np.diff(problem.table.indptr)[problem.leaves])
    for row in range(0, problem.Y.shape[0], 7):
        leaf = problem.leaves[row]
        here = problem.table.indices[problem.table.indptr[leaf] : problem.table.indptr[leaf + 1]]
        entries = slice(found.indptr[row], found.indptr[row + 1])
        np.testing.assert_array_equal(found.indices[entries], here)
        expected = head_scores(rows_of(head, problem, row), leaf, problem.table, parameters_of(head))[0]
        np.testing.assert_allclose(found.data[entries], expected, rtol=1e-4, atol=1e-4)


def rows_of(head: Any, problem: Problem, row: int) -> np.ndarray:
    """A row as the formula takes it, prepared by hand."""
    x = problem.X[row : row + 1]
    if isinstance(head, LowRankHead) and head.task != "hash":
        return np.asarray(x.toarray() if sp.issparse(x) else x, np.float64)
    rows = head._crossed(head._prepared(x), problem.leaves[row : row + 1])
    if sp.issparse(rows):  # entries of the same feature add up
        dense = np.zeros(rows.shape)
        np.add.at(dense[0], rows.indices, rows.data)
        rows = dense
    width = head.coef_.shape[1] if isinstance(head, LogisticHead) and head.task != "low_rank" else rows.shape[1]
    if isinstance(head, LogisticHead) and head.task == "low_rank":
        width = head.coef_.shape[1] // (head.n_codes + 1)
    return np.pad(np.asarray(rows, np.float64), ((0, 0), (0, max(0, width - rows.shape[1]))))


def parameters_of(head: Any) -> HeadParameters:
    def dense(matrix: Any) -> np.ndarray:
        return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, np.float64)

    none = np.zeros((0, 0))
    c, n_leaves = head.candidates_.shape[1], head.candidates_.shape[0]
    own = head.coef_ if head.task == "weights" else getattr(head, "slot_coef_", none)
    return HeadParameters(
        label_bias=np.zeros(c),
        slot_bias=head.slot_bias_.astype(np.float64),
        labels=none if head.task == "weights" else dense(head.coef_),
        slots=dense(own),
        codes=np.asarray(getattr(head, "codes_", np.zeros((n_leaves, 0))), np.float64),
        embedding=np.asarray(getattr(head, "embedding_", none), np.float64),
    )


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("multilabel", [False, True])
def test_a_separable_problem_is_solved(name: str, kind: str, task: str, multilabel: bool) -> None:
    problem = of_input(separable_problem(multilabel=multilabel), kind)
    head = (
        fitted(name, problem, task=task, passes=30, rank=8)
        if name == "low_rank"
        else fitted(name, problem, task=task, passes=30)
    )
    labels, _ = head.topk(problem.X, problem.leaves, 1)
    right = np.asarray(problem.Y[np.arange(len(labels)), labels[:, 0]]).ravel()
    assert right.mean() > 0.99
    assert head.loss_path_[-1] < 0.5 * head.loss_path_[0]


@pytest.mark.parametrize("task", TASKS)
def test_loss_decreases(name: str, task: str) -> None:
    problem = random_problem(seed=1, n=200, labels_per_row=2)
    path = fitted(name, problem, task=task, passes=12, learning_rate=0.3).loss_path_
    assert path[-1] < path[0]
    assert len(path) == 12


@pytest.mark.parametrize("options", [{}, {"n_hashed_features": 16}, {"n_hashed_features": 16, "n_hashes": 2}])
def test_top_k_is_that_of_the_scores(name: str, kind: str, options: dict[str, int]) -> None:
    problem = of_input(random_problem(seed=5), kind)
    head = fitted(name, problem, **options)
    labels, scores = head.topk(problem.X, problem.leaves, 4)
    sparse = head.scores(problem.X, problem.leaves)
    for row in range(problem.Y.shape[0]):
        entries = slice(sparse.indptr[row], sparse.indptr[row + 1])
        order = np.lexsort((sparse.indices[entries], -sparse.data[entries]))[:4]
        padding = 4 - order.size
        np.testing.assert_array_equal(labels[row], np.append(sparse.indices[entries][order], [-1] * padding))
        np.testing.assert_array_equal(scores[row], np.append(sparse.data[entries][order], [-np.inf] * padding))


def test_one_row_is_as_many(name: str, kind: str) -> None:
    problem = of_input(random_problem(seed=5, n=150), kind)
    head = fitted(name, problem)
    together = head.topk(problem.X, problem.leaves, 3)
    for row in (0, 17, 149):
        alone = head.topk(problem.X[row : row + 1], problem.leaves[row : row + 1], 3)
        np.testing.assert_array_equal(alone[0][0], together[0][row])
        # Products of dense rows are of BLAS, which may add up one row in another order than many.
        np.testing.assert_allclose(alone[1][0], together[1][row], rtol=1e-6 if kind == "dense" else 0)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_same_seed_same_bits_for_any_n_jobs(name: str, kind: str, loss: str) -> None:
    problem = of_input(random_problem(seed=5, n=300, c=40, n_leaves=9), kind)
    results = [
        fitted(name, problem, loss=loss, n_jobs=n_jobs).scores(problem.X, problem.leaves) for n_jobs in (1, 2, 4)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other.data, results[0].data)
    assert (
        fitted(name, problem, loss=loss, random_state=1).scores(problem.X, problem.leaves).data != results[0].data
    ).any()


def test_huge_margins(name: str) -> None:
    """Scores of 1e4 and beyond overflow no exponential: the loss stays finite, and the ranking sensible."""
    problem = separable_problem(n=100)
    problem.X = problem.X * np.float32(1e4)
    for loss in ("softmax", "logistic"):
        head = fitted(name, problem, loss=loss, precondition="none", learning_rate=3, passes=3)
        head.slot_bias_ = (head.slot_bias_ * 1e4).astype(np.float32)
        assert np.isfinite(head.loss_path_).all()
        assert np.isfinite(head.scores(problem.X, problem.leaves).data).all()


def test_empty_candidate_sets(name: str) -> None:
    problem = random_problem(seed=5)
    table = candidate_table([[], [0, 3, 4], []], 9)
    head = made(name).fit(problem.X, problem.Y, WanderingRoutes(table, problem.leaves))
    labels, scores = head.topk(problem.X, problem.leaves, 2)
    empty = problem.leaves != 1
    assert (labels[empty] == -1).all()
    assert np.isneginf(scores[empty]).all()
    assert (labels[~empty] >= 0).all()


def test_truths_that_were_filtered_out_give_no_positive(name: str) -> None:
    """Of the three labels only two are candidates; rows of the third are no positives, and under softmax nothing."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    X = np.eye(3, dtype=np.float32)[truth]
    Y = sp.csr_array(X)
    routes = WanderingRoutes(candidate_table([[0, 1]], 3), np.zeros(300, np.int32))
    softmax = made(name, loss="softmax", passes=20, precondition="none").fit(X, Y, routes)
    scores = softmax.scores(np.eye(3, dtype=np.float32), np.zeros(3, np.int32)).toarray()[:, :2]
    assert scores[0, 0] > scores[0, 1] + 1
    assert scores[1, 1] > scores[1, 0] + 1
    logistic = made(name, loss="logistic", passes=40, precondition="none").fit(X, Y, routes)
    scores = logistic.scores(np.eye(3, dtype=np.float32), np.zeros(3, np.int32)).toarray()[:, :2]
    assert (scores[2] < 0).all()  # both labels are wrong there, and it was seen


def test_rows_without_labels_or_features(name: str, kind: str) -> None:
    X = sp.csr_array((20, 5), dtype=np.float32)
    Y = sp.csr_array((20, 4), dtype=np.float32)
    problem = of_input(Problem(X, Y, WanderingRoutes(candidate_table([[0, 2]], 4), np.zeros(20, np.int32))), kind)
    for loss in ("softmax", "logistic"):
        head = fitted(name, problem, loss=loss)
        assert np.isfinite(head.scores(problem.X, problem.leaves).data).all()


def test_one_row_one_label(name: str, kind: str) -> None:
    X, Y = sp.csr_array(np.ones((1, 3), np.float32)), sp.csr_array(np.ones((1, 1), np.float32))
    problem = of_input(Problem(X, Y, WanderingRoutes(candidate_table([[0]], 1), np.zeros(1, np.int32))), kind)
    head = fitted(name, problem)
    assert head.topk(problem.X, problem.leaves, 2)[0].tolist() == [[0, -1]]


def test_only_touched_pairs_have_weights() -> None:
    problem = random_problem(seed=7, density=0.1)
    problem.routes.astray = 0
    head = fitted("logistic", problem, task="none")
    for label in range(9):
        leaves = np.flatnonzero(np.asarray(problem.table[:, [label]].todense()).ravel())
        rows = np.isin(problem.leaves, leaves)
        touched = np.unique(problem.X[rows].indices)
        assert set(head.coef_[[label]].indices) <= set(touched)
    assert head.coef_.nnz < 9 * 11


def test_decided_routes_do_not_wander(name: str) -> None:
    """With decided routes a leaf that no row reaches learns nothing of its own."""
    problem = random_problem(seed=7)
    problem.routes.leaves[:] = np.where(problem.leaves == 2, 0, problem.leaves)
    slots = slice(problem.table.indptr[2], problem.table.indptr[3])
    for routes, moves in (("decided", False), ("sampled", True)):
        head = fitted(name, problem, task="weights", routes=routes)
        own = head.coef_[slots] if not sp.issparse(head.coef_) else head.coef_[slots].toarray()
        assert np.any(own != 0) == moves


def test_grouping_keeps_every_row() -> None:
    rng = np.random.default_rng(0)
    leaves = rng.integers(5, size=1000).astype(np.int32)
    for group_rows in (1, 16, 1000):
        visits = list(grouped(leaves, group_rows, np.random.default_rng(1)))
        rows = np.concatenate([v.rows for v in visits])
        np.testing.assert_array_equal(np.sort(rows), np.arange(1000))
        for v in visits:
            sizes = np.diff(v.offsets)
            assert sizes.max() <= group_rows
            np.testing.assert_array_equal(np.repeat(v.leaves, sizes), leaves[v.rows])


def test_divergence_is_an_error() -> None:
    problem = random_problem(seed=5)
    head = fitted("logistic", problem)
    head.set_params(precondition="none", learning_rate=1e38, passes=10, momentum=0.99)
    with pytest.raises(ValueError, match="learning_rate"):
        head.fit(problem.X * np.float32(1e18), problem.Y, problem.routes)
    with pytest.raises(NotFittedError):  # neither half trained nor with the weights of the fit before
        head.scores(problem.X, problem.leaves)
    assert pickle.loads(pickle.dumps(head)).learning_rate == 1e38


@pytest.mark.parametrize("task", ["bias", "hash", "low_rank", "group_sparse"])
@pytest.mark.parametrize("options", [{}, {"precondition": "diagonal"}, {"n_hashed_features": 16, "n_hashes": 2}])
def test_fitted_with_one_kind_of_input_used_with_the_other(
    name: str, kind: str, task: str, options: dict[str, Any]
) -> None:
    problem = random_problem(seed=5)
    head = fitted(name, of_input(problem, kind), task=task, **options)
    expected, found = (head.topk(of(problem.X), problem.leaves, 3)[1] for of in INPUTS.values())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    scores = [head.scores(of(problem.X), problem.leaves).data for of in INPUTS.values()]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-4, atol=1e-5)


def test_pickle_clone_and_refit(name: str) -> None:
    problem = random_problem(seed=5)
    head = fitted(name, problem)
    expected = head.topk(problem.X, problem.leaves, 3)
    again = pickle.loads(pickle.dumps(head))
    np.testing.assert_array_equal(again.topk(problem.X, problem.leaves, 3)[1], expected[1])
    fresh = clone(head).fit(problem.X, problem.Y, problem.routes)
    np.testing.assert_array_equal(fresh.topk(problem.X, problem.leaves, 3)[1], expected[1])
    head.set_params(passes=9).fit(problem.X, problem.Y, problem.routes)
    assert (head.topk(problem.X, problem.leaves, 3)[1] != expected[1]).any()


def test_refit_with_another_task_and_other_shapes(name: str) -> None:
    head = fitted(name, random_problem(seed=5), task="group_sparse")
    head.set_params(task="low_rank").fit(*vars(random_problem(seed=5, d=7)).values())
    problem = random_problem(seed=6, n=40, d=20, c=13, n_leaves=5)
    head.set_params(task="bias").fit(problem.X, problem.Y, problem.routes)
    assert not hasattr(head, "slot_coef_")
    assert not hasattr(head, "codes_")
    fresh = fitted(name, problem)
    expected = fresh.topk(problem.X, problem.leaves, 3)
    np.testing.assert_array_equal(head.topk(problem.X, problem.leaves, 3)[1], expected[1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"passes": 0}, "passes"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"loss": "hinge"}, "loss"),
        ({"task": "all"}, "task"),
        ({"routes": "random"}, "routes"),
        ({"precondition": "half"}, "precondition"),
        ({"precondition": "full"}, "dense"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"momentum": 1.0}, "momentum"),
        ({"decay": 1.5}, "decay"),
        ({"group_penalty": float("inf")}, "group_penalty"),
        ({"n_hashed_features": 0}, "n_hashed_features"),
        ({"n_hashes": 3}, "n_hashes"),
        ({"n_codes": 0}, "n_codes"),
    ],
)
def test_parameters_are_checked(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(name, random_problem(), **parameters)


def test_input_is_checked(name: str) -> None:
    problem = random_problem()
    with pytest.raises(ValueError, match="Y has shape"):
        made(name).fit(problem.X, problem.Y[:-1], problem.routes)
    head = fitted(name, problem)
    with pytest.raises(ValueError, match="11"):
        head.scores(problem.X[:, :5], problem.leaves)
    with pytest.raises(ValueError, match="one for each example"):
        head.topk(problem.X, problem.leaves[:3], 2)
    with pytest.raises(ValueError, match="between 0 and 2"):
        head.scores(problem.X, problem.leaves + 3)
    with pytest.raises(ValueError, match="k must be"):
        head.topk(problem.X, problem.leaves, 0)
    assert head.topk(problem.X[:0], problem.leaves[:0], 2)[0].shape == (0, 2)


def test_biases_begin_with_the_frequencies_in_the_leaves(name: str) -> None:
    problem = random_problem(seed=5)
    problem.table.data = np.log(np.random.default_rng(0).uniform(0.01, 0.3, problem.table.nnz)).astype(np.float32)
    head = fitted(name, problem, learning_rate=0, loss="softmax")
    np.testing.assert_allclose(head.slot_bias_, problem.table.data, rtol=1e-5)


@pytest.mark.parametrize("n_hashes", [1, 2])
def test_hashes_keep_norms_and_have_both_signs(n_hashes: int) -> None:
    hashed = FeatureHash.draw(4000, 64, n_hashes, seed=1)
    np.testing.assert_allclose((hashed.signs**2).sum(axis=0), 1, rtol=1e-6)
    assert abs((hashed.signs > 0).mean() - 0.5) < 0.05
    assert np.bincount(hashed.buckets.ravel(), minlength=64).min() > 0
