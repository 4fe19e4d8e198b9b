"""Clusters of labels and lists of classes: against plain twins, the same for every n_threads, and awkward input."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism import _core
from labelprism._arrays import csr_parts
from labelprism.heads import label_clusters as module
from labelprism.heads.label_clusters import LabelClusters, cluster_part, label_clusters, mean_of_classes

MASK = 2**64 - 1


def unit_rows(c: int, d: int, seed: int = 0, density: float = 0.3) -> sp.csr_array:
    """Random unit rows; some are empty if they are sparse enough."""
    dense = sp.random_array((c, d), density=density, rng=np.random.default_rng(seed)).toarray()
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    return sp.csr_array(dense.astype(np.float32))


def sorted_lists(lists: list[set[int]]) -> tuple[Any, Any]:
    indptr = np.cumsum([0] + [len(row) for row in lists], dtype=np.int64)
    return indptr, np.array([label for row in lists for label in sorted(row)], np.int32)


# ------------------------------------------------------------------------------------------------------------- the twin


def scramble(x: int) -> int:
    """As scramble.hpp has it."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def unit(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else vector


def halves(centre: npt.NDArray[np.float64], labels: list[int], key: int) -> tuple[list[int], list[int]]:
    one, other = (key >> 32) * len(labels) >> 32, (scramble(key) >> 32) * (len(labels) - 1) >> 32
    other += other >= one
    direction = unit(centre[labels[other]]) - unit(centre[labels[one]])
    lower: list[int] = []
    for round_ in range(10):
        before = set(lower)
        ranked = sorted(labels, key=lambda label: (float(centre[label] @ direction), label))
        lower, upper = sorted(ranked[: len(labels) // 2]), sorted(ranked[len(labels) // 2 :])
        n_moved = 2 * len(set(lower) - before)  # as many go to either side
        if round_ > 0 and 128 * n_moved <= len(labels):
            break
        direction = unit(centre[upper].sum(axis=0)) - unit(centre[lower].sum(axis=0))
    return lower, upper


def twin_clusters(centre: npt.NDArray[np.float64], n_clusterings: int, most: int, seed: int) -> LabelClusters:
    found = np.zeros((n_clusterings, centre.shape[0]), np.int32)
    leaves: list[list[int]] = []

    def split(labels: list[int], clustering: int, number: int) -> None:
        if len(labels) <= most:
            found[clustering, labels] = len(leaves)
            leaves.append(labels)
            return
        key = scramble(scramble(seed ^ scramble(clustering)) ^ number)
        lower, upper = halves(centre, labels, key)
        split(lower, clustering, 2 * number)
        split(upper, clustering, 2 * number + 1)

    for clustering in range(n_clusterings):
        split(list(range(centre.shape[0])), clustering, 1)
    return LabelClusters(found, len(leaves))


def twin_classes(
    labels: list[set[int]], own: list[set[int]], n_seen: int, clusters: LabelClusters
) -> tuple[list[int], list[int]]:
    indptr, classes = [0], list[int]()
    c, of_label = clusters.n_labels, clusters.of_label
    for row, (listed, has) in enumerate(zip(labels, own, strict=True)):
        of_row = set(listed)
        for k in range(clusters.n_clusterings):
            met = {of_label[k, label] for label in has}
            of_row |= {c * (1 + k) + label for label in listed if row >= n_seen or of_label[k, label] in met}
            of_row |= {c * (1 + clusters.n_clusterings) + int(of_label[k, label]) for label in listed}
        classes += sorted(of_row)
        indptr.append(len(classes))
    return indptr, classes


# ------------------------------------------------------------------------------------------------------------- clusters


@pytest.mark.parametrize(("c", "most"), [(2, 1), (7, 2), (33, 4), (60, 7), (64, 64), (65, 64), (1500, 100)])
@pytest.mark.parametrize("seed", [0, 1, 2**40 + 3])
def test_clusters_are_those_of_the_twin(c: int, most: int, seed: int) -> None:
    centre = unit_rows(c, 12, seed=c)
    found = label_clusters(centre, 3, most, seed)
    expected = twin_clusters(centre.toarray().astype(np.float64), 3, most, seed)
    assert found.n_clusters == expected.n_clusters
    np.testing.assert_array_equal(found.of_label, expected.of_label)


@given(st.integers(1, 80), st.integers(1, 20), st.integers(1, 3), st.integers(0, 2**64 - 1))
def test_clusters_are_balanced_and_numbered_through(c: int, most: int, n_clusterings: int, seed: int) -> None:
    found = label_clusters(unit_rows(c, 9, seed=c, density=0.15), n_clusterings, most, seed)
    assert found.of_label.shape == (n_clusterings, c)
    assert found.of_label.dtype == np.int32
    each = found.n_clusters // n_clusterings
    assert each * n_clusterings == found.n_clusters == n_clusterings * module._n_clusters(c, most)
    for k, row in enumerate(found.of_label):
        np.testing.assert_array_equal(np.unique(row), k * each + np.arange(each))
        sizes = np.unique(row, return_counts=True)[1]
        assert sizes.max() <= most
        # All sets of a level differ by one at most; a set of one more than most_labels is halved once more.
        assert sizes.min() >= sizes.max() - 1 or sizes.min() >= (most + 1) // 2


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_change_nothing(n_threads: int) -> None:
    centre = unit_rows(700, 300, density=0.05)
    one = label_clusters(centre, 3, 10, 4)
    many = label_clusters(centre, 3, 10, 4, n_threads)
    assert one.n_clusters == many.n_clusters
    np.testing.assert_array_equal(one.of_label, many.of_label)


def test_clusterings_and_seeds_differ() -> None:
    centre = unit_rows(200, 50)
    first = label_clusters(centre, 2, 20, 0)
    groups = first.of_label - first.of_label.min(axis=1, keepdims=True)
    assert (groups[0] != groups[1]).any()
    assert (first.of_label != label_clusters(centre, 2, 20, 1).of_label).any()
    np.testing.assert_array_equal(first.of_label[:1], label_clusters(centre, 1, 20, 0).of_label)


def test_planted_groups_are_found() -> None:
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(2), 32))
    dense = np.zeros((64, 40))
    dense[np.arange(64), 20 * group] = 1.0  # what a group has in common
    dense[np.arange(64), 20 * group + rng.integers(1, 20, 64)] = 0.5
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    centre = sp.csr_array(dense.astype(np.float32))
    for seed in range(20):
        found = label_clusters(centre, 3, 32, seed).of_label
        for row in found - found.min(axis=1, keepdims=True):
            assert (row == group).all() or (row == 1 - group).all()


