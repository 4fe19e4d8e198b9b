"""The eigenvalue problem of a node against a dense float64 eigensolver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core, _reference
from labelprism._arrays import as_csr, as_label_matrix
from labelprism.filters.node import Examples, Features, Splits, has_one_label

N_DEFAULT, CG_DEFAULT = 3, 16  # the defaults of SpectralTree


class Problem:
    """A small random problem with one of the troubles that real data have."""

    def __init__(self, seed: int, several_labels: bool) -> None:
        rng = np.random.default_rng(seed)
        n, d, c = rng.integers(5, 200), rng.integers(2, 60), rng.integers(2, 40)
        self.X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
        if several_labels:
            self.Y = (rng.random((n, c)) < rng.choice([0.05, 0.2, 0.5])).astype(float)
        else:
            self.Y = np.eye(c)[rng.integers(c, size=n)]
        self.weight = rng.random(n).astype(np.float32) ** 2 + np.float32(1e-3)
        trouble = seed % 10
        if trouble == 1:
            self.X[:, 0] = 1  # a constant feature
        elif trouble == 2 and several_labels:
            self.Y[:, 0] = 1  # a label everywhere
        elif trouble == 3 and several_labels:
            self.Y[:, -1] = self.Y[:, 0]  # the same label twice: Y'Y is singular
        elif trouble == 4:
            self.Y[:, c // 2] = 0  # a label without examples, and rows without labels
        elif trouble == 5:
            self.X /= np.maximum(np.linalg.norm(self.X, axis=1, keepdims=True), 1e-9)
        elif trouble == 6:
            self.weight = np.ones(n, np.float32)
        elif trouble == 7:
            self.X[: n // 2] = self.X[n // 2 : n // 2 * 2]  # rows twice
        elif trouble == 8:
            self.X += 100  # a mean that drowns all else
        elif trouble == 9:
            self.X *= 1e9  # a unit that is out of all proportion

    def solve(self, n_blocks: int = N_DEFAULT, cg_iterations: int = CG_DEFAULT, dense: bool = False) -> Splits:
        Y = as_label_matrix(self.Y)
        settings = _core.SpectralSettings(n_blocks, cg_iterations, has_one_label(Y), 0.0, 7)
        n = self.X.shape[0]
        X = np.ascontiguousarray(self.X, np.float32) if dense else as_csr(self.X)
        examples = Examples(np.arange(n, dtype=np.int32), np.ones(n, np.float32), np.array([0, n]))
        return Features(X, 1).solve_nodes(Y, examples, self.weight, np.zeros(1, np.int64), settings)


@pytest.mark.parametrize("several_labels", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_eigenvalue_and_eigenvector(several_labels: bool, dense: bool, long_run: bool) -> None:
    solved = 0
    for seed in range(400 if long_run else 80):
        problem = Problem(seed, several_labels)
        matrix = _reference.node_matrix(problem.X, problem.Y, problem.weight)
        values, vectors = np.linalg.eigh(matrix)
        if values[-1] < 1e-6 * (problem.X**2).sum(axis=1) @ problem.weight:
            continue
        solved += 1
        for n_blocks, cg_iterations, least, error in ((12, 100, 0.999, 5e-3), (N_DEFAULT, CG_DEFAULT, 0.99, 0.05)):
            split = problem.solve(n_blocks, cg_iterations, dense)
            w = split.routers.toarray()[0].astype(np.float64)
            quotient = (w @ matrix @ w) / (w @ w)
            assert least <= quotient / values[-1] <= 1 + 1e-5, (seed, n_blocks)
            assert split.eigenvalue[0] == pytest.approx(quotient, rel=error)
            assert np.linalg.norm(w) == pytest.approx(1, abs=1e-4)
            if n_blocks == 12 and values[-2] < 0.8 * values[-1]:
                assert abs(w @ vectors[:, -1]) > 0.999, seed
    assert solved > 60


@pytest.mark.parametrize("several_labels", [False, True])
def test_constraint_bias_mass_and_sign(several_labels: bool) -> None:
    for seed in range(30):
        problem = Problem(seed, several_labels)
        split = problem.solve()
        if split.eigenvalue[0] < 1e-6:
            continue
        w = split.routers.toarray()[0].astype(np.float64)
        constraint = problem.X.T @ problem.weight
        assert abs(constraint @ w) < 1e-4 * np.linalg.norm(constraint)
        scale = np.abs(problem.X).max()
        np.testing.assert_allclose(split.margins, problem.X @ w, atol=2e-5 * scale)
        assert split.bias[0] == pytest.approx(_reference.median_split(split.margins, problem.weight), abs=1e-6 * scale)
        assert split.mass[0] == pytest.approx(problem.weight.sum(), rel=1e-5)
        assert w[np.argmax(np.abs(w))] > 0


def test_many_nodes_give_what_each_gives_alone() -> None:
    rng = np.random.default_rng(0)
    X = as_csr(sp.random_array((3000, 400), density=0.02, rng=rng))
    Y = as_label_matrix(sp.random_array((3000, 50), density=0.05, rng=rng))
    groups = [np.sort(rng.choice(3000, size, replace=False)).astype(np.int32) for size in (3000, 700, 40, 2, 1)]
    rows, offsets = np.concatenate(groups), np.concatenate([[0], np.cumsum([g.size for g in groups])])
    weight = rng.random(rows.size, dtype=np.float32) + np.float32(0.1)
    settings = _core.SpectralSettings(3, 20, False, 0.0, 1)
    examples = Examples(rows, weight, offsets)
    together = Features(X, 2).solve_nodes(Y, examples, weight, np.arange(5), settings)
    for i, group in enumerate(groups):
        part = slice(offsets[i], offsets[i + 1])
        alone = Features(X, 1).solve_nodes(
            Y, Examples(group, weight[part], np.array([0, group.size])), weight[part], np.array([i]), settings
        )
        np.testing.assert_array_equal(alone.margins, together.margins[part])
        assert alone.eigenvalue[0] == together.eigenvalue[i]
        assert (alone.routers != together.routers[[i]]).nnz == 0


def test_nothing_to_split_by() -> None:
    """Rows that are all equal, one label, no labels, no features: the eigenvalue is 0."""
    settings = _core.SpectralSettings(3, 20, True, 0.0, 1)
    for X, Y in (
        (np.ones((6, 4)), np.eye(6)),
        (np.random.default_rng(0).random((6, 4)), np.zeros((6, 2))),
        (np.zeros((6, 4)), np.eye(6)),
    ):
        examples = Examples(np.arange(6, dtype=np.int32), np.ones(6, np.float32), np.array([0, 6]))
        split = Features(as_csr(X), 1).solve_nodes(
            as_label_matrix(Y), examples, np.ones(6, np.float32), np.zeros(1, np.int64), settings
        )
        assert split.eigenvalue[0] < 1e-8


@given(
    values=st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    seed=st.integers(0, 1000),
)
def test_weighted_median(values: list[int], seed: int) -> None:
    weights = np.random.default_rng(seed).integers(1, 5, len(values)).astype(np.float32)
    array = np.array(values, np.float32)
    assert _core.weighted_median(array, weights) == _reference.weighted_median(array, weights)
    split = _core.median_split(array, weights)
    assert split == _reference.median_split(array, weights)
    lower, upper = weights[array <= split].sum(), weights[array > split].sum()
    heaviest = max(weights[array == value].sum() for value in array)
    assert abs(lower - upper) <= heaviest  # as even as equal values allow


@given(
    n=st.integers(50, 400),
    spread=st.sampled_from([0.0, 1.0, 1e-30, 1e30, 1e36]),
    rounded=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_weighted_median_of_many(n: int, spread: float, rounded: bool, seed: int) -> None:
    """Many values are counted by ranges first: few of them, all, or none in the range of the median."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n) ** 3
    array = (spread * (np.round(values) if rounded else values)).astype(np.float32)
    array[:2] = np.float32(rng.choice([0, 100, -3e38, 3e38]))  # far from all others
    weights = rng.integers(0, 5, n).astype(np.float32)
    weights[n // 2] = rng.choice([1, 1000])
    assert _core.weighted_median(array, weights) == _reference.weighted_median(array, weights)


def test_medians_of_what_has_no_order() -> None:
    """No value is right then; what matters is that memory is left alone."""
    for bad in (np.nan, np.inf, -np.inf):
        array = np.linspace(-1, 1, 200, dtype=np.float32)
        array[::3] = bad
        assert _core.weighted_median(array, np.ones(200, np.float32)) in array or np.isnan(bad)
        array = np.tile(np.float32([0, 1]), 100)
        array[2:4] = bad, -1e6  # the least number stands beside one that is none, and is not found
        _core.weighted_median(array, np.ones(200, np.float32))
        _core.median_split(array, np.ones(200, np.float32))
    assert _core.weighted_median(np.ones(100, np.float32), np.zeros(100, np.float32)) == 1


def test_label_counts_and_router_margins() -> None:
    rng = np.random.default_rng(0)
    X = as_csr(sp.random_array((500, 300), density=0.05, rng=rng))
    Y = as_label_matrix(sp.random_array((500, 70), density=0.05, rng=rng))
    rows = rng.integers(500, size=900).astype(np.int32)
    offsets = np.array([0, 0, 850, 851, 900])
    weight = rng.random(900, dtype=np.float32)
    labels = (Y.indptr.astype(np.int64), Y.indices.astype(np.int32), 70)
    indptr, indices, data = _core.label_counts(*labels, rows, weight, offsets, 2)
    counts = sp.csr_array((data, indices, indptr), shape=(4, 70))
    np.testing.assert_allclose(counts.toarray(), _reference.label_counts(Y, rows, weight, offsets), rtol=1e-5)
    assert counts.has_sorted_indices

    routers = as_csr(sp.random_array((6, 300), density=0.5, rng=rng))
    nodes = np.array([5, 0, 3, 2])
    expected = _reference.router_margins(X, routers, rows, offsets, nodes)
    sparse = Features(X, 2).router_margins(routers, rows, offsets, nodes)
    dense = Features(X.toarray(), 2).router_margins(routers, rows, offsets, nodes)
    np.testing.assert_allclose(sparse, expected, atol=1e-5)
    np.testing.assert_allclose(dense, expected, atol=1e-5)
    # a router far larger than the row is searched instead of spread out
    wide = as_csr(sp.random_array((1, 100_000), density=0.9, rng=rng))
    row = as_csr(sp.random_array((1, 100_000), density=0.001, rng=rng))
    one = Features(row, 1).router_margins(wide, np.zeros(1, np.int32), np.array([0, 1]), np.zeros(1, np.int64))
    assert one[0] == pytest.approx((row @ wide.T).toarray()[0, 0], rel=1e-4)
