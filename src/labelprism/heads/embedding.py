"""`LabelEmbedding`: the randomised label embedding with which the paper compares (Rank-300 LR, Rank-800 ILR).

P. Mineiro and N. Karampatziakis, "Fast label embeddings via randomized linear algebra", ECML PKDD 2015 (Rembrandt). The
best embedding of labels for linear prediction from X is spanned by the top eigenvectors V of Y' P Y, where
P = X (X'X)^-1 X' projects onto what is linear in X: by the right singular vectors of the least squares prediction of Y.
They are found by a randomised range finder, whose only step is a least squares fit of a few random combinations of
labels, so that neither P nor Y' P Y nor a dense Y is ever made. An example is then described by the prediction of its
embedded labels, z = W'x, and a classifier over all labels on z (or on random Fourier features of z) is the baseline.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, CSRParts, Float32, as_label_matrix, check_whole, csr_parts, is_sparse
from labelprism._progress import ProgressBar
from labelprism._threads import thread_count
from labelprism.data.dataset import as_features

Float64 = npt.NDArray[np.float64]

_COLUMNS_PER_BLOCK = 64  # so many combinations of labels are fitted at once: bounds memory by n and d times this
_EXACT_FEATURES = 1024  # up to here X'X is made and factored
_DONE = 1e-6  # conjugate gradients stop when all residuals are this share of their right-hand sides


class LabelEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map examples to the predicted coordinates of their labels in the best subspace of low rank.

    Parameters
    ----------
    rank : int, default=300
        r; at most as many as there are labels or features are used.
    ridge : float, default=1.0
        Regularisation of the least squares fits, as a multiple of the mean squared norm of the features: lambda =
        ridge * |X|^2 / d in (X'X + lambda I)^-1.
    oversampling : int, default=20
        So many more directions than the rank are followed while looking for the subspace.
    n_iterations : int, default=1
        Steps of the range finder; each is one more pass of least squares fits.
    cg_iterations : int, default=30
        At most so many conjugate gradient steps for a fit, where there are more than 1024 features; with fewer features
        the fits are exact.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the random combinations of labels.

    Attributes
    ----------
    embedding_ : float32 array of shape (c, r)
        V, orthonormal columns: the coordinates of every label, the most predictable direction first.
    eigenvalues_ : float64 array of shape (r,)
        Of Y' P Y, with the ridge in P; descending.
    projection_ : float32 array of shape (d, r)
        W, the ridge regression of Y V on X.
    n_features_in_ : int
        d.
    """

    def __init__(
        self,
        rank: int = 300,
        *,
        ridge: float = 1.0,
        oversampling: int = 20,
        n_iterations: int = 1,
        cg_iterations: int = 30,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.ridge = ridge
        self.oversampling = oversampling
        self.n_iterations = n_iterations
        self.cg_iterations = cg_iterations
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> LabelEmbedding:
        """Find the subspace and the regression onto it.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : sparse matrix or array of shape (n, c)
            The labels, as stored or non-zero entries.
        """
        self._check_parameters()
        X, Y = as_features(X), as_label_matrix(Y)
        if X.shape[0] != Y.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and Y has {Y.shape[0]}; they must be rows of the same examples")
        if not (Y.nnz and X.shape[1]):
            raise ValueError("there is nothing to learn from: X has no features, or no example has a label")
        # Bits may depend on the number of BLAS threads, and small problems wait longer for threads than they work.
        with threadpool_limits(1, "blas"):
            self._embed(X, Y, min(self.rank, X.shape[1], Y.shape[1]))
        return self

    def _embed(self, X: Any, Y: sp.csr_array, rank: int) -> None:
        width = min(rank + self.oversampling, Y.shape[1])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        directions = np.random.default_rng(seed).standard_normal((Y.shape[1], width), dtype=np.float32)
        fits = _LabelFits(X, Y, self.ridge, self.cg_iterations, thread_count(self.n_jobs))
        n_blocks = -(-width // _COLUMNS_PER_BLOCK)
        with ProgressBar((self.n_iterations + 1) * n_blocks, "embedding labels", "blocks") as bar:
            for _ in range(self.n_iterations):
                directions = _orthonormal(fits.predicted_labels(directions, bar))
            if not self.n_iterations:
                directions = _orthonormal(directions)
            weights, inner = fits.fitted(directions, bar)
        values, rotation = scipy.linalg.eigh((inner + inner.T) / 2)
        values, rotation = values[::-1][:rank], _fixed_signs(rotation[:, ::-1][:, :rank])
        self.eigenvalues_: Float64 = np.maximum(values, 0)
        self.embedding_ = _rotated(directions, rotation)
        self.projection_ = _rotated(weights, rotation)  # the fit of Y Q is linear in Q, so that of Y V is known
        self.n_features_in_ = int(X.shape[1])
        self._n_features_out = rank

    def transform(self, X: Any) -> Float32:
        """Predict the coordinates of the labels of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)

        Returns
        -------
        float32 array of shape (n, r)
        """
        check_is_fitted(self, "projection_")
        X = as_features(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but LabelEmbedding was fitted with {self.n_features_in_}")
        if is_sparse(X):
            return _core.csr_times_block(*csr_parts(X), self.projection_, thread_count(self.n_jobs))
        # In float32 BLAS rounds a row differently by its place in the batch; float64 hides that.
        predicted: Float32 = np.matmul(X, self.projection_, dtype=np.float64).astype(np.float32)
        return predicted

    def _check_parameters(self) -> None:
        check_whole("rank", self.rank, 1, MAX_COLUMNS)
        check_whole("oversampling", self.oversampling, 0, MAX_COLUMNS)
        check_whole("n_iterations", self.n_iterations, 0, MAX_COLUMNS)
        check_whole("cg_iterations", self.cg_iterations, 1, MAX_COLUMNS)
        is_number = isinstance(self.ridge, (int, float, np.integer, np.floating)) and not isinstance(self.ridge, bool)
        if not is_number or not 0 < self.ridge < np.inf:
            raise ValueError(
                f"ridge must be a positive number, got {self.ridge!r}; for none take a small one like 1e-6"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class _LabelFits:
    """Ridge regressions of combinations of labels on X, a block of combinations at a time."""

    def __init__(self, X: Any, Y: sp.csr_array, ridge: float, cg_iterations: int, n_threads: int) -> None:
        self._Y, self._n_labels = csr_parts(Y), int(Y.shape[1])
        self._features = _Products(X, n_threads)
        self._n_threads = n_threads
        squares = self._features.column_squares()
        shift = max(ridge * float(squares.mean()), float(np.finfo(np.float32).tiny))
        exact = X.shape[1] <= _EXACT_FEATURES
        self._solver: Any = (
            _Factored(self._features, shift) if exact else _Iterative(self._features, squares, shift, cg_iterations)
        )

    def predicted_labels(self, directions: Float32, bar: ProgressBar) -> Float32:
        """Return Y' P Y Q, where Q are directions of shape (c, width)."""
        result = np.empty_like(directions)
        for block in _column_blocks(directions.shape[1]):
            fitted = self._features.times(self._fit(directions[:, block])[1])
            result[:, block] = _core.csr_transposed_times_block(*self._Y, self._n_labels, fitted, self._n_threads)
            bar.advance(1)
        return result

    def fitted(self, directions: Float32, bar: ProgressBar) -> tuple[Float32, Float64]:
        """Return the weights Z of the fits of Y Q, (d, width), and Q' Y' P Y Q = Z' X'Y Q, (width, width)."""
        width = directions.shape[1]
        weights = np.empty((self._features.n_columns, width), np.float32)
        inner = np.empty((width, width))
        for block in _column_blocks(width):
            targets, weights[:, block] = self._fit(directions[:, block])
            done = block.stop  # the rest follows by symmetry
            inner[:done, block] = weights[:, :done].T @ targets
            inner[block, :done] = inner[:done, block].T
            bar.advance(1)
        return weights, inner

    def _fit(self, directions: Float32) -> tuple[Float32, Float32]:
        """Return X'Y Q and the weights (X'X + lambda I)^-1 X'Y Q, (d, block) each."""
        combined = _core.csr_times_block(*self._Y, np.ascontiguousarray(directions), self._n_threads)
        targets = self._features.transposed_times(combined)
        return targets, self._solver.solve(targets)


class _Products:
    """X times blocks, be it sparse or dense."""

    def __init__(self, X: Any, n_threads: int) -> None:
        self._parts: CSRParts | None = csr_parts(X) if is_sparse(X) else None
        self._dense: Any = None if is_sparse(X) else X
        self.n_columns = int(X.shape[1])
        self._n_threads = n_threads

    def times(self, block: Float32) -> Float32:
        if self._parts is None:
            product: Float32 = self._dense @ block
            return product
        return _core.csr_times_block(*self._parts, np.ascontiguousarray(block), self._n_threads)

    def transposed_times(self, block: Float32) -> Float32:
        if self._parts is None:
            product: Float32 = self._dense.T @ block
            return product
        return _core.csr_transposed_times_block(*self._parts, self.n_columns, block, self._n_threads)

    def column_squares(self) -> Float64:
        """Return the squared norms of the columns of X, the diagonal of X'X."""
        if self._parts is None:
            return _column_products(self._dense, self._dense)
        squares = self._parts.data.astype(np.float64) ** 2
        return np.bincount(self._parts.indices, weights=squares, minlength=self.n_columns).astype(np.float64)

    def gram(self) -> Float64:
        """Return X'X, (d, d)."""
        identity = np.eye(self.n_columns, dtype=np.float32)
        blocks = _column_blocks(self.n_columns)
        columns = [self.transposed_times(self.times(identity[:, block])) for block in blocks]
        return np.concatenate(columns, axis=1).astype(np.float64)


class _Factored:
    """Solves (X'X + shift I) Z = B by Cholesky's factors."""

    def __init__(self, features: _Products, shift: float) -> None:
        gram = features.gram()
        gram[np.diag_indices_from(gram)] += shift
        self._factors = scipy.linalg.cho_factor((gram + gram.T) / 2)

    def solve(self, targets: Float32) -> Float32:
        solution: Float32 = scipy.linalg.cho_solve(self._factors, targets.astype(np.float64)).astype(np.float32)
        return solution


class _Iterative:
    """Solves (X'X + shift I) Z = B by conjugate gradients, all columns at once, each with its own steps.

    The diagonal of X'X preconditions: features of text are as unevenly frequent as words are.
    """

    def __init__(self, features: _Products, squares: Float64, shift: float, n_iterations: int) -> None:
        self._features = features
        self._shift = np.float32(shift)
        self._inverse_diagonal = (1 / (squares + shift)).astype(np.float32)[:, None]
        self._n_iterations = n_iterations

    def solve(self, targets: Float32) -> Float32:
        solution = np.zeros_like(targets)
        residual = targets.copy()
        step = self._inverse_diagonal * residual
        size = _column_products(residual, step)
        enough = _DONE**2 * size
        for _ in range(self._n_iterations):
            image = self._features.transposed_times(self._features.times(step))
            image += self._shift * step
            length = _ratio(size, _column_products(step, image))
            solution += length * step
            residual -= length * image
            preconditioned = self._inverse_diagonal * residual
            old_size, size = size, _column_products(residual, preconditioned)
            if (size <= enough).all():
                break
            step *= _ratio(size, old_size)
            step += preconditioned
        return solution


def _column_blocks(width: int) -> list[slice]:
    starts = range(0, width, _COLUMNS_PER_BLOCK)
    return [slice(begin, min(begin + _COLUMNS_PER_BLOCK, width)) for begin in starts]


def _column_products(left: Float32, right: Float32) -> Float64:
    """Return the inner product of each pair of columns."""
    products: Float64 = np.einsum("ij,ij->j", left, right, dtype=np.float64)
    return products


def _ratio(numerator: Float64, denominator: Float64) -> Float32:
    """Return the ratios, 0 for columns that are solved already."""
    solved = denominator <= 0
    return np.where(solved, 0, numerator / np.where(solved, 1, denominator)).astype(np.float32)


def _orthonormal(directions: Float32) -> Float32:
    basis: Float32 = scipy.linalg.qr(directions, mode="economic", overwrite_a=True)[0]
    return np.ascontiguousarray(basis)


def _fixed_signs(rotation: Float64) -> Float64:
    """Make the largest entry of each column positive: eigenvectors are unique up to their signs only."""
    largest = np.abs(rotation).argmax(axis=0)
    signs = np.where(rotation[largest, np.arange(rotation.shape[1])] < 0, -1.0, 1.0)
    return rotation * signs


def _rotated(block: Float32, rotation: Float64) -> Float32:
    product: Float32 = block @ rotation.astype(np.float32)
    return product
