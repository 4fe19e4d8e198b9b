"""Sums and centroids of labels, means of classifiers, lists of the strongest labels: against their twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core, _reference
from labelprism._arrays import csr_parts
from labelprism.heads.centroids import centroids, label_centroids, label_sums, moved_centroids, row_norms


def rows_and_labels(n: int, d: int, c: int, seed: int) -> tuple[sp.csr_array, sp.csr_array, Any]:
    """Rows of few distinct values, negative ones too, so that equals are common and sums may vanish."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.choice([0, 0, 0.5, 1, -0.5, 0.1], (n, d)).astype(np.float32))
    Y = sp.csr_array((rng.random((n, c)) < 0.3).astype(np.float32))
    return X, Y, rng.uniform(0.5, 2, n).astype(np.float32)


SIZES: Any = {
    "n": st.integers(0, 12),
    "d": st.integers(0, 150),
    "c": st.integers(0, 140),
    "seed": st.integers(0, 2**31),
}


@given(**SIZES, n_features=st.integers(1, 40), n_threads=st.integers(1, 3), weighted=st.booleans())
def test_sums_and_centroids(n: int, d: int, c: int, seed: int, n_features: int, n_threads: int, weighted: bool) -> None:
    X, Y, weight = rows_and_labels(n, d, c, seed)
    given_weight = weight if weighted else None
    sums = label_sums(X, Y, given_weight, n_threads)
    wanted = _reference.label_sums(X, Y, weight if weighted else np.ones_like(weight))
    np.testing.assert_array_equal(sums.toarray(), wanted)
    assert (sums.data != 0).all()
    assert sums.has_canonical_format
    centre, norms = label_centroids(X, Y, given_weight, n_features, n_threads)
    assert centre.has_canonical_format
    np.testing.assert_array_equal(norms, row_norms(sums))
    twins = [_reference.cut_centroid_row(row, norm, n_features) for row, norm in zip(wanted, norms, strict=True)]
    np.testing.assert_array_equal(centre.toarray(), np.reshape(twins, (c, d)))
    again = centroids(sums, norms, n_features, n_threads)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(again, name), getattr(centre, name))


@pytest.mark.parametrize("cut", [0, 1, 30, 60])
def test_sums_can_be_gone_on_with(cut: int) -> None:
    """A training on a cluster goes on from the sums of its chunks."""
    X, Y, weight = rows_and_labels(60, 50, 300, 0)
    centre, norms = label_centroids(X, Y, weight, 7, 2)
    start = label_sums(X[:cut], Y[:cut], weight[:cut])
    again, other_norms = label_centroids(X[cut:], Y[cut:], weight[cut:], 7, start=start)
    np.testing.assert_array_equal(norms, other_norms)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(again, name), getattr(centre, name))


def test_many_features_are_cut_to_the_largest() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.standard_normal((40, 5000)) * 10.0 ** rng.integers(-6, 6, (40, 5000))).astype(np.float32)
    dense[:, ::7] = 1
    dense[3, :50], dense[4] = 0, -np.abs(dense[4])
    norms = np.linalg.norm(dense.astype(np.float64), axis=1)
    sums = sp.csr_array(dense)
    for n_features in (1, 100, 2500, 4990, 6000):
        cut = centroids(sums, norms, n_features, 2).toarray()
        for row in range(40):
            np.testing.assert_array_equal(cut[row], _reference.cut_centroid_row(dense[row], norms[row], n_features))


def test_values_that_are_never_kept() -> None:
    dense = np.array([[np.nan, 1, -np.inf, 2, 1], [np.nan, 0, -np.inf, np.nan, -3]], np.float32)
    cut = centroids(sp.csr_array(dense), np.ones(2), 2)
    assert (cut.indices.tolist(), cut.data.tolist(), cut.indptr.tolist()) == ([1, 3, 4], [1, 2, -3], [0, 2, 3])


