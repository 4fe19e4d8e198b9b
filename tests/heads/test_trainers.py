"""The native trainers against finite differences, and against their twin in NumPy."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from head_problems import Problem, random_problem

from labelprism import _core
from labelprism._arrays import csr_parts
from labelprism._reference_heads import (
    HeadParameters,
    HeadTwin,
    head_gradient,
    head_loss,
    head_positives,
    head_scores,
    limited,
)

TERMS = {  # label_weights, slot_bias, slot_weights, n_codes
    "none": (True, False, False, 0),
    "bias": (True, True, False, 0),
    "weights": (False, True, True, 0),
    "low_rank": (True, True, False, 2),
    "group_sparse": (True, True, True, 0),
}
KINDS = ("touched", "table", "dense", "embedded")
CASES = [(kind, task) for kind in KINDS for task in TERMS if kind != "table" or not TERMS[task][2]]
RANK = 8


class Trained:
    """A native trainer, with its parameters as the twin has them."""

    def __init__(self, kind: str, task: str, loss: str, problem: Problem, seed: int = 0) -> None:
        self.kind, self.problem, self.terms = kind, problem, TERMS[task]
        self.d = problem.X.shape[1]
        rng = np.random.default_rng(seed)
        parts, c = csr_parts(problem.table), problem.table.shape[1]
        self.width = {"dense": -(-self.d // 8) * 8, "embedded": RANK}.get(kind, self.d)
        classes = {"touched": _core.TouchedTrainer, "table": _core.TableTrainer}
        maker = classes.get(kind, _core.DenseTrainer)
        self.native: Any = maker(parts.indptr, parts.indices, c, self.width, loss, *self.terms)
        if kind == "embedded":
            self.native.set_embedding(rng.standard_normal((self.d, RANK)).astype(np.float32) / 4)
        self.native.label_bias = rng.standard_normal(c).astype(np.float32) / 2
        if self.terms[1]:
            self.native.slot_bias = rng.standard_normal(problem.table.nnz).astype(np.float32) / 2
        self.native.codes = rng.standard_normal(problem.table.shape[0] * self.terms[3]).astype(np.float32)

    def rows(self) -> np.ndarray:
        """The rows as the twin takes them."""
        x = self.problem.X.toarray().astype(np.float64)
        return np.pad(x, ((0, 0), (0, self.width - self.d))) if self.kind == "dense" else x

    def train(self, chosen: np.ndarray, offsets: Any, leaves: Any, *step: Any, n_threads: int = 1) -> float:
        X, Y = self.problem.X[chosen], csr_parts(self.problem.Y[chosen])
        tail = (Y.indptr, Y.indices, np.asarray(offsets, np.int64), np.asarray(leaves, np.int32), *step, n_threads)
        if self.kind == "dense":
            padded = np.pad(X.toarray(), ((0, 0), (0, self.width - self.d)))
            return float(self.native.train(padded, *tail))
        if self.kind == "embedded":
            return float(self.native.train_embedded(*csr_parts(X), *tail))
        return float(self.native.train(*csr_parts(X), self.d, *tail))

    def parameters(self) -> HeadParameters:
        label_weights, _, slot_weights, n_codes = self.terms
        none = np.zeros((0, 0))
        n_leaves, c = self.problem.table.shape
        shared = self._weights("weights", c, self.width * (n_codes + 1)) if label_weights else none
        own = self._weights("slot_weights", self.problem.table.nnz, self.width) if slot_weights else none
        return HeadParameters(
            label_bias=self.native.label_bias.astype(np.float64),
            slot_bias=self.native.slot_bias.astype(np.float64),
            labels=shared,
            slots=own,
            codes=self.native.codes.astype(np.float64).reshape(n_leaves, n_codes),
            embedding=self.native.embedding().astype(np.float64) if self.kind == "embedded" else none,
        )

    def _weights(self, name: str, n_units: int, width: int) -> np.ndarray:
        weights = getattr(self.native, name)()
        if self.kind == "touched":
            indptr, indices, data = weights
            weights = sp.csr_array((data, indices, indptr), shape=(n_units, width)).toarray()
        return np.asarray(weights, np.float64)


def visits_of(problem: Problem, seed: int, group: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in some order, cut into visits of a leaf each; a leaf comes up several times."""
    rng = np.random.default_rng(seed)
    order, offsets, leaves = [], [0], []
    for leaf in rng.permutation(np.repeat(np.arange(problem.table.shape[0]), 4)):
        rows = rng.choice(np.flatnonzero(problem.leaves == leaf), size=group)
        order.append(rows)
        offsets.append(offsets[-1] + group)
        leaves.append(leaf)
    return np.concatenate(order), np.array(offsets), np.array(leaves)


