"""What centroids and votes of features bring in beside the forest's candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism.recipe import DefaultRecipe, RecipeSettings, fit_default

FEW: dict[str, Any] = {"retrieval_from_labels": 0}  # the data is small


def rows_of_many_features() -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(1)
    centre = rng.random((40, 60)) ** 4
    label = rng.integers(40, size=500)
    X = sp.csr_array(normalize(centre[label] * rng.uniform(0.2, 1, (500, 60))).astype(np.float32))
    return X, sp.csr_array(np.eye(40, dtype=np.float32)[label])


def strongest(x: Any) -> Any:
    """Return a row with its 16 largest values alone."""
    return np.where(x >= np.sort(x)[-16], x, 0)


def retrieved(model: DefaultRecipe, X: sp.csr_array) -> list[set[int]]:
    """Return the candidates of rows that the forest did not bring in."""
    candidates, reached = model.candidates(X), model.forest_.candidates(X, 1)
    return [set(candidates[[i]].indices.tolist()) - set(reached[[i]].indices.tolist()) for i in range(X.shape[0])]


def test_near_centroids_are_those_of_the_strongest_features() -> None:
    X, Y = rows_of_many_features()
    settings = RecipeSettings(forest_candidates=1, training_candidates=1, vote_candidates=0, longest_list=40, **FEW)
    model = fit_default(X, Y, preset=settings)
    others = 0
    for x, offered in zip(X[:50].toarray(), retrieved(model, X[:50]), strict=True):
        cosines = model.centroids_ @ strongest(x)
        nearest = np.argsort(-cosines)[:10]
        assert cosines[list(offered)].min() >= cosines[nearest[-1]] - 1e-3
        others += set(nearest.tolist()) != set(np.argsort(-(model.centroids_ @ x))[:10].tolist())
    assert others > 25, "the weak features would make no difference here"


@pytest.mark.parametrize("longest", [3, 40])
def test_features_divide_their_votes_as_they_occur(longest: int) -> None:
    X, Y = rows_of_many_features()
    settings = RecipeSettings(
        forest_candidates=1,
        training_candidates=1,
        centroid_candidates=0,
        vote_candidates=6,
        longest_vote_list=longest,
        **FEW,
    )
    model = fit_default(X, Y, preset=settings)
    shares = (Y.T @ X).toarray()  # of all rows: those that were held out joined
    shares /= shares.sum(axis=0)
    shares[shares < -np.sort(-shares, axis=0)[longest - 1]] = 0
    beside_cosine = 0
    for x, offered in zip(X[:50].toarray(), retrieved(model, X[:50]), strict=True):
        votes = shares @ strongest(x)
        order = np.argsort(-votes)
        assert 5 <= len(offered) <= 6
        assert votes[list(offered)].min() >= votes[order[5]] - 1e-3
        beside_cosine += set(order[:6].tolist()) != set(np.argsort(-(model.centroids_ @ strongest(x)))[:6].tolist())
    assert beside_cosine > 25, "the nearest centroids would be the same"
