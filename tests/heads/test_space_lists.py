"""Candidates that a space finds by its lists and keeps: against all cosines, few labels and many, bad input."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core
from labelprism._arrays import csr_parts
from labelprism.heads.label_space import (
    LIST_LABELS,
    WIDTH,
    SievingSpace,
    Vectors,
    as_bytes,
    as_floats,
    joined_lists,
    label_lists,
    space_cosines,
)


def unit(vectors: Any) -> Any:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def placed(n: int, d: int, c: int, seed: int) -> tuple[SievingSpace, sp.csr_array, sp.csr_array]:
    """A space of labels around a few centres, rows, the first one empty, and candidates."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(c // 50, 1), WIDTH))
    labels = centres[rng.integers(len(centres), size=c)] + 0.5 * rng.standard_normal((c, WIDTH))
    features = as_bytes(rng.standard_normal((d, WIDTH)).astype(np.float32))
    vectors = as_bytes(unit(labels).astype(np.float32))
    X = sp.csr_array((rng.random((n, d)) < 0.3) * rng.uniform(0.1, 1, (n, d)), dtype=np.float32)
    X.data[: X.indptr[1]] = 0
    X.eliminate_zeros()
    found = sp.csr_array(rng.random((n, c)) < min(5 / c, 0.5), dtype=np.float32)
    return SievingSpace(features, vectors, label_lists(vectors, seed)), X, found


def all_cosines(space: SievingSpace, X: sp.csr_array) -> Any:
    n, c = X.shape[0], space.labels.scale.size
    everything = c * np.arange(n + 1), np.tile(np.arange(c, dtype=np.int32), n)
    return space_cosines(space.features, space.labels, X, *everything).reshape(n, c)


def rows_of(indptr: Any, labels: Any) -> list[list[int]]:
    return [labels[a:b].tolist() for a, b in pairwise(indptr)]


@given(
    st.integers(1, 12), st.integers(2, 9), st.integers(1, 300), st.integers(0, 6), st.integers(1, 9), st.integers(0, 99)
)
def test_the_nearest_are_kept(n: int, d: int, c: int, n_near: int, n_kept: int, seed: int) -> None:
    space, X, found = placed(n, d, c, seed)  # of four lists at most, so all labels are looked at
    given_rows = rows_of(found.indptr, found.indices)
    for row, (kept, given_labels) in enumerate(
        zip(rows_of(*space.kept(X, *csr_parts(found)[:2], n_near, n_kept)), given_rows, strict=True)
    ):
        assert kept == sorted(set(kept))
        cosines = all_cosines(space, X)[row]
        if not X.indptr[row + 1] > X.indptr[row]:
            assert kept == given_labels  # a row without a place finds none, and loses none
            continue
        nearest = np.argsort(-cosines)[:n_near]
        if (np.abs(cosines[nearest]) < 1e-2).any():
            continue  # rounding decides whether such a label is found
        # Rows are looked for in few steps: of labels about as near as the last one some are found.
        border = cosines[nearest[-1]] if nearest.size else np.inf
        found_cosines = np.sort(cosines[kept])[::-1]
        surely, perhaps = (
            np.sort(cosines[np.union1d(given_labels, near).astype(int)])[::-1][:n_kept]
            for near in (
                np.flatnonzero(cosines > max(border + 1e-2, 0)),
                np.flatnonzero(cosines > max(border - 1e-2, 0)),
            )
        )
        assert surely.size <= found_cosines.size <= perhaps.size
        assert (found_cosines[: surely.size] >= surely - 1e-2).all()
        assert (found_cosines <= perhaps[: found_cosines.size] + 1e-2).all()
        assert (cosines[list(set(kept) - set(given_labels))] > 0).all()


def test_lists_find_most_of_the_nearest_among_many() -> None:
    space = placed(1, 1, 20_000, 0)[0]
    axes = as_bytes(np.eye(WIDTH, dtype=np.float32))
    rng = np.random.default_rng(1)
    rows = as_floats(space.labels)[rng.integers(20_000, size=200)] + 0.05 * rng.standard_normal((200, WIDTH))
    rows[0] = 0
    space, X = space._replace(features=axes), sp.csr_array(rows.astype(np.float32))
    assert space.lists is not None
    sizes = np.bincount(space.lists)
    assert sizes.max() <= 4 * LIST_LABELS
    assert sizes.min() >= 1
    nothing = np.zeros(201, np.int64), np.zeros(0, np.int32)
    near = rows_of(*space.kept(X, *nothing, 10, 1000))
    cosines = all_cosines(space, X)
    shares = [len(set(own) & set(np.argsort(-cosines[i])[:10])) / 10 for i, own in enumerate(near) if i > 0]
    assert np.mean(shares) > 0.8  # of some 210 lists four are looked at
    assert near[0] == []


def test_fewer_lists_find_fewer_of_the_nearest() -> None:
    space, X, _ = placed(300, 30, 5000, 5)
    nothing = np.zeros(301, np.int64), np.zeros(0, np.int32)
    cosines = all_cosines(space, X)
    shares = []
    for most_lists in (1, 2, 16):
        near = rows_of(*space.kept(X, *nothing, 10, 10, most_lists=most_lists))
        own_lists = [set(space.lists[labels].tolist()) for labels in near]  # type: ignore[index]
        assert max(map(len, own_lists)) == min(most_lists, 4)
        shares.append(np.mean([len(set(own) & set(np.argsort(-cosines[i])[:10])) for i, own in enumerate(near)]))
    assert shares[0] < shares[1] < shares[2]
    with pytest.raises(ValueError, match="most_lists must be at least 1"):
        space.kept(X, *nothing, 10, 10, most_lists=0)


