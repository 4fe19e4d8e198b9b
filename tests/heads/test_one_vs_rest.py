"""The one-vs-rest head: against its twin and scikit-learn, the same for every n_jobs, and awkward input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from labelprism import _reference
from labelprism.heads import OneVsRestHead, one_vs_rest

EXACT: dict[str, Any] = {"tolerance": 1e-5, "passes": 5000, "drop": 0.0, "random_state": 0}


def problem(n: int = 60, d: int = 12, c: int = 5, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    """Rows of norm 1 whose labels depend on their features, and candidates: each label with probability 0.6."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.4, rng=rng, dtype=np.float64).toarray()
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    Y = X @ rng.standard_normal((d, c)) + 0.3 * rng.standard_normal((n, c)) > 0.4
    candidates = rng.random((n, c)) < 0.6
    return tuple(sp.csr_array(m.astype(np.float32)) for m in (X, Y, candidates))  # type: ignore[return-value]


def same(one: OneVsRestHead, other: OneVsRestHead) -> bool:
    pairs = [(h.weights_.data, h.weights_.indices, h.bias_, h.held_out_margins_.data) for h in (one, other)]
    return all(np.array_equal(a, b) for a, b in zip(*pairs, strict=True))


# ---------------------------------------------------------------------------------------------------------- the solver


@pytest.mark.parametrize("rare_examples", [0.0, 20.0])
def test_weights_are_those_of_the_twin(rare_examples: float) -> None:
    X, Y, candidates = problem()
    head = OneVsRestHead(0.7, 2.0, rare_examples=rare_examples, **EXACT).fit(X, Y, candidates)
    for label in range(Y.shape[1]):
        rows = np.flatnonzero((Y + candidates).toarray()[:, label])
        target = np.where(Y.toarray()[rows, label] > 0, 1, -1)
        cost = _reference.one_vs_rest_costs(target, 0.7, 2.0, rare_examples)
        weight, bias = _reference.one_vs_rest_label(X.toarray()[rows], target, cost)
        np.testing.assert_allclose(head.weights_.toarray()[label], weight, atol=2e-3)
        assert head.bias_[label] == pytest.approx(bias, abs=2e-3)


@pytest.mark.parametrize("value", [1.0, 0.3, None])
def test_rows_of_few_features_are_learned_like_those_of_many(value: float | None) -> None:
    """Few features: entries of rows are read as they lie, or features alone if values of a row are equal."""
    X, Y, candidates = problem(300, 12, 30, seed=2)
    if value is not None:
        X.data[:] = value * np.repeat(1 + np.arange(300) % 3, np.diff(X.indptr))
    # After it, features that no row has, and more of them than may be few; before it, so that rows have them as well.
    nothing = sp.csr_array((300, 5000), dtype=np.float32)
    wide, last = (sp.csr_array(sp.hstack(parts, "csr")) for parts in ((X, nothing), (nothing[:, :3000], X)))
    held_out = np.arange(300) % 7 == 0
    few, of_wide, of_last = (
        OneVsRestHead(random_state=3).fit(matrix, Y, candidates, held_out) for matrix in (X, wide, last)
    )
    for head, weights in ((of_wide, of_wide.weights_[:, :12]), (of_last, of_last.weights_[:, 3000:])):
        assert weights.nnz == head.weights_.nnz > 0
        np.testing.assert_allclose(weights.toarray(), few.weights_.toarray(), atol=1e-4)
        np.testing.assert_allclose(head.bias_, few.bias_, atol=1e-4)
        np.testing.assert_allclose(head.held_out_margins_.toarray(), few.held_out_margins_.toarray(), atol=1e-4)


