"""`LabelEmbedding` against the dense singular value decomposition of the least squares prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from labelprism.features import RandomFourierFeatures
from labelprism.heads import LabelEmbedding, embedding

N, D, C = 400, 50, 30
SMALL_RIDGE = 1e-6


def planted(seed: int = 0, several: bool = True) -> tuple[np.ndarray, sp.csr_array]:
    """Labels that depend linearly on X, some more than others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.5)
    margins = X @ (rng.standard_normal((D, C)) * 0.8 ** np.arange(C)) + rng.standard_normal((N, C))
    Y = margins > 1.5 if several else margins == margins.max(axis=1, keepdims=True)
    return X.astype(np.float32), sp.csr_array(Y.astype(np.float32))


def exact(X: np.ndarray, Y: sp.csr_array, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all eigenvalues and eigenvectors of Y' P Y, and the regression of Y, with dense algebra in float64."""
    X, dense = X.astype(np.float64), Y.toarray().astype(np.float64)
    gram = X.T @ X + ridge * np.square(X).sum() / X.shape[1] * np.eye(X.shape[1])
    regression = np.linalg.solve(gram, X.T @ dense)
    values, vectors = np.linalg.eigh(dense.T @ X @ regression)
    return values[::-1], vectors[:, ::-1], regression


def angle(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the sine of the largest angle between two subspaces with orthonormal bases."""
    cosines = np.linalg.svd(found.astype(np.float64).T @ wanted, compute_uv=False)
    return float(np.sqrt(max(0.0, 1 - cosines.min() ** 2)))


@pytest.fixture(params=["exact", "iterative"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to fit least squares, on problems that are small enough for the first."""
    if request.param == "iterative":
        monkeypatch.setattr(embedding, "_EXACT_FEATURES", 0)
    return str(request.param)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("ridge", [SMALL_RIDGE, 1.0])
def test_recovers_the_top_subspace(way: str, sparse: bool, several: bool, ridge: float) -> None:
    X, Y = planted(several=several)
    rank = 4
    model = LabelEmbedding(rank, ridge=ridge, n_iterations=3, cg_iterations=60, random_state=0)
    model.fit(sp.csr_array(X) if sparse else X, Y)
    values, vectors, regression = exact(X, Y, ridge)
    np.testing.assert_allclose(model.eigenvalues_, values[:rank], rtol=1e-4)
    assert angle(model.embedding_, vectors[:, :rank]) < 1e-2
    np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(rank), atol=1e-5)
    np.testing.assert_allclose(model.projection_, regression @ model.embedding_, atol=1e-4)
    np.testing.assert_allclose(model.transform(X), X @ regression @ model.embedding_, atol=1e-3)


def test_subspace_is_that_of_the_svd_of_the_prediction() -> None:
    """Without a ridge, Y' P Y = (P Y)' (P Y): its eigenvectors are the right singular vectors of the prediction."""
    X, Y = planted()
    prediction = X @ np.linalg.lstsq(X.astype(np.float64), Y.toarray().astype(np.float64), rcond=None)[0]
    _, singular, right = np.linalg.svd(prediction, full_matrices=False)
    model = LabelEmbedding(5, ridge=SMALL_RIDGE, n_iterations=4, random_state=0).fit(X, Y)
    assert angle(model.embedding_, right[:5].T) < 1e-2
    np.testing.assert_allclose(np.sqrt(model.eigenvalues_), singular[:5], rtol=1e-3)


def test_all_directions_are_exact_at_once() -> None:
    X, Y = planted()
    model = LabelEmbedding(C, ridge=1.0, n_iterations=1, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.eigenvalues_, np.maximum(exact(X, Y, 1.0)[0], 0), rtol=1e-3, atol=1e-3)


def test_one_pass_is_close(way: str) -> None:
    X, Y = planted()
    model = LabelEmbedding(6, oversampling=10, random_state=0).fit(sp.csr_array(X), Y)
    values = exact(X, Y, 1.0)[0]
    assert model.eigenvalues_.sum() > 0.97 * values[:6].sum()


def test_blocks_of_columns_change_nothing(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = planted()
    whole = LabelEmbedding(8, random_state=0).fit(sp.csr_array(X), Y)
    monkeypatch.setattr(embedding, "_COLUMNS_PER_BLOCK", 8)
    pieces = LabelEmbedding(8, random_state=0).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(pieces.eigenvalues_, whole.eigenvalues_, rtol=1e-4)
    assert angle(pieces.embedding_, whole.embedding_) < 1e-2


@pytest.mark.parametrize("sparse", [False, True])
def test_same_seed_same_bits(way: str, sparse: bool) -> None:
    X, Y = planted()
    X = sp.csr_array(X) if sparse else X
    one, two = (LabelEmbedding(8, random_state=3, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2))
    for name in ("embedding_", "eigenvalues_", "projection_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    with threadpool_limits(1):
        alone = LabelEmbedding(8, random_state=3).fit(X, Y)
    np.testing.assert_array_equal(alone.projection_, one.projection_)


def test_y_is_never_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense Y would take 80 GB here."""
    n, c = 20_000, 1_000_000
    rng = np.random.default_rng(0)
    Y = sp.csr_array((np.ones(n, np.float32), rng.integers(c, size=n), np.arange(n + 1)), shape=(n, c))
    X = rng.standard_normal((n, 8)).astype(np.float32)
    model = LabelEmbedding(3, oversampling=2, random_state=0).fit(X, Y)
    assert model.embedding_.shape == (c, 3)
    assert model.transform(X[:5]).shape == (5, 3)


def test_embedding_helps_a_classifier() -> None:
    X, Y = planted(several=False)
    model = LabelEmbedding(10, random_state=0).fit(X[:300], Y[:300])
    numbers = Y.indices
    classifier = LogisticRegression(C=100, max_iter=1000).fit(model.transform(X[:300]), numbers[:300])
    assert classifier.score(model.transform(X[300:]), numbers[300:]) > 0.3


def test_in_a_pipeline_with_random_fourier_features() -> None:
    X, Y = planted()
    pipeline = make_pipeline(LabelEmbedding(5, random_state=0), RandomFourierFeatures(20, random_state=0))
    mapped = pipeline.fit_transform(sp.csr_array(X), Y)
    assert mapped.shape == (N, 20)
    assert mapped.dtype == np.float32
    np.testing.assert_array_equal(pipeline.transform(sp.csr_array(X)), mapped)


def test_rank_is_at_most_that_of_the_data() -> None:
    X, Y = planted()
    model = LabelEmbedding(1000, random_state=0).fit(X, Y)
    assert model.transform(X).shape == (N, C)
    model = LabelEmbedding(1000, random_state=0).fit(X[:, :7], Y)
    assert model.transform(X[:, :7]).shape == (N, 7)
    assert len(model.get_feature_names_out()) == 7


def test_odd_data() -> None:
    """Rows without labels, features that never occur, labels that never occur."""
    X, Y = planted()
    X[:, 3] = 0
    X[:10] = 0
    dense = Y.toarray()
    dense[:, 5] = 0
    dense[20:40] = 0
    for data in (X, sp.csr_array(X)):
        model = LabelEmbedding(5, random_state=0).fit(data, sp.csr_array(dense))
        assert np.isfinite(model.projection_).all()
        np.testing.assert_allclose(model.embedding_[5], 0, atol=1e-6)
    zero = LabelEmbedding(5, random_state=0).fit(np.zeros_like(X), Y)
    np.testing.assert_array_equal(zero.transform(X), 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 0}, "rank must be"),
        ({"rank": 2.0}, "rank must be"),
        ({"oversampling": -1}, "oversampling must be"),
        ({"n_iterations": -1}, "n_iterations must be"),
        ({"cg_iterations": 0}, "cg_iterations must be"),
        ({"ridge": 0}, "take a small one"),
        ({"ridge": "much"}, "ridge must be"),
        ({"ridge": float("nan")}, "ridge must be"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelEmbedding(**parameters).fit(*planted())


def test_wrong_input() -> None:
    X, Y = planted()
    with pytest.raises(ValueError, match="400 rows and Y has 399"):
        LabelEmbedding().fit(X, Y[:399])
    with pytest.raises(ValueError, match="nothing to learn"):
        LabelEmbedding().fit(X, sp.csr_array((N, C)))
    with pytest.raises(NotFittedError):
        LabelEmbedding().transform(X)
    with pytest.raises(ValueError, match="fitted with 50"):
        LabelEmbedding(2).fit(X, Y).transform(X[:, 1:])


def test_clone_keeps_parameters() -> None:
    model = clone(LabelEmbedding(7, ridge=0.5, random_state=1))
    assert model.get_params()["rank"] == 7
    assert model.get_params()["ridge"] == 0.5