def close(found: HeadParameters, expected: HeadParameters, tolerance: float) -> None:
    for part in fields(HeadParameters):
        np.testing.assert_allclose(
            getattr(found, part.name), getattr(expected, part.name), atol=tolerance, rtol=tolerance, err_msg=part.name
        )


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize("task", TERMS)
def test_gradient_of_the_twin_against_finite_differences(task: str, loss: str) -> None:
    problem = random_problem(seed=3, labels_per_row=2)
    for kind in ("dense", "embedded"):
        trained = Trained(kind, task, loss, problem, seed=1)
        order, offsets, leaves = visits_of(problem, 2)
        trained.train(order, offsets, leaves, 0.3, 0.0, 4, 0.0)  # away from zero, where weights of codes do not matter
        parameters, x, leaf = trained.parameters(), trained.rows(), 1
        rows = np.flatnonzero(problem.leaves == leaf)[:5]
        positive = head_positives(problem.Y, rows, leaf, problem.table)

        def value(at: HeadParameters, rows: Any = x[rows], leaf: int = leaf, positive: Any = positive) -> float:
            return head_loss(head_scores(rows, leaf, problem.table, at), positive, loss)

        gradient = head_gradient(x[rows], positive, leaf, problem.table, parameters, loss)
        rng = np.random.default_rng(0)
        for part in fields(HeadParameters):
            values = getattr(parameters, part.name)
            if not values.size:
                continue
            for place in rng.choice(values.size, size=min(values.size, 60), replace=False):
                at = np.unravel_index(place, values.shape)
                ends = []
                for shift in (1e-6, -1e-6):
                    moved = parameters.copy()
                    getattr(moved, part.name)[at] += shift
                    ends.append(value(moved))
                expected = (ends[0] - ends[1]) / 2e-6
                assert getattr(gradient, part.name)[at] == pytest.approx(expected, abs=2e-7), (kind, part.name, at)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize(("kind", "task"), CASES)