def test_rows_of_equal_values_beside_others_change_no_bits_of_a_label() -> None:
    """A shard has the rows of its labels alone: whether values of other rows are equal must not matter."""
    X, Y, candidates = problem(200, 12, 20, seed=4)
    X.data[: X.indptr[100]] = 0.5
    asked = sp.csr_array(candidates.toarray() * (np.arange(200) < 100)[:, None])  # also: of different labels
    Y = sp.csr_array(Y.toarray() * ((np.arange(200) < 100)[:, None] | (np.arange(20) % 2 > 0)))
    both = OneVsRestHead(random_state=0).fit(X, Y, asked)
    alone = OneVsRestHead(random_state=0).fit(X[:100], Y[:100], asked[:100])
    np.testing.assert_array_equal(both.weights_[::2].toarray(), alone.weights_[::2].toarray())
    np.testing.assert_array_equal(both.bias_[::2], alone.bias_[::2])
    assert both.weights_[::2].nnz > 0
    assert (both.weights_[1::2] != alone.weights_[1::2]).nnz > 0


def test_weights_of_rows_of_equal_values_are_those_of_the_twin() -> None:
    X, Y, candidates = problem()
    X = sp.csr_array(X * (np.arange(60) % 9 > 0)[:, None], dtype=np.float32)
    X.eliminate_zeros()  # rows without features, too
    X.data[:] = np.repeat(1 / np.sqrt(np.maximum(np.diff(X.indptr), 1)), np.diff(X.indptr))
    head = OneVsRestHead(0.7, 2.0, rare_examples=20.0, **EXACT).fit(X, Y, candidates)
    for label in range(Y.shape[1]):
        rows = np.flatnonzero((Y + candidates).toarray()[:, label])
        target = np.where(Y.toarray()[rows, label] > 0, 1, -1)
        cost = _reference.one_vs_rest_costs(target, 0.7, 2.0, 20.0)
        weight, bias = _reference.one_vs_rest_label(X.toarray()[rows], target, cost)
        np.testing.assert_allclose(head.weights_.toarray()[label], weight, atol=2e-3)
        assert head.bias_[label] == pytest.approx(bias, abs=2e-3)


def test_agrees_with_linear_svc_where_the_bias_is_a_feature() -> None:
    X, Y, _ = problem(80)
    everything = sp.csr_array(np.ones(Y.shape, np.float32))
    # scikit-learn draws the bias to 0 and we to -1: a large bias of a feature of its own makes both free.
    wide = sp.csr_array(sp.hstack([X, sp.csr_array(np.full((80, 1), 30.0))]).astype(np.float32))
    exact = {**EXACT, "tolerance": 1e-6, "passes": 50_000}
    head = OneVsRestHead(1.0, 0.0, rare_examples=0.0, **exact).fit(wide, Y, everything)
    margins = head.scores(wide, everything).toarray()
    for label in range(Y.shape[1]):
        svc = LinearSVC(C=1.0, loss="squared_hinge", dual=True, tol=1e-6, max_iter=200_000, fit_intercept=False)
        expected = svc.fit(wide.toarray(), Y.toarray()[:, label] > 0).decision_function(wide.toarray())
        np.testing.assert_allclose(margins[:, label], expected, atol=1e-3)


def test_held_out_margins_come_from_a_head_that_has_not_seen_the_rows() -> None:
    X, Y, candidates = problem(80)
    held_out = np.arange(80) >= 60
    head = OneVsRestHead(**EXACT).fit(X, Y, candidates, held_out)
    without = OneVsRestHead(**EXACT).fit(X[:60], Y[:60], candidates[:60])
    pairs = sp.csr_array((Y + candidates)[60:])
    expected = without.scores(X[60:], pairs).toarray()
    # Costs depend on the number of positives, held-out ones included, so the two heads differ a little.
    np.testing.assert_allclose(head.held_out_margins_[60:].toarray(), expected, atol=0.3)
    assert head.held_out_margins_[:60].nnz == 0
    both = OneVsRestHead(**EXACT).fit(X, Y, candidates)
    np.testing.assert_allclose(head.weights_.toarray(), both.weights_.toarray(), atol=0.2)


