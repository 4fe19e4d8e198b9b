"""`PrismClassifier`: F, then H. The only place that knows both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelprism._arrays import Float32, Int32
from labelprism._parts import packed, unpacked
from labelprism.data.dataset import as_features
from labelprism.errors import ModelFormatError
from labelprism.filters import Filter, SpectralTree
from labelprism.filters.base import check_fit_input
from labelprism.heads import Head, LogisticHead
from labelprism.persistence import StrPath, load_arrays, save_arrays
from labelprism.recipe import PRESETS, DefaultRecipe, fit_default

_PAPER_TABLE = 1 << 15
_MOST_THREADS = 1024


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
        F. With `filter` and `head` left out, `preset` says what is trained.
    head : Head, optional
        H. With one of the two given, the other is a `SpectralTree` or a `LogisticHead`.
    preset : {"default", "fast", "paper"}, default="default"
        "default": the library's own recipe, `labelprism.recipe`; "fast": the same in less time; "paper": one tree of
        depth 14, 4,000 candidates (25 where there are at most 1,000 labels), and logistic regression with biases of its
        leaves over features hashed to 2^15.
    objective : {"precision", "propensity"}, default="precision"
        What "default" and "fast" rank labels for: precision, or propensity-scored precision, which favours rare labels.
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
        Fitted; of "default" and "fast" they are inside `recipe_`.
    recipe_ : DefaultRecipe
        The model of "default" and "fast".
    n_features_in_, n_labels_ : int
        The numbers of features and labels.
    """

    def __init__(
        self,
        filter: Filter | None = None,
        head: Head | None = None,
        *,
        preset: Literal["default", "fast", "paper"] = "default",
        objective: Literal["precision", "propensity"] = "precision",
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.filter = filter
        self.head = head
        self.preset = preset
        self.objective = objective
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------------ fit

    def fit(self, X: Any, Y: Any) -> PrismClassifier:
        """Grow the filter, then train the head on its candidates.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : sparse matrix or array of shape (n, c), or n label numbers
        """
        self._check_parameters()
        X, Y = check_fit_input(X, Y)
        random = check_random_state(self.random_state)
        for name in ("recipe_", "filter_", "head_", "n_features_in_", "n_labels_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._fit_parts(X, Y, random)
        self.n_features_in_, self.n_labels_ = int(X.shape[1]), int(Y.shape[1])
        return self

    def _fit_parts(self, X: Any, Y: sp.csr_array, random: np.random.RandomState) -> None:
        if self._uses_recipe():
            settings = replace(PRESETS[self.preset], unit_rows=self.normalize)
            seed = int(random.randint(2**31 - 1))
            self.recipe_ = fit_default(
                X, Y, preset=settings, objective=self.objective, n_jobs=self.n_jobs, random_state=seed
            )
            return
        X = self._rows(X)
        filter, head = self._parts(X.shape[1], Y.shape[1])
        self.filter_ = self._made(filter, random).fit(X, Y)
        self.head_ = self._made(head, random).fit(X, Y, FilterRoutes(self.filter_, X))

    def _check_parameters(self) -> None:
        for name, choices in (("preset", (*PRESETS, "paper")), ("objective", ("precision", "propensity"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name, kind in (("filter", Filter), ("head", Head)):
            if not isinstance(getattr(self, name), (kind, type(None))):
                raise ValueError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")

    def _uses_recipe(self) -> bool:
        return self.filter is None and self.head is None and self.preset != "paper"

    def _parts(self, n_features: int, n_labels: int) -> tuple[Filter, Head]:
        """Return filter and head, those of the paper where they were left out."""
        filter, head = self.filter, self.head
        if filter is None:
            filter = SpectralTree(25 if n_labels <= 1000 else 4000, verbose=False)
        if head is None:
            head = LogisticHead(n_hashed_features=_PAPER_TABLE if n_features > _PAPER_TABLE else None)
        return filter, head

    def _made(self, part: Any, random: np.random.RandomState) -> Any:
        """Return a part to be fitted, with our seed and threads where it has none of its own."""
        part = clone(part)
        seed = int(random.randint(2**31 - 1))  # drawn in any case: the head's must not depend on the filter's
        for name, value in (("n_jobs", self.n_jobs), ("random_state", seed)):
            if name in part.get_params(deep=False) and getattr(part, name) is None:
                part.set_params(**{name: value})
        return part

    def _rows(self, X: Any) -> Any:
        return normalize(X) if self.normalize and X.shape[0] and X.shape[1] else X

    # ------------------------------------------------------------------------------------------------------------ use

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
        recipe = self.__dict__.get("recipe_")
        if recipe is not None:  # first, and without further ado: single rows are a matter of microseconds
            found: tuple[Int32, Float32] = recipe.predict_topk(X, k, self.n_jobs)
            return found
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

    def save(self, path: StrPath) -> None:
        """Write the model into a directory; one that is there is replaced in one step.

        Parameters
        ----------
        path : path-like
        """
        check_is_fitted(self, "n_labels_")
        shape = {"n_features": self.n_features_in_, "n_labels": self.n_labels_}
        parameters: dict[str, Any] = {"preset": self.preset, "objective": self.objective, "normalize": self.normalize}
        parameters["n_jobs"] = None if self.n_jobs is None else int(self.n_jobs)
        meta: dict[str, Any] = {**shape, "parameters": parameters}
        if hasattr(self, "recipe_"):
            meta["recipe"] = self.recipe_.meta
            save_arrays(path, meta, self.recipe_.arrays)
            return
        meta["filter"], arrays = packed(self.filter_, "filter")
        meta["head"], more = packed(self.head_, "head")
        save_arrays(path, meta, arrays | more)

    @classmethod
    def load(cls, path: StrPath, verify: bool | None = None) -> PrismClassifier:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : path-like
        verify : bool, optional
            Whether files are compared with their SHA-256; by default those of models under 64 MB are.
        """
        meta, arrays = load_arrays(path, verify)
        try:
            model = cls(**meta["parameters"])
            _check_stored_threads(model.n_jobs)
            model.n_features_in_, model.n_labels_ = int(meta["n_features"]), int(meta["n_labels"])
            if "recipe" in meta:
                model.recipe_ = DefaultRecipe(arrays, meta["recipe"])
            else:
                model.filter_ = unpacked(meta["filter"], arrays, "filter")
                model.head_ = unpacked(meta["head"], arrays, "head")
                model.head_.candidates_ = model.filter_.leaf_candidates_
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
            raise ModelFormatError(f"the model is damaged: {error}", path) from error
        return model


def _check_stored_threads(n_jobs: Any) -> None:
    """Refuse what `save` cannot have written, before a forged model starts a million threads."""
    if n_jobs is not None and (type(n_jobs) is not int or n_jobs == 0 or abs(n_jobs) > _MOST_THREADS):
        raise ValueError(f"n_jobs must be null or a whole number up to {_MOST_THREADS}, but not 0, got {n_jobs!r}")
