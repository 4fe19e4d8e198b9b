"""What a spectral tree is given: kinds of input, weights, units, degenerate data, and what it refuses."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from planted_trees import fitted, planted

from labelprism.filters import SpectralTree
from labelprism.metrics import filter_recall


def test_multiclass_labels_as_numbers() -> None:
    X, Y = planted()
    numbers = np.asarray(Y.argmax(axis=1)).ravel()
    one, other = fitted(X, Y), fitted(X, numbers)
    np.testing.assert_array_equal(one.route(X), other.route(X))
    few = numbers < 20  # the held-out labels are fewer than the labels
    watched = fitted(X, numbers, validation=(X[few], numbers[few]))
    assert watched.n_labels_ == 24
    assert watched.diagnostics(X, numbers, (X[few], numbers[few])).holdout_recall > 0.5


def test_weights_count_everywhere() -> None:
    X, Y = planted()
    weight = np.where(Y[:, [5]].toarray().ravel() > 0, 20.0, 1.0)
    tree = SpectralTree(6, 3, head_labels=1, random_state=0).fit(X, Y, sample_weight=weight)
    assert (tree.leaf_candidates_[:, [5]].toarray() != 0).all()
    # small weights do not stop growth
    small = SpectralTree(4, 5, random_state=0).fit(X, Y, sample_weight=np.full(600, 1 / 600))
    assert small.leaf_nodes_.size == fitted(X, Y).leaf_nodes_.size


@pytest.mark.parametrize("offset", [0, 100, 1000])
def test_a_large_mean_does_not_hide_the_labels(offset: float) -> None:
    X, Y = planted()
    shifted = X.toarray() + np.float32(offset)
    tree = fitted(shifted, Y, noise="sqrt")
    assert tree.leaf_nodes_.size > 8
    assert tree.diagnostics(shifted, Y).train_recall > 0.5


def test_values_beyond_all_measure() -> None:
    X, Y = planted()
    for scale in (1e9, 1e-12):
        assert fitted(X * np.float32(scale), Y, noise="sqrt").leaf_nodes_.size > 8
    with pytest.raises(ValueError, match="too large"):
        fitted(X * np.float32(1e30), Y)


def test_no_rows_to_route() -> None:
    X, Y = planted()
    tree = fitted(X, Y)
    assert tree.route(X[:0]).shape == (0,)
    assert tree.leaf_probabilities(X[:0]).shape == (0, tree.leaf_nodes_.size)
    assert tree.candidates(X[:0]).shape == (0, 24)


def test_read_only_memory_mapped_and_pickled(tmp_path: Path) -> None:
    X, Y = planted()
    tree = fitted(X, Y)
    paths = []
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
        paths.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    mapped = sp.csr_array(tuple(paths), shape=X.shape)
    np.testing.assert_array_equal(fitted(mapped, Y).route(mapped), tree.route(X))
    again = pickle.loads(pickle.dumps(tree))
    np.testing.assert_array_equal(again.route(X), tree.route(X))
    np.save(tmp_path / "X.npy", X.toarray())
    labels = sp.csr_array((Y.data, Y.indices, Y.indptr), shape=Y.shape)
    for array in (labels.data, labels.indices, labels.indptr):
        array.flags.writeable = False
    np.testing.assert_array_equal(fitted(X, labels).route(X), tree.route(X))
    dense = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert fitted(dense, Y).route(dense).shape == (600,)


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.ones((1, 3)), np.ones((1, 2))),  # one row
        (np.random.default_rng(0).random((9, 3)), np.ones((9, 1))),  # one label
        (np.ones((9, 3)), np.eye(9)),  # all rows equal
        (np.tile(np.random.default_rng(0).random(40), (60, 1)), np.eye(60)),  # the same, with rounding
        (np.zeros((9, 3)), np.eye(9)),  # empty rows
        (
            np.random.default_rng(0).random((3, 4)),
            np.random.default_rng(1).random((3, 50)) < 0.5,
        ),  # more labels than rows
        (np.random.default_rng(0).random((9, 3)), np.zeros((9, 4))),  # no labels at all
        (np.random.default_rng(0).random((40, 1)), np.eye(40)),  # one feature
    ],
)
def test_degenerate_data(X: np.ndarray, Y: np.ndarray) -> None:
    for given in (X, sp.csr_array(X)):
        tree = SpectralTree(2, 6, random_state=0).fit(given, sp.csr_array(Y.astype(float)))
        leaves = tree.route(given)
        assert ((leaves >= 0) & (leaves < tree.leaf_nodes_.size)).all()
        np.testing.assert_allclose(tree.leaf_probabilities(given).sum(axis=1), 1, atol=1e-5)
        assert tree.candidates(given).shape == (X.shape[0], Y.shape[1])
        if np.ptp(X, axis=0).max() == 0:  # nothing to split by
            assert tree.children_.size == 1


def test_labels_that_say_nothing_split_nothing() -> None:
    """All labels everywhere: the eigenvalue is 0, and not what rounding makes of it."""
    for seed in range(10):
        X = np.random.default_rng(seed).random((300, 40)) + 10 * seed
        for labels in (np.ones((300, 5)), np.tile([1, 0, 1, 1, 1], (300, 1))):
            assert SpectralTree(2, 6, random_state=seed).fit(X, labels).children_.size == 1


def test_a_million_labels_of_which_ten_occur() -> None:
    X, Y = planted(n=300, c=12)
    rows, columns = Y.nonzero()
    wide = sp.csr_array((np.ones(rows.size), (rows, columns * 80_000)), shape=(300, 1_000_000))
    tree = fitted(X, wide, n_candidates=2)
    narrow = fitted(X, Y, n_candidates=2)
    assert (tree.leaf_candidates_.indices % 80_000 == 0).all()
    # sums over a million labels are rounded otherwise than over twelve; nothing else may differ
    assert (tree.route(X) == narrow.route(X)).mean() > 0.9
    assert filter_recall(wide, tree.candidates(X)) == pytest.approx(filter_recall(Y, narrow.candidates(X)), abs=0.02)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_candidates": 0}, "n_candidates"),
        ({"n_candidates": 2.5}, "n_candidates"),
        ({"max_depth": -1}, "max_depth"),
        ({"target_recall": 0.0}, "target_recall"),
        ({"prune_below": 2.0}, "prune_below"),
        ({"routing": "soft"}, "routing"),
        ({"noise": "none"}, "noise"),
        ({"prune": "half"}, "prune"),
        ({"bias": "mean"}, "bias"),
        ({"head_labels": 9, "n_candidates": 4}, "head_labels"),
        ({"validation": 1.5}, "validation"),
        ({"validation": "a"}, "validation"),
        ({"validation": (1, 2, 3)}, "validation"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"target_recall": "a"}, "target_recall"),
        ({"n_blocks": 33}, "n_blocks"),
        ({"weight_threshold": 2.0}, "weight_threshold"),
        ({"weight_threshold": np.nan}, "weight_threshold"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    X, Y = planted(n=50)
    with pytest.raises(ValueError, match=message):
        SpectralTree(**parameters).fit(X, Y)


def test_bad_input() -> None:
    X, Y = planted(n=50)
    tree = fitted(X, Y)
    for wrong_X, wrong_Y, message in (
        (X[:40], Y, "rows"),
        (X[:0], Y[:0], "nothing to learn"),
        (X * np.nan, Y, "NaN"),
        (X, np.array(["a"] * 50), "label numbers"),
        (X, np.full(50, -1), "label numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(wrong_X, wrong_Y)
    with pytest.raises(ValueError, match="fitted with 60"):
        tree.route(X[:, :30])
    with pytest.raises(ValueError, match="sample_weight"):
        SpectralTree().fit(X, Y, sample_weight=np.zeros(50))
    for k in (0, 5):
        with pytest.raises(ValueError, match="k must be a whole number from 1 to 4"):
            tree.candidates(X, k=k)
    with pytest.raises(ValueError, match="validation has 30 features"):
        fitted(X, Y, validation=(X[:, :30], Y))
    with pytest.raises(ValueError, match="no held-out example has a label"):
        fitted(X, Y, validation=(X, Y * 0))
    with pytest.raises(ValueError, match="fitted with 24"):
        tree.diagnostics(X, Y, (X, sp.csr_array((50, 30))))
    for use in (SpectralTree().route, lambda X: SpectralTree().describe(0), lambda X: SpectralTree().diagnostics(X, Y)):
        with pytest.raises(ValueError, match="not fitted"):
            use(X)