def test_small_weights_are_dropped() -> None:
    X, Y, candidates = problem()
    full = OneVsRestHead(drop=0.0, random_state=0).fit(X, Y, candidates).weights_
    cut = OneVsRestHead(drop=0.5, random_state=0).fit(X, Y, candidates).weights_
    assert 0 < cut.nnz < full.nnz
    assert (np.abs(cut.data) > 0.5).all()
    np.testing.assert_array_equal(cut.toarray(), np.where(np.abs(full.toarray()) > 0.5, full.toarray(), 0))


def test_scores_are_products() -> None:
    X, Y, candidates = problem()
    head = OneVsRestHead(random_state=0).fit(X, Y, candidates)
    found = head.scores(X, candidates)
    expected = (X @ head.weights_.T).toarray() + head.bias_
    np.testing.assert_allclose(found.toarray(), np.where(candidates.toarray() > 0, expected, 0), atol=1e-5)


# ---------------------------------------------------------------------------------------------------------- determinism


@pytest.mark.parametrize("n_jobs", [2, 3, 7])
def test_threads_change_nothing(n_jobs: int) -> None:
    X, Y, candidates = problem(400, 30, 200, seed=1)
    held_out = np.arange(400) % 10 == 0
    one = OneVsRestHead(n_jobs=1, random_state=5).fit(X, Y, candidates, held_out)
    assert same(one, OneVsRestHead(n_jobs=n_jobs, random_state=5).fit(X, Y, candidates, held_out))


# -------------------------------------------------------------------------------------------------------- awkward input


def test_label_without_positives_has_a_bias_alone() -> None:
    X, Y, candidates = problem()
    Y = sp.csr_array(Y.toarray() * np.array([0, 1, 1, 1, 1], np.float32))
    head = OneVsRestHead(random_state=0).fit(X, Y, candidates)
    assert head.weights_[[0]].nnz == 0
    assert head.bias_[0] == -1


def test_label_whose_positives_are_all_held_out_has_a_bias_alone() -> None:
    X, Y, candidates = problem()
    positive = Y.toarray()
    positive[10:, 0] = 0
    head = OneVsRestHead(random_state=0).fit(X, sp.csr_array(positive), candidates, np.arange(60) < 10)
    assert positive[:10, 0].any()
    assert head.weights_[[0]].nnz == 0
    assert head.bias_[0] == -1
    assert (head.held_out_margins_[:, [0]].data == -1).all()
    assert np.diff(head.weights_.indptr)[1:].min() > 0


def test_label_that_all_rows_have() -> None:
    X, Y, candidates = problem()
    head = OneVsRestHead(**EXACT).fit(X, sp.csr_array(np.ones(Y.shape, np.float32)), candidates)
    everything = sp.csr_array(np.ones(Y.shape, np.float32))
    assert head.scores(X, everything).data.min() > 0.5


@pytest.mark.parametrize("n", [1, 3])
def test_few_empty_and_unlabelled_rows(n: int) -> None:
    X = sp.csr_array((n, 4), dtype=np.float32)
    Y = sp.csr_array((n, 2), dtype=np.float32)
    head = OneVsRestHead(random_state=0).fit(X, Y, sp.csr_array((n, 2), dtype=np.float32))
    assert head.weights_.shape == (2, 4)
    assert head.weights_.nnz == 0
    np.testing.assert_array_equal(head.bias_, [-1, -1])


def test_no_candidates_leave_the_positives() -> None:
    X, Y, candidates = problem()
    head = OneVsRestHead(random_state=0).fit(X, Y, sp.csr_array(candidates.shape, dtype=np.float32))
    assert head.scores(X, Y).data.mean() > 0