def test_labels_without_a_centroid_are_spread_over_balanced_clusters() -> None:
    dense = unit_rows(40, 10).toarray()
    dense[::2] = 0
    found = label_clusters(sp.csr_array(dense), 2, 5, 0)
    np.testing.assert_array_equal(np.bincount(found.of_label.ravel()), 5)
    nothing = label_clusters(sp.csr_array((40, 10), dtype=np.float32), 2, 5, 0)
    np.testing.assert_array_equal(nothing.of_label[0], np.arange(40) // 5)


@pytest.mark.parametrize(("c", "d", "most"), [(1, 3, 1), (1, 3, 9), (5, 4, 5), (5, 4, 2**31 - 1), (3, 0, 7)])
def test_few_labels_are_one_cluster(c: int, d: int, most: int) -> None:
    centre = unit_rows(c, d) if d else sp.csr_array((c, 0), dtype=np.float32)
    found = label_clusters(centre, 3, most, 0, 2)
    np.testing.assert_array_equal(found.of_label, np.arange(3)[:, None] + np.zeros((1, c)))
    assert found.n_clusters == 3


def test_no_features_and_no_labels() -> None:
    found = label_clusters(sp.csr_array((6, 0), dtype=np.float32), 1, 2, 0)
    np.testing.assert_array_equal(found.of_label, [[0, 1, 1, 2, 3, 3]])
    none = LabelClusters(*_core.cluster_labels(*csr_parts(sp.csr_array((0, 4), dtype=np.float32)), 4, 2, 3, 0))
    assert (none.of_label.shape, none.n_clusters, none.n_classes) == ((2, 0), 0, 0)


def test_clusters_are_made_larger_when_there_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLUSTERS", 20)
    found = label_clusters(unit_rows(100, 10), 2, 3, 0)
    assert found.n_clusters == 16  # 13 labels a cluster; 12 would give 10 or more clusters in each clustering
    assert np.bincount(found.of_label.ravel()).max() == 13


def test_wrong_clusterings_are_refused() -> None:
    centre = unit_rows(5, 4)
    for name, arguments in {"n_clusterings": (0, 2, 0), "most_labels": (1, 0, 0), "seed": (1, 2, -1)}.items():
        with pytest.raises(ValueError, match=name):
            label_clusters(centre, *arguments)
    of_small_labels = label_clusters(sp.csr_array(centre * np.float32(9)), 1, 2, 0)  # whose norms were rounded
    assert of_small_labels.n_clusters == 3
    with pytest.raises(ValueError, match="norm 1"):
        label_clusters(sp.csr_array(np.full((2, 2), np.nan, np.float32)), 1, 1, 0)
    parts = csr_parts(centre)
    with pytest.raises(ValueError, match="out of range"):
        _core.cluster_labels(*parts, 1, 1, 2, 0)
    with pytest.raises(ValueError, match="at least 1"):
        _core.cluster_labels(*parts, 4, 1, 0, 0)
    with pytest.raises(ValueError, match="too many labels"):
        _core.cluster_labels(*parts, 4, 2**30, 2, 0)


# ----------------------------------------------------------------------------------------------------- lists of classes


@st.composite
def class_problems(draw: st.DrawFn) -> tuple[list[set[int]], list[set[int]], int, LabelClusters]:
    """Candidates and labels of rows, the number of rows that are seen, and clusters."""
    c, n = draw(st.integers(1, 12)), draw(st.integers(0, 6))
    lists = st.lists(st.sets(st.integers(0, c - 1)), min_size=n, max_size=n)
    rows, first = [], 0
    for _ in range(draw(st.integers(1, 3))):
        each = draw(st.integers(1, 100))  # beyond a word of bits
        rows.append(draw(st.lists(st.integers(first, first + each - 1), min_size=c, max_size=c)))
        first += each
    return draw(lists), draw(lists), draw(st.integers(0, n)), LabelClusters(np.array(rows, np.int32), first)


@given(class_problems(), st.sampled_from([1, 2, 5]))
def test_classes_are_those_of_the_twin(
    given_problem: tuple[list[set[int]], list[set[int]], int, LabelClusters], n_threads: int
) -> None:
    candidates, labels, n_seen, clusters = given_problem
    of_labels = clusters.label_classes(*sorted_lists(labels), n_threads)
    of_candidates = clusters.candidate_classes(*sorted_lists(candidates), *sorted_lists(labels), n_seen, n_threads)
    for found, expected in (
        (of_labels, twin_classes(labels, labels, 0, clusters)),
        (of_candidates, twin_classes(candidates, labels, n_seen, clusters)),
    ):
        assert (found[0].dtype, found[1].dtype) == (np.int64, np.int32)
        assert (found[0].tolist(), found[1].tolist()) == expected
        assert (found[1] < clusters.n_classes).all()


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_classes_of_many_rows_and_clusters(n_threads: int) -> None:
    rng = np.random.default_rng(0)
    c, n = 9000, 700
    # Clusters beyond 64 words of 64 bits.
    clusters = LabelClusters(np.array([rng.integers(0, 9000, c), rng.integers(9000, 9100, c)], np.int32), 9100)
    candidates, labels = ([set(rng.integers(0, c, 30).tolist()) for _ in range(n)] for _ in range(2))
    found = clusters.candidate_classes(*sorted_lists(candidates), *sorted_lists(labels), 600, n_threads)
    assert (found[0].tolist(), found[1].tolist()) == twin_classes(candidates, labels, 600, clusters)


def test_wrong_lists_are_refused() -> None:
    clusters = LabelClusters(np.array([[0, 1, 1]], np.int32), 2)
    lists = sorted_lists([{0, 2}, {1}])
    with pytest.raises(ValueError, match="out of range"):
        clusters.label_classes(*sorted_lists([{3}]))
    with pytest.raises(ValueError, match="a cluster is out of range"):
        LabelClusters(clusters.of_label, 1).label_classes(*lists)
    with pytest.raises(ValueError, match="a cluster is out of range"):
        LabelClusters(clusters.of_label - 1, 2).label_classes(*lists)
    with pytest.raises(ValueError, match="same number of rows"):
        clusters.candidate_classes(*lists, *sorted_lists([{0}]), 0)
    for n_seen in (-1, 3):
        with pytest.raises(ValueError, match="n_seen"):
            clusters.candidate_classes(*lists, *lists, n_seen)
    with pytest.raises(ValueError, match="too many classes: 3 labels in 1 clusterings"):
        LabelClusters(clusters.of_label, 2**31 - 6).label_classes(*lists)
    with pytest.raises(ValueError, match="clusters"):
        LabelClusters(clusters.of_label, 2**31).label_classes(*lists)
    assert LabelClusters(clusters.of_label, 2**31 - 7).n_classes == 2**31 - 1


# -------------------------------------------------------------------------------------------------- weights of classes


@pytest.mark.parametrize("n_clusterings", [1, 2, 3])
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_means_are_those_of_dense_weights(n_clusterings: int, share: float) -> None:
    c, d, rng = 10, 15, np.random.default_rng(0)
    clusters = label_clusters(unit_rows(c, 8), n_clusterings, 3, 0)
    n_classes = c * (1 + n_clusterings) + clusters.n_clusters
    assert clusters.n_classes == n_classes
    weights = sp.random_array((n_classes, d), density=0.4, rng=rng, dtype=np.float32, format="csr")
    bias = rng.standard_normal(n_classes).astype(np.float32)
    stacked = weights.toarray()[: c * (1 + n_clusterings)].reshape(1 + n_clusterings, c, d)
    expected = share * stacked[0] + (1 - share) * stacked[1:].mean(axis=0)
    for drop in (0.0, 0.2):
        mean, mean_bias = mean_of_classes(weights, bias, clusters, share, drop)
        assert mean.has_sorted_indices
        assert (mean.dtype, mean_bias.dtype, mean.indices.dtype) == (np.float32, np.float32, np.int32)
        assert (mean.data != 0).all()
        np.testing.assert_allclose(mean.toarray(), np.where(np.abs(expected) >= drop, expected, 0), rtol=1e-3)
    of_parts = bias[: c * (1 + n_clusterings)].reshape(-1, c)
    np.testing.assert_allclose(mean_bias, share * of_parts[0] + (1 - share) * of_parts[1:].mean(axis=0), atol=1e-6)
    part, part_bias = cluster_part(weights, bias, clusters)
    np.testing.assert_array_equal(part.toarray(), weights.toarray()[c * (1 + n_clusterings) :])
    np.testing.assert_array_equal(part_bias, bias[c * (1 + n_clusterings) :])
    assert not np.shares_memory(part.data, weights.data)


def test_weights_of_other_classes_are_refused() -> None:
    clusters = LabelClusters(np.zeros((1, 3), np.int32), 1)
    weights = sp.csr_array((7, 2), dtype=np.float32)
    mean, bias = mean_of_classes(weights, np.ones(7, np.float32), clusters)
    assert (mean.shape, mean.nnz, bias.tolist()) == ((3, 2), 0, [1, 1, 1])
    for function in (mean_of_classes, cluster_part):
        with pytest.raises(ValueError, match="each of the 7 classes"):
            function(weights, np.ones(6, np.float32), clusters)
        with pytest.raises(ValueError, match="each of the 7 classes"):
            function(weights[:6], np.ones(7, np.float32), clusters)