def test_rows_that_are_looked_up_together_find_what_each_finds_alone() -> None:
    space, X, found = placed(40, 30, 3000, 6)
    together = rows_of(*space.kept(X, *csr_parts(found)[:2], 8, 6))
    for row in range(40):
        alone = space.kept(X[[row]], *csr_parts(sp.csr_array(found[[row]]))[:2], 8, 6)
        assert alone[1].tolist() == together[row]


def test_the_same_bits_for_all_threads_and_processors(instruction_sets: list[str]) -> None:
    results = []
    for name in instruction_sets:
        _core.use_instruction_set(name)
        for n_threads in (1, 2, 3):
            space, X, found = placed(150, 30, 5000, 1)
            np.testing.assert_array_equal(label_lists(space.labels, 1, n_threads), space.lists)
            results.append((space.lists, *space.kept(X, *csr_parts(found)[:2], 8, 10, n_threads)))
    for other in results[1:]:
        for array, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(array, wanted)


def test_labels_without_rows_are_never_found() -> None:
    space, X, _ = placed(20, 10, 400, 2)
    space.labels.steps[::2] = 0
    space.labels.scale[::2] = 0
    nothing = np.zeros(21, np.int64), np.zeros(0, np.int32)
    assert (space.kept(X, *nothing, 30, 100)[1] % 2 == 1).all()
    none_at_all = space._replace(labels=Vectors(np.zeros_like(space.labels.steps), np.zeros_like(space.labels.scale)))
    assert none_at_all.kept(X, *nothing, 30, 100)[1].size == 0


def test_labels_that_are_all_alike_are_dealt_out_to_lists_of_a_bounded_length() -> None:
    steps = np.zeros((5000, WIDTH), np.int8)
    steps[:, 3] = 127
    scale = np.full(5000, 1 / 127, np.float32)
    scale[4900:] = 0  # without rows: in a list of their own
    lists = label_lists(Vectors(steps, scale), 0)
    sizes = np.bincount(lists)
    assert sizes[:-1].max() <= 4 * LIST_LABELS
    assert sizes.min() >= 1
    assert (lists[4900:] == lists.max()).all()
    assert (lists[:4900] < lists.max()).all()
    assert label_lists(Vectors(steps[:1], scale[:1]), 0).tolist() == [0]
    assert label_lists(Vectors(steps[:0], scale[:0]), 0).size == 0
    assert not label_lists(Vectors(steps[4900:], scale[4900:]), 0).any()


def test_new_labels_join_the_list_of_their_neighbour() -> None:
    space, _, _ = placed(2, 5, 1000, 3)
    assert space.lists is not None
    before = Vectors(space.labels.steps, space.labels.scale.copy())
    before.scale[10] = 0  # had no rows so far
    twins = np.array([500, 7, 800])  # of the label without rows and of two new ones; the last one stays without any
    steps = np.concatenate([space.labels.steps, np.zeros((3, WIDTH), np.int8)])
    steps[[10, 1000, 1001]] = space.labels.steps[twins]
    scale = np.concatenate([space.labels.scale, np.zeros(3, np.float32)])
    scale[[10, 1000, 1001]] = space.labels.scale[twins]
    after = Vectors(steps, scale)
    joined = joined_lists(space.lists, before, after)
    assert joined.dtype == np.int32
    assert joined.size == 1003
    np.testing.assert_array_equal(joined[[10, 1000, 1001]], space.lists[twins])
    others = np.setdiff1d(np.arange(1000), [10])
    np.testing.assert_array_equal(joined[others], space.lists[others])
    assert 0 <= joined[1002] <= space.lists.max()
    np.testing.assert_array_equal(joined_lists(space.lists, before, after, 3), joined)
    nothing_known = joined_lists(space.lists, before._replace(scale=np.zeros(1000, np.float32)), after)
    np.testing.assert_array_equal(nothing_known[:1000], space.lists)


def test_bad_input_is_refused() -> None:
    space, X, found = placed(10, 5, 40, 4)
    asked = csr_parts(found)[:2]
    assert space.lists is not None
    for lists in (space.lists[1:], space.lists - 1, space.lists + 40, np.full(40, 2**31 - 1, np.int32)):
        with pytest.raises(ValueError, match="every label must have a list"):
            space._replace(lists=lists.astype(np.int32)).kept(X, *asked, 1, 5)
    for n_near, n_kept in ((1, 0), (-1, 5)):
        with pytest.raises(ValueError, match="n_kept must be at least 1"):
            space.kept(X, *asked, n_near, n_kept)
    with pytest.raises(ValueError, match="0 where there are no lists"):
        space._replace(lists=None).kept(X, *asked, 1, 5)
    with pytest.raises(ValueError, match="the same rows"):
        space.kept(X[:5], *asked, 1, 5)
    kept = rows_of(*space._replace(lists=None).kept(X, *asked, 0, 2))
    assert max(len(row) for row, own in zip(kept, np.diff(X.indptr), strict=True) if own) == 2
    assert np.isfinite(as_floats(space.labels)).all()