def test_unsorted_candidates_are_sorted_first() -> None:
    X, Y, candidates = problem()
    mixed = candidates.copy()
    for i in range(mixed.shape[0]):
        mixed.indices[mixed.indptr[i] : mixed.indptr[i + 1]] = mixed.indices[mixed.indptr[i] : mixed.indptr[i + 1]][
            ::-1
        ]
    mixed.has_sorted_indices = False
    one, other = (OneVsRestHead(random_state=0).fit(X, Y, some) for some in (candidates, mixed))
    assert same(one, other)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"cost": 0}, "cost"), ({"passes": 0}, "passes"), ({"drop": -1}, "drop"), ({"tolerance": np.nan}, "tolerance")],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    X, Y, candidates = problem()
    with pytest.raises(ValueError, match=message):
        OneVsRestHead(**parameters).fit(X, Y, candidates)


def test_shapes_that_do_not_fit_are_refused() -> None:
    X, Y, candidates = problem()
    with pytest.raises(ValueError, match="same rows"):
        OneVsRestHead().fit(X[:10], Y, candidates)
    with pytest.raises(ValueError, match="held_out"):
        OneVsRestHead().fit(X, Y, candidates, np.zeros(3, bool))
    head = OneVsRestHead().fit(X, Y, candidates)
    with pytest.raises(ValueError, match="12 features"):
        head.scores(X[:, :5], candidates)


def test_clusters_of_labels_have_three_passes() -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((200, 30)) * (rng.random((200, 30)) < 0.3)).astype(np.float32))
    Y = sp.csr_array((rng.random((200, 6)) < 0.3).astype(np.float32))
    everything = sp.csr_array(np.ones((200, 6), np.float32))

    def weights(passes: int, first_cluster: int) -> Any:
        head = OneVsRestHead(passes=passes, tolerance=0.0, drop=0.0, random_state=0)
        head._first_cluster = first_cluster
        return head.fit(X, Y, everything).weights_.toarray()

    mixed, many, three = weights(40, 4), weights(40, 6), weights(3, 6)
    np.testing.assert_array_equal(mixed, np.concatenate([many[:4], three[4:]]))
    assert np.abs(many[4:] - three[4:]).max() > 1e-6


def test_rows_that_lie_sorted_are_learned_as_well_as_others() -> None:
    """The last of many alike must not have their way: after few passes sorted rows are as near to the exact margins."""
    settings: dict[str, Any] = {"drop": 0.0, "random_state": 0}
    far = {"sorted": 0.0, "drawn": 0.0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        centres = rng.random((60, 60)) * (rng.random((60, 60)) < 0.1)
        X = centres[np.sort(rng.integers(60, size=1200))] + rng.random((1200, 60)) * (rng.random((1200, 60)) < 0.03)
        X = (X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)).astype(np.float32)
        Y = (X @ rng.standard_normal((60, 4)) + 0.3 * rng.standard_normal((1200, 4)) > 0.8).astype(np.float32)
        rows, everything = sp.csr_array(X), sp.csr_array(np.ones(Y.shape, np.float32))
        exact = OneVsRestHead(tolerance=1e-4, passes=5000, **settings).fit(rows, sp.csr_array(Y), everything)
        margins = exact.scores(rows, everything).toarray()
        for name, order in {"sorted": np.arange(1200), "drawn": rng.permutation(1200)}.items():
            head = OneVsRestHead(**settings).fit(rows[order], sp.csr_array(Y[order]), everything)
            far[name] += np.abs(head.scores(rows, everything).toarray() - margins).mean() / 6
    assert far["sorted"] < 1.15 * far["drawn"] < 0.3


@pytest.mark.parametrize("counted_together", [1, 7, 100])
def test_shards_do_not_depend_on_how_many_are_counted_together(
    counted_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.random.default_rng(0).integers(20, size=100).astype(np.int32)
    monkeypatch.setattr(one_vs_rest, "_CANDIDATES_PER_SHARD", 30)
    whole = one_vs_rest._shards(labels, 25)
    monkeypatch.setattr(one_vs_rest, "_COUNTED_TOGETHER", counted_together)
    assert one_vs_rest._shards(labels, 25) == whole
    assert len(whole) == 3
    assert [end for _, end in whole[:-1]] == [begin for begin, _ in whole[1:]]
    assert (whole[0][0], whole[-1][1]) == (0, 25)
