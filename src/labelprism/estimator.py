"""`PrismClassifier`: F, then H. The only place that knows both."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelprism._arrays import Float32, Int32
from labelprism.data.dataset import as_features
from labelprism.filters import Filter, SpectralTree
from labelprism.filters.base import check_fit_input
from labelprism.heads import Head, LogisticHead


class FilterRoutes:
    """What a head sees of a filter: the leaves of the training examples, and the candidates of the leaves.

    Parameters
    ----------
    filter : Filter
        Fitted.
    X : csr_array or float32 array of shape (n, d)
        The training examples.
    """

    def __init__(self, filter: Filter, X: Any) -> None:
        self._filter = filter
        self._X = X

    @property
    def table(self) -> sp.csr_array:
        """The candidates of each leaf."""
        return self._filter.leaf_candidates_

    def decided(self) -> Int32:
        """Return the leaf of every training example, as at prediction."""
        return self._filter.route(self._X)

    def sampled(self, rng: np.random.Generator) -> Int32:
        """Return a random leaf for every training example."""
        return self._filter.sample_route(self._X, rng)


class PrismClassifier(BaseEstimator):  # type: ignore[misc]
    """A filter F, which picks candidate labels, and a head H, which looks at the candidates only (Algorithm 1).

    Parameters
    ----------
    filter : Filter, optional
        F; a `SpectralTree` when left out.
    head : Head, optional
        H; a `LogisticHead` when left out.
    normalize : bool, default=True
        Whether rows are made unit first. The routing noise of the paper is made for rows of similar norms; for data
        that must keep its norms, say `SpectralTree(noise="sqrt")` too.
    n_jobs : int, optional
        Threads, as in scikit-learn, for filters and heads that do not say otherwise. Results do not depend on it.
    random_state : int, RandomState or None
        Seed for filters and heads that do not say otherwise.

    Attributes
    ----------
    filter_, head_ : Filter, Head
        Fitted.
    n_features_in_, n_labels_ : int
        The numbers of features and labels.
    """

    def __init__(
        self,
        filter: Filter | None = None,
        head: Head | None = None,
        *,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.filter = filter
        self.head = head
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> PrismClassifier:
        """Grow the filter, then train the head on its candidates.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : sparse matrix or array of shape (n, c), or n label numbers
        """
        X, Y = check_fit_input(X, Y)
        X = self._rows(X)
        random = check_random_state(self.random_state)
        self.filter_ = self._made(self.filter, SpectralTree, random).fit(X, Y)
        self.head_ = self._made(self.head, LogisticHead, random).fit(X, Y, FilterRoutes(self.filter_, X))
        self.n_features_in_, self.n_labels_ = int(X.shape[1]), int(Y.shape[1])
        return self

    def predict_topk(self, X: Any, k: int = 5) -> tuple[Int32, Float32]:
        """Return the k labels of the largest scores of every example, best first.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        k : int, default=5
            Rows with fewer candidates end in labels of -1 with scores of -inf.

        Returns
        -------
        indices : int32 array of shape (n, k)
        scores : float32 array of shape (n, k)
        """
        check_is_fitted(self, "head_")
        X = self._rows(as_features(X))
        best: tuple[Int32, Float32] = self.head_.topk(X, self.filter_.route(X), k)
        return best

    def predict(self, X: Any) -> Int32:
        """Return the label of the largest score of every example, -1 where there is no candidate.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)

        Returns
        -------
        int32 array of shape (n,)
        """
        return self.predict_topk(X, 1)[0][:, 0]

    def _rows(self, X: Any) -> Any:
        return normalize(X) if self.normalize and X.shape[0] and X.shape[1] else X

    def _made(self, part: Any, default: type, random: np.random.RandomState) -> Any:
        """Return a part to be fitted, with our seed and threads where it has none of its own."""
        part = default() if part is None else clone(part)
        seed = int(random.randint(2**31 - 1))  # drawn in any case: the head's must not depend on the filter's
        for name, value in (("n_jobs", self.n_jobs), ("random_state", seed)):
            if name in part.get_params(deep=False) and getattr(part, name) is None:
                part.set_params(**{name: value})
        return part