@given(
    n_rows=st.integers(0, 9),
    n_after=st.integers(0, 4),
    d=st.integers(0, 30),
    k=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_mean_rows(n_rows: int, n_after: int, d: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.choice([0, 0, 0.25, 1, -0.5], (k * n_rows + n_after, d)).astype(np.float32)
    shares = np.full(k, 0.5, np.float32)
    for drop, n_threads in ((0.0, 1), (0.3, 2)):
        mean = _core.mean_rows(*csr_parts(sp.csr_array(dense)), d, n_rows, shares, drop, n_threads)
        found = sp.csr_array((mean[2], mean[1], mean[0]), shape=(n_rows + n_after, d))
        assert (found.data != 0).all()
        np.testing.assert_array_equal(found.toarray(), _reference.mean_rows(dense, n_rows, shares, drop))


def test_rounding_is_that_of_numpy() -> None:
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(300_000) * 2.0 ** rng.integers(-40, 15, 300_000)).astype(np.float32)
    values[:8] = [0, -0.0, np.nan, 65504, -65504, 2**-24, 2**-25, 6.1e-5]
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves[1:] + halves[:-1]) / 2
    values = np.concatenate([values, halves, between, -between])
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16).astype(np.float32)
    kept = ~np.isinf(wanted)  # what is too large becomes the largest
    for n_threads in (1, 3):
        found = _core.round_to_half(values, n_threads)
        np.testing.assert_array_equal(found[kept].view(np.int32), wanted[kept].view(np.int32))
        assert (np.abs(found[~kept]) == 65504).all()


def tables(
    n_labels: int, d: int, seed: int, n_threads: int, longest: tuple[int, int] = (9, 5), by_label: bool = False
) -> tuple[dict[str, Any], Any, Any, Any]:
    rng = np.random.default_rng(seed)
    density = rng.choice([0, 0.02, 0.1, 0.9], d)  # so that there are lists of all layouts
    centre, head = (
        np.where(rng.random((n_labels, d)) < density, rng.choice([0.5, 0.25, -1, 0.125], (n_labels, d)), 0)
        for _ in range(2)
    )
    norms = rng.uniform(0.5, 4, n_labels)
    parts = (*csr_parts(sp.csr_array(centre.astype(np.float32))), *csr_parts(sp.csr_array(head.astype(np.float32))))
    return _core.Predictor.tables_of(*parts, norms, d, *longest, by_label, n_threads), centre, head, norms


@pytest.mark.parametrize(("n_labels", "d"), [(3, 4), (700, 90), (2000, 20), (5, 0), (1, 1)])
def test_strongest_labels(n_labels: int, d: int) -> None:
    found, centre, _, norms = tables(n_labels, d, 0, 1)
    sums = centre * norms[:, None]
    total = np.maximum(np.abs(sums).sum(axis=0), np.finfo(float).tiny)
    shares = (sums / total).astype(np.float32).astype(np.float16).astype(np.float32)
    for matrix, names, longest in (
        (centre.astype(np.float32), ("near_begin", "near_label", "near_cosine"), 9),
        (shares, ("vote_begin", "vote_label", "vote_share"), 5),
    ):
        begin, label, weight = (found[name] for name in names)
        for feature in range(d):
            part = slice(begin[feature], begin[feature + 1])
            wanted = _reference.strongest_labels(matrix[:, feature], longest)
            assert (label[part].tolist(), weight[part].view(np.float16).tolist()) == wanted


