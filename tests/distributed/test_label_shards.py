"""What is cut by labels, without a cluster; and tasks that go to the scheduler together, on one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from chunked_problem import N_LABELS, topics
from distributed import wait

from labelprism.distributed.chunks import Chunk
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.label_shards import (
    Lists,
    balanced_ranges,
    examples_of,
    expected_examples,
    group_sums,
    lists_of,
    one_after_the_other,
    range_sums,
)
from labelprism.distributed.spread_tasks import total_of
from labelprism.distributed.sums import added

RANGE = (40, 90)


@pytest.fixture(scope="module")
def chunk() -> Chunk:
    X, Y = topics(300, 1)
    has_labels = sp.diags_array((np.arange(300) % 7 > 0).astype(np.float32))  # the first row has none
    Y = sp.csr_array(has_labels @ Y)
    Y.eliminate_zeros()
    return Chunk(X, Y, None)


def test_labels_of_a_range_are_columns(chunk: Chunk) -> None:
    inside = lists_of(chunk.Y).inside(RANGE)
    wanted = chunk.Y.toarray()[:, slice(*RANGE)]
    np.testing.assert_array_equal(inside.matrix(RANGE[1] - RANGE[0]).toarray(), wanted)
    rows = np.flatnonzero(wanted.any(axis=1))
    np.testing.assert_array_equal(inside.only(rows).matrix(RANGE[1] - RANGE[0]).toarray(), wanted[rows])
    twice = one_after_the_other([inside, inside]).matrix(RANGE[1] - RANGE[0])
    np.testing.assert_array_equal(twice.toarray(), np.concatenate([wanted, wanted]))


def test_rows_without_any_labels() -> None:
    nothing = Lists(np.zeros(4, np.int64), np.zeros(0, np.int32)).inside(RANGE)
    assert nothing.lengths.tolist() == [0, 0, 0]
    assert Lists(np.zeros(1, np.int64), np.zeros(0, np.int32)).inside(RANGE).lengths.size == 0


def test_examples_are_the_rows_that_a_range_asks_for(chunk: Chunk) -> None:
    candidates = lists_of(sp.csr_array(chunk.Y[::-1]))
    found = examples_of(chunk, candidates, RANGE)
    own, asked = (matrix.toarray()[:, slice(*RANGE)] for matrix in (chunk.Y, chunk.Y[::-1]))
    np.testing.assert_array_equal(found.rows, np.flatnonzero(own.any(axis=1) | asked.any(axis=1)))
    assert 0 < found.rows.size < 300
    np.testing.assert_array_equal(found.X.toarray(), chunk.X.toarray()[found.rows])
    np.testing.assert_array_equal(found.labels.matrix(50).toarray(), own[found.rows])
    np.testing.assert_array_equal(found.candidates.matrix(50).toarray(), asked[found.rows])


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3, 4]], [[0, 3], [1, 2, 4]], [[4], [3], [2], [1], [0]]])
def test_sums_of_groups_are_the_bits_of_sums_of_chunks(chunk: Chunk, groups: list[list[int]]) -> None:
    chunks = [Chunk(chunk.X[k::5] * np.float32(0.1 + k), chunk.Y[k::5], None) for k in range(5)]
    found = total_of([group_sums([chunks[k] for k in own], own, 5, RANGE) for own in groups], 5)
    wanted = added([range_sums(each, RANGE) for each in chunks])
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())


def test_a_sample_of_rows_tells_how_to_cut_labels() -> None:
    rng = np.random.default_rng(0)
    frequency = 1 / (np.arange(N_LABELS) + 5)
    labels = np.round(1000 * frequency)
    offered = rng.poisson(20_000 * frequency)  # how often each label is a candidate of all rows, a sample of it
    sample = rng.binomial(offered, 0.05)
    work = expected_examples(labels, sample, 50, 1000, 30)
    assert work.sum() == pytest.approx((labels + offered).sum(), rel=0.05)
    shares = [(labels + offered)[begin:end].sum() for begin, end in balanced_ranges(work, 4)]
    assert max(shares) < 1.3 * min(shares)
    blind = expected_examples(labels, None, 0, 1000, 30)
    assert blind.sum() == pytest.approx(labels.sum() + 30 * 1000)
    assert expected_examples(np.zeros(3), None, 0, 10, 5).tolist() == [0, 0, 0]


def test_tasks_that_are_sent_together(client: Any) -> None:
    cluster = Cluster(client)
    workers = list(cluster.workers())
    parts = [cluster.submit("chunks", "part", int, k, home=workers[k % 2]) for k in range(4)]
    wait(parts)
    homes = cluster.homes(parts)
    cluster.settle(parts, homes)
    added_up = cluster.submit_all("chunks", "add", _plus, [(part, [part, 10 * k]) for k, part in enumerate(parts)])
    assert cluster.fetch("chunks", added_up) == [0, 12, 24, 36]
    assert cluster.submit_all("chunks", "add", _plus, []) == []
    groups = cluster.groups(parts)
    assert sorted(number for _, numbers in groups for number in numbers) == [0, 1, 2, 3]
    assert all(homes[number] == home for home, numbers in groups for number in numbers)


def _plus(one: int, others: list[int]) -> int:
    return one + sum(others)