def test_a_step_follows_the_gradient(kind: str, task: str, loss: str) -> None:
    problem = random_problem(seed=4, labels_per_row=2)
    trained = Trained(kind, task, loss, problem)
    order, offsets, leaves = visits_of(problem, 5)
    trained.train(order, offsets, leaves, 0.3, 0.5, 4, 0.0)
    before, leaf = trained.parameters(), 2
    rows = np.flatnonzero(problem.leaves == leaf)[:6]
    positive = head_positives(problem.Y, rows, leaf, problem.table)
    gradient = head_gradient(trained.rows()[rows], positive, leaf, problem.table, before, loss)
    rate = 0.01
    mean_square = (trained.rows()[rows] @ before.embedding if kind == "embedded" else np.zeros((1, 1))) ** 2
    assert mean_square.sum(axis=1).mean() < 1  # or steps would be shortened
    sum_of_losses = trained.train(rows, [0, 6], [leaf], rate, 0.0, 6, 0.0)
    after = trained.parameters()
    scores = head_scores(trained.rows()[rows], leaf, problem.table, before)
    assert sum_of_losses == pytest.approx(6 * head_loss(scores, positive, loss), rel=1e-4)
    gradient.codes[:] = limited(gradient.codes, 1)
    caution = 1 / (1 + (before.codes[leaf] ** 2).sum())
    for part in fields(HeadParameters):
        moved = (getattr(before, part.name) - getattr(after, part.name)) / rate
        if part.name in ("labels", "slots"):
            moved /= caution
        np.testing.assert_allclose(moved, getattr(gradient, part.name), atol=3e-5, err_msg=part.name)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize(
    ("kind", "task", "penalty"),
    [(*case, 0.0) for case in CASES] + [(*case, 0.3) for case in CASES if TERMS[case[1]][2]],
)
def test_training_is_that_of_the_twin(kind: str, task: str, loss: str, penalty: float) -> None:
    """Momentum over many steps: folds of the tables for sparse rows, waves, batches that do not divide visits."""
    problem = random_problem(seed=6, n=80, labels_per_row=2)
    trained = Trained(kind, task, loss, problem)
    order, offsets, leaves = visits_of(problem, 7)
    twin = HeadTwin(problem.table, loss, trained.parameters(), 0.1, 0.8, 3, penalty)
    for _ in range(10):
        trained.train(order, offsets, leaves, 0.1, 0.8, 3, penalty)
        twin.train(trained.rows()[order], problem.Y[order], offsets, leaves)
    close(trained.parameters(), twin.parameters, 2e-3)
    if penalty:
        norms = np.linalg.norm(trained.parameters().slots, axis=1)
        assert (norms == 0).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_threads_do_not_matter(kind: str, loss: str) -> None:
    problem = random_problem(seed=8, n=300, c=40, n_leaves=12, labels_per_row=2)
    order, offsets, leaves = visits_of(problem, 9)
    results = []
    for n_threads in (1, 2, 5):
        trained = Trained(kind, "bias", loss, problem)
        losses = [trained.train(order, offsets, leaves, 0.2, 0.9, 4, 0.0, n_threads=n_threads) for _ in range(3)]
        results.append((losses, trained.parameters()))
    for losses, parameters in results[1:]:
        assert losses == results[0][0]
        close(parameters, results[0][1], 0)


def test_arguments_are_checked() -> None:
    problem = random_problem()
    parts = csr_parts(problem.table)
    with pytest.raises(ValueError, match="loss"):
        _core.TouchedTrainer(parts.indptr, parts.indices, 9, 11, "hinge", *TERMS["none"])
    with pytest.raises(ValueError, match="out of range"):
        _core.TouchedTrainer(parts.indptr, parts.indices, 3, 11, "softmax", *TERMS["none"])
    with pytest.raises(ValueError, match="must ascend"):
        _core.TouchedTrainer(parts.indptr, np.ascontiguousarray(parts.indices[::-1]), 9, 11, "softmax", *TERMS["none"])
    with pytest.raises(ValueError, match="multiple of 8"):
        _core.DenseTrainer(parts.indptr, parts.indices, 9, 11, "softmax", *TERMS["none"])
    trained = Trained("touched", "none", "softmax", problem)
    for offsets, leaves, message in (
        ([0, 61], [0], "from 0 to the rows"),
        ([0, 60], [3], "leaf is out of range"),
        ([0, 60], [-1], "leaf is out of range"),
        ([0, 40, 20, 60], [0, 0, 0], "descend"),
        ([0, 60], [0, 1], "one number more"),
    ):
        with pytest.raises(ValueError, match=message):
            trained.train(np.arange(60), offsets, leaves, 0.1, 0.9, 4, 0.0)
    steps = (
        ((0.1, 1.0, 4, 0.0), "momentum"),
        ((0.1, 0.9, 0, 0.0), "batch_size"),
        ((0.1, 0.9, 2**63 - 1, 0.0), "batch_size"),  # the end of a batch would overflow
    )
    for step, message in steps:
        with pytest.raises(ValueError, match=message):
            trained.train(np.arange(60), [0, 60], [0], *step)