@pytest.mark.parametrize("longest", [(0, 5), (9, 0), (0, 0)])
def test_lists_that_are_not_wanted_are_empty(longest: tuple[int, int]) -> None:
    found, both = tables(700, 90, 0, 1, longest)[0], tables(700, 90, 0, 1)[0]
    for kind, length in zip(("near", "vote"), longest, strict=True):
        for name in (name for name in found if name.startswith(kind)):
            if length:
                np.testing.assert_array_equal(found[name], both[name])
            else:
                assert not found[name].any(), name
    np.testing.assert_array_equal(found["pairs"], both["pairs"])


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_tables_do_not_depend_on_threads(seed: int, by_label: bool) -> None:
    one = tables(1500, 200, seed, 1, by_label=by_label)[0]
    assert set(one["lists"][:, 2] >> 32) == ({3} if by_label else {0, 1, 2})
    for n_threads in (2, 3, 16):
        for name, array in tables(1500, 200, seed, n_threads, by_label=by_label)[0].items():
            np.testing.assert_array_equal(array, one[name], err_msg=name)


def test_weights_of_labels_lie_one_after_the_other() -> None:
    found, centre, head, _ = tables(700, 90, 0, 2, by_label=True)
    by_feature = tables(700, 90, 0, 2)[0]
    for name in (name for name in found if name.startswith(("near", "vote"))):
        np.testing.assert_array_equal(found[name], by_feature[name], err_msg=name)
    halves = found["pairs"].view(np.float16).reshape(-1, 2)
    assert found["lists"].shape[0] == 700
    assert found["words"].size == 0
    for label, (first_pair, first_feature, length) in enumerate(found["lists"]):
        count = int(length & 0xFFFFFFFF)
        features = found["list_labels"][first_feature : first_feature + count]
        np.testing.assert_array_equal(features, np.flatnonzero((head[label] != 0) | (centre[label] != 0)))
        weights = halves[first_pair : first_pair + count]
        np.testing.assert_array_equal(weights[:, 0], head[label, features])
        np.testing.assert_array_equal(weights[:, 1], centre[label, features])


def test_lists_of_labels_want_features_that_ascend() -> None:
    one = (np.array([0, 2]), np.array([1, 0], np.int32), np.ones(2, np.float32))
    with pytest.raises(ValueError, match="must ascend"):
        _core.Predictor.tables_of(*one, *one, np.ones(1), 2, 3, 3, True)


def test_wrong_arguments_are_refused() -> None:
    X, Y, weight = rows_and_labels(5, 4, 3, 0)
    with pytest.raises(ValueError, match="same number of rows"):
        label_sums(X, Y[:4])
    with pytest.raises(ValueError, match="weight for every row"):
        label_sums(X, Y, weight[:4])
    with pytest.raises(ValueError, match="start must have a row for every label"):
        label_centroids(X, Y, weight, 2, start=sp.csr_array((2, 4), dtype=np.float32))
    with pytest.raises(ValueError, match="n_features must be at least 1"):
        label_centroids(X, Y, weight, 0)
    with pytest.raises(ValueError, match="a norm for every row"):
        centroids(X, np.ones(4), 2)
    with pytest.raises(ValueError, match="n_rows rows for each"):
        _core.mean_rows(*csr_parts(X), 4, 3, np.ones(2, np.float32), 0.0)


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 99), st.booleans())
def test_centroids_of_further_rows_are_those_of_all(n_before: int, n_later: int, seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    n = n_before + n_later
    X = sp.csr_array(rng.choice([0, 0.5, 1, -0.5], (n, 12)).astype(np.float32))
    # Now and then the later rows are of few labels, which few others have.
    columns = np.where(np.arange(n) < n_before, rng.integers(40, size=n), rng.integers(1 + seed % 5, size=n))
    Y = sp.csr_array((np.ones(n, np.float32), columns, np.arange(n + 1)), shape=(n, 40))
    weight = rng.uniform(0.5, 2, n).astype(np.float32) if weighted else None
    first = None if weight is None else weight[:n_before]
    before = label_centroids(X[:n_before], Y[:n_before], first, 5)
    moved = moved_centroids(before, X, Y, weight, n_before, 5, 2)
    wanted = label_centroids(X, Y, weight, 5)
    for array, other in zip((*csr_parts(moved[0]), moved[1]), (*csr_parts(wanted[0]), wanted[1]), strict=True):
        np.testing.assert_array_equal(array, other)
