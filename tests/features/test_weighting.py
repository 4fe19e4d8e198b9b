"""The Hellinger map and tf-idf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelprism.features import HellingerMap, RandomFourierFeatures, Tfidf

MATRICES = hnp.arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(-9, 9, width=32))


@parametrize_with_checks([HellingerMap(), Tfidf(), RandomFourierFeatures(n_components=20, random_state=0)])
def test_scikit_learn_contract(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


@given(X=MATRICES, sparse=st.booleans())
def test_hellinger(X: np.ndarray, sparse: bool) -> None:
    mapped = HellingerMap().fit_transform(sp.csr_array(X) if sparse else X)
    assert mapped.dtype == np.float32
    dense = mapped.toarray() if sparse else mapped
    sums = np.abs(X).astype(np.float64).sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.where(sums > 0, np.sign(X) * np.sqrt(np.abs(X) / sums), 0)
    np.testing.assert_allclose(dense, expected, rtol=1e-5, atol=1e-7)
    norms = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(norms, sums[:, 0] > 0, atol=1e-5)


def test_hellinger_leaves_its_input_alone_and_survives_huge_values() -> None:
    X = sp.csr_array(np.array([[3e38, 3e38, 0], [0, 0, 0], [1e-30, 0, 3e-30]], np.float32))
    before = X.toarray()
    mapped = HellingerMap().fit_transform(X).toarray()
    np.testing.assert_array_equal(X.toarray(), before)
    np.testing.assert_allclose(mapped, [[0.5**0.5, 0.5**0.5, 0], [0, 0, 0], [0.5, 0, 0.75**0.5]], rtol=1e-5)


def test_tfidf_is_scikit_learns_with_sublinear_counts() -> None:
    counts = sp.random_array((40, 12), density=0.3, rng=np.random.default_rng(0), dtype=np.float32)
    counts.data[:] = np.ceil(9 * counts.data)
    ours, theirs = Tfidf().fit(counts), TfidfTransformer(sublinear_tf=True).fit(counts)
    np.testing.assert_array_equal(ours.transform(counts).toarray(), theirs.transform(counts).toarray())
    assert ours.transform(counts.astype(np.float32)).dtype == np.float32


def test_tfidf_refuses_signed_counts() -> None:
    X = sp.csr_array(np.array([[1.0, -1.0]], np.float32))
    with pytest.raises(ValueError, match="sublinear_tf=False"):
        Tfidf().fit_transform(X)
    assert np.isfinite(Tfidf(sublinear_tf=False).fit_transform(X).data).all()


def gaussian_kernel(X: np.ndarray, gamma: float) -> np.ndarray:
    return np.asarray(np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1)))


@pytest.mark.parametrize("sparse", [False, True])
def test_fourier_features_approximate_the_kernel(sparse: bool) -> None:
    X = np.random.default_rng(0).standard_normal((30, 7)).astype(np.float32)
    given_X = sp.csr_array(X) if sparse else X
    Z = RandomFourierFeatures(20_000, gamma=0.1, random_state=1).fit_transform(given_X)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z @ Z.T, gaussian_kernel(X, 0.1), atol=0.03)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-5)


def test_fourier_features_of_sparse_and_dense_input_agree_and_threads_do_not_matter() -> None:
    X = sp.random_array((3000, 40), density=0.2, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    one = RandomFourierFeatures(64, random_state=3, n_jobs=1).fit(X)
    two = RandomFourierFeatures(64, random_state=3, n_jobs=2).fit(X)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    np.testing.assert_allclose(one.transform(X), one.transform(X.toarray()), atol=1e-5)
    assert one.gamma_ == pytest.approx(1 / (40 * X.toarray().var()), rel=1e-5)


@pytest.mark.parametrize("parameters", [{"n_components": 0}, {"gamma": -1.0}, {"gamma": np.nan}])
def test_bad_parameters(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        RandomFourierFeatures(**parameters).fit(np.ones((2, 2)))  # type: ignore[arg-type]


def with_repeats(form: Any) -> Any:
    """[[4, 4], [0, 2]] as (0, 0) = 1, (0, 0) = 3, (0, 1) = 4, and the rest with a stored zero."""
    if form is sp.csr_array:
        return form((np.array([1.0, 3, 4, 0, 2]), np.array([0, 0, 1, 0, 1]), np.array([0, 3, 5])), shape=(2, 2))
    if form is sp.csc_array:
        return form((np.array([1.0, 3, 0, 4, 2]), np.array([0, 0, 1, 0, 1]), np.array([0, 3, 5])), shape=(2, 2))
    return form((np.array([1.0, 3, 4, 0, 2]), (np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 0, 1]))), shape=(2, 2))


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("weights", [HellingerMap(), Tfidf(), Tfidf(sublinear_tf=False, norm=None)])
def test_repeated_entries_are_summed_and_stored_zeros_are_nothing(weights: Any, form: Any) -> None:
    X = with_repeats(form)
    before = X.data.copy()
    expected = weights.fit_transform(X.toarray())
    expected = expected.toarray() if sp.issparse(expected) else expected
    np.testing.assert_allclose(weights.fit_transform(X).toarray(), expected, rtol=1e-12)
    np.testing.assert_array_equal(X.data, before)


def test_counts_that_cancel_are_nothing() -> None:
    X = sp.csr_array((np.array([1.0, -1, 2]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    np.testing.assert_array_equal(Tfidf().fit_transform(X).toarray(), [[0, 1]])
