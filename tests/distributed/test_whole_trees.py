"""Trees that are not spread, without a cluster: stem and shares give what one task would, to the bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from chunked_problem import topics

from labelprism.distributed.chunks import Chunk, joined
from labelprism.distributed.forest_join import TopEntry, joined_forest
from labelprism.distributed.hashing import root_key
from labelprism.distributed.whole_trees import (
    dealt,
    grown_share,
    grown_stem,
    growth_rows,
    nodes_of_stem,
    open_below,
    share_count,
)
from labelprism.filters import SpectralForest

N = 2500
CUTS = [0, 900, 900, 1400, N]  # one chunk is empty


@pytest.fixture(scope="module")
def rows() -> tuple[sp.csr_array, sp.csr_array]:
    return topics(N, 1)


def forest_of(n_trees: int) -> SpectralForest:
    return SpectralForest(n_trees=n_trees, stop_labels=10, random_state=0)


def grown(chunks: list[Chunk], forest: SpectralForest, n_shares: int, mean_weight: float) -> SpectralForest:
    """The forest that tasks on these chunks make, one after the other."""
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    pieces = [growth_rows(chunk, mean_weight) for chunk in chunks]
    keys = [root_key(seed, tree) for tree in range(forest.n_trees)]
    parts = []
    for key in keys:
        stem = grown_stem(joined(pieces), key, forest, seed, n_shares)
        shares = [grown_share(pieces, open_below(stem), own, n_shares, forest, seed) for own in range(n_shares)]
        parts += [*shares[::-1], nodes_of_stem(stem)]
    top = [TopEntry(key, (-1, -1), None, None) for key in keys]
    return joined_forest(top, parts, forest, (chunks[0].X.shape[1], chunks[0].Y.shape[1]), mean_weight)


@pytest.mark.parametrize("n_shares", [1, 2, 8, 60])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_stem_and_shares_give_the_bits_of_a_local_forest(rows: Any, n_shares: int, is_weighted: bool) -> None:
    X, Y = rows
    weight = np.random.default_rng(0).integers(1, 4, N).astype(np.float32) if is_weighted else None
    mean_weight = 1.0 if weight is None else float(weight.sum(dtype=np.float64)) / N
    chunks = [Chunk(X[a:b], Y[a:b], None if weight is None else weight[a:b]) for a, b in pairwise(CUTS)]
    found = grown(chunks, forest_of(2), n_shares, mean_weight)
    wanted = forest_of(2).fit(X, Y, weight)
    for name in ("children_", "bias_", "noise_", "leaf_nodes_", "leaf_mass_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    for name in ("routers_", "leaf_candidates_"):
        assert (getattr(found, name) != getattr(wanted, name)).nnz == 0, name


def test_a_stem_ends_when_its_nodes_can_be_dealt_out(rows: Any) -> None:
    stem = grown_stem(Chunk(*rows, None), root_key(0, 0), forest_of(1), 0, 8)
    assert 1 <= stem.depth < 6
    assert stem.nodes.sizes.max() <= N / 4
    shares = dealt(stem.nodes.sizes, 8)
    loads = np.bincount(shares, stem.nodes.sizes, minlength=8)
    assert loads.max() <= max(2 * loads.mean(), stem.nodes.sizes.max())


def test_small_trees_are_not_cut() -> None:
    assert share_count(300) == 1
    assert share_count(2500) == 5
    assert share_count(10**6) == 8


def test_a_forest_of_leaves() -> None:
    """Fewer rows than a node wants: a stem has one node, and nothing is left for shares."""
    X, Y = topics(40, 2)
    found = grown([Chunk(X, Y, None)], forest_of(2), 3, 1.0)
    assert found.children_.tolist() == [-1, -1]
    np.testing.assert_array_equal(found.leaf_mass_, forest_of(2).fit(X, Y).leaf_mass_)