@pytest.mark.parametrize("kind", ["touched", "table"])
def test_rows_are_not_wider_than_the_weights_of_a_code(kind: str) -> None:
    """A unit with codes has several rows of weights one after the other; each is as wide as X, and no wider."""
    trained = Trained(kind, "low_rank", "softmax", random_problem())
    trained.problem.X = sp.csr_array(np.ones((60, 12), np.float32))
    trained.d = 12
    with pytest.raises(ValueError, match="more features"):
        trained.train(np.arange(60), [0, 60], [0], 0.1, 0.9, 4, 0.0)


def test_weights_that_were_taken_are_not_trained() -> None:
    trained = Trained("table", "bias", "softmax", random_problem())
    assert trained.native.take_weights().shape == (9, 11)
    with pytest.raises(ValueError, match="taken"):
        trained.train(np.arange(60), [0, 60], [0], 0.1, 0.9, 4, 0.0)


def test_parts_of_a_scorer_fit_each_other() -> None:
    """Whatever the order in which they are set, and also after one that was refused."""

    def ones(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    leaves, k = np.zeros(1, np.int32), 2
    nothing, one = np.array([0, 0]), (np.array([0, 1]), np.array([15], np.int32), ones(1))
    head = _core.LinearHead(np.array([0, 2]), np.array([0, 1], np.int32), 2, ones(2))
    for use in (
        lambda: head.scores_csr(nothing, np.zeros(0, np.int32), ones(0), leaves),
        lambda: head.set_codes(ones(1, 3)),
        lambda: head.set_dense_deviations(ones(2, 8)),
        lambda: head.set_sparse_deviations(np.array([0, 0, 0]), np.zeros(0, np.int32), ones(0), 8),
    ):
        with pytest.raises(ValueError, match="no weights yet"):
            use()
    head.set_dense(ones(2, 32), False, 8)
    head.set_codes(ones(1, 3))
    np.testing.assert_array_equal(head.scores_dense(ones(1, 8), leaves), [33, 33])
    with pytest.raises(ValueError, match="code_shift"):
        head.set_dense(ones(2, 8), False, 16)
    np.testing.assert_array_equal(head.scores_dense(ones(1, 8), leaves), [33, 33])
    head.set_dense(ones(2, 8), False, 8)  # too narrow for the codes
    np.testing.assert_array_equal(head.scores_dense(ones(1, 8), leaves), [9, 9])
    head.set_dense_deviations(ones(2, 8))
    np.testing.assert_array_equal(head.scores_dense(ones(1, 8), leaves), [17, 17])
    head.set_dense(ones(2, 16), False, 16)  # wider than the deviations
    np.testing.assert_array_equal(head.top_k_csr(*one, leaves, k)[1], [[2, 2]])


@pytest.mark.parametrize(("kind", "task"), [case for case in CASES if case[0] != "embedded"])
def test_a_trainer_begins_where_another_ended(kind: str, task: str) -> None:
    problem = random_problem(0)
    first, second = (Trained(kind, task, "logistic", problem) for _ in range(2))
    rows = np.arange(problem.X.shape[0])
    step = (0.3, 0.5, 2, 0.0)
    for leaf in range(problem.table.shape[0]):
        first.train(rows, [0, rows.size], [leaf], *step)
    for name, start in (("weights", "start"), ("slot_weights", "start_slots")):
        if hasattr(first.native, name):
            weights = getattr(first.native, name)()
            getattr(second.native, start)(*(weights if isinstance(weights, tuple) else (weights,)))
    np.testing.assert_array_equal(first.parameters().labels, second.parameters().labels)
    np.testing.assert_array_equal(first.parameters().slots, second.parameters().slots)
    assert (first.parameters().labels != 0).any() or (first.parameters().slots != 0).any()


@pytest.mark.parametrize("kind", ["table", "dense"])
def test_too_many_weights_to_begin_with_are_refused(kind: str) -> None:
    trained = Trained(kind, "bias", "softmax", random_problem(0))
    weights = trained.native.weights()
    for wrong in (np.vstack([weights, weights]), np.ascontiguousarray(weights[:, 1:])):
        with pytest.raises(ValueError, match="to begin with"):
            trained.native.start(wrong)
