"""`PrismClassifier`: F, then H."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter, validate_data

from labelprism._arrays import Int32, as_csr, check_whole, is_rows_of, is_sparse
from labelprism._model_files import packed_model, unpacked_model
from labelprism._prediction import Predictions
from labelprism._scratch import scratch_files
from labelprism._stages import Checkpoint
from labelprism._targets import encode_known, encode_targets, extended_targets
from labelprism._threads import thread_count
from labelprism._views import check_view, fitted_view, seen
from labelprism._weights import Float64, check_sample_weight, label_mass, weighted_rows
from labelprism.composition import Composition, Model, RecipeModel, unit_rows
from labelprism.data.dataset import Dataset
from labelprism.errors import ModelFormatError
from labelprism.filters import Filter, SpectralTree
from labelprism.heads import Head, LogisticHead
from labelprism.persistence import StrPath, load_arrays, save_arrays
from labelprism.recipe import PRESETS, DefaultRecipe, fit_default
from labelprism.recipe_update import updated

_PAPER_TABLE = 1 << 15
_LEARNED = (
    *("recipe_", "filter_", "head_", "features_", "filter_features_", "head_features_", "classes_", "class_prior_"),
    *("n_features_in_", "feature_names_in_", "n_labels_", "_target_format"),
)

logger = logging.getLogger("labelprism")


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


class PrismClassifier(Predictions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A filter F, which picks candidate labels, and a head H, which looks at the candidates only (Algorithm 1).

    Parameters
    ----------
    filter : Filter, optional
        F. With `filter` and `head` left out, `preset` says what is trained.
    head : Head, optional
        H. With one of the two given, the other is a `SpectralTree` or a `LogisticHead`.
    preset : {"default", "accurate", "fast", "paper"}, default="default"
        "default": the library's own recipe, `labelprism.recipe`; "accurate": the same with nine trees instead of one
        to three and five clusterings of the labels instead of one or none, in two to five times the time; "fast": with
        one tree, or none where a space finds candidates, and no clusters, in 0.4 to 0.8 of the time, but for the
        largest data, where the default has little to leave out;
        "paper": one tree of depth 14, 4,000 candidates (25 where there are at most 1,000 labels), and logistic
        regression with biases of its leaves over features hashed to 2^15.
    objective : {"precision", "propensity"}, default="precision"
        What all presets but "paper" rank labels for: precision, or propensity-scored precision, which favours rare
        labels.
    normalize : bool, default=True
        Whether rows are made unit first. The routing noise of the paper is made for rows of similar norms; for data
        that must keep its norms, say `SpectralTree(noise="sqrt")` too.
    features : transformer, optional
        Makes rows of raw input, as `labelprism.features.TextFeatures` does of texts. Fitted in `fit`, and applied
        first whenever X is given.
    filter_features, head_features : slice, array of feature numbers, or transformer, optional
        What F and H see of the rows, where they shall not see all: F a pretrained embedding, for example, and H words.
        For a filter and a head of your own, or the preset "paper".
    threshold : float, default=0.5
        Where rows may have several labels, `predict` returns those of at least this probability.
    n_jobs : int, optional
        Threads, as in scikit-learn, for filters and heads that do not say otherwise. Results do not depend on it.
    random_state : int, RandomState or None
        Seed for filters and heads that do not say otherwise.
    verbose : int, default=0
        With 1 or more, `fit` tells on standard error how long its stages took. They are always logged ("labelprism").

    Attributes
    ----------
    filter_, head_ : Filter, Head
        Fitted; with the presets of the recipe they are inside `recipe_`.
    recipe_ : DefaultRecipe
        The model of all presets but "paper".
    features_, filter_features_, head_features_ : fitted transformers, slices or arrays
        What `features`, `filter_features` and `head_features` became; the first only where it was given.
    classes_ : array of shape (n_labels_,)
        The names of the labels: sorted classes or names; 0, 1, 2 and so on, where y was a matrix.
    class_prior_ : float64 array of shape (n_labels_,)
        The share of each label among all labels of the training examples.
    n_features_in_, n_labels_ : int
        The numbers of features, as `features` made them if it was given, and of labels.
    feature_names_in_ : array of shape (n_features_in_,)
        The names of the features, where X had names that are all strings.

    Examples
    --------
    >>> from labelprism import PrismClassifier
    >>> X = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]
    >>> model = PrismClassifier(random_state=0).fit(X, ["sea", "sea", "land", "land"])
    >>> model.predict([[1.0, 0.2]]).tolist()
    ['sea']
    """

    def __init__(
        self,
        filter: Filter | None = None,
        head: Head | None = None,
        *,
        preset: Literal["default", "accurate", "fast", "paper"] = "default",
        objective: Literal["precision", "propensity"] = "precision",
        normalize: bool = True,
        features: Any = None,
        filter_features: Any = None,
        head_features: Any = None,
        threshold: float = 0.5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.filter = filter
        self.head = head
        self.preset = preset
        self.objective = objective
        self.normalize = normalize
        self.features = features
        self.filter_features = filter_features
        self.head_features = head_features
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        if self.features is not None:
            tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    # ------------------------------------------------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        *,
        checkpoint: StrPath | None = None,
        scratch: StrPath | None = None,
    ) -> PrismClassifier:
        """Grow the filter, then train the head on its candidates.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), what `features` takes, or a `Dataset` with y left out
        y : sparse or dense indicator matrix of shape (n, c), n tuples or sets of label names, or n classes
            Names and classes are anything hashable. Rows without labels are no error, except of classes.
        sample_weight : array of shape (n,), optional
            The weight of each example; those of weight 0 are left out.
        validation : (X, y) or Dataset, optional
            Examples to learn the blend of the default recipe on, which otherwise come from X; or to choose the depth
            of a `SpectralTree` by. Labels that y lacks are left out.
        checkpoint : path-like, optional
            A folder where all is kept that is done, level by level of the trees and shard by shard of the head. If the
            training is stopped in any way, the same call goes on from there, to the same bits. It may be removed when
            the model is saved. For all presets but "paper".
        scratch : path-like, optional
            A folder on a disk where arrays of 1 MB and more lie instead of in memory, for data that are larger than
            that; they vanish with the training. The result does not depend on it. Linux only.
        """
        with scratch_files(scratch):
            return self._fit(X, y, sample_weight, validation, checkpoint)

    def _fit(self, X: Any, y: Any, sample_weight: Any, validation: Any, checkpoint: StrPath | None) -> PrismClassifier:
        for name in _LEARNED:  # of an earlier fit
            self.__dict__.pop(name, None)
        self._check_parameters()
        if checkpoint is not None and not self._uses_recipe():
            raise ValueError('checkpoint goes with the presets "default", "accurate" and "fast" only; leave it out')
        X, y, names = self._opened(X, y)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = self._fitted_rows(X)
        Y, classes, target_format = encode_targets(y)
        if names is not None:
            classes = np.fromiter(names, object, len(names))
        check_consistent_length(X, Y)
        weight = check_sample_weight(sample_weight, Y.shape[0])
        held_out = self._held_out(validation, classes)
        X, Y, weight = weighted_rows(X, Y, weight)
        if not Y.nnz:
            raise ValueError("no example has a label, so that there are no classes to learn; y holds none")
        counts = label_mass(Y, weight)
        self._fit_parts(X, Y, weight, held_out, check_random_state(self.random_state), checkpoint)
        self.classes_, self._target_format, self.class_prior_ = classes, target_format, counts / counts.sum()
        self.n_labels_ = int(Y.shape[1])
        return self

    def _fit_recipe(
        self, X: Any, Y: sp.csr_array, weight: Float64 | None, held_out: Any, seed: int, path: StrPath | None
    ) -> DefaultRecipe:
        settings = replace(PRESETS[self.preset], unit_rows=self.normalize)
        arguments: dict[str, Any] = {"n_jobs": self.n_jobs, "objective": self.objective, "preset": settings}
        data: Any = {"sample_weight": weight, "validation": held_out}
        if path is None:
            return fit_default(X, Y, random_state=seed, **data, **arguments)
        with closing(Checkpoint(path)) as checkpoint:
            if self.random_state is None and checkpoint.seed is not None:  # what was begun goes on
                seed = checkpoint.seed
            return fit_default(X, Y, random_state=seed, checkpoint=checkpoint, **data, **arguments)

    def _fit_parts(
        self, X: Any, Y: sp.csr_array, weight: Float64 | None, held_out: Any, random: Any, checkpoint: StrPath | None
    ) -> None:
        if self._uses_recipe():
            with self._timed("recipe"):
                seed = int(random.randint(2**31 - 1))
                self.recipe_ = self._fit_recipe(X, Y, weight, held_out, seed, checkpoint)
            return
        filter, head = (self._made(part, random) for part in self._parts(X.shape[1], Y.shape[1]))
        with self._timed("features"):
            views = [fitted_view(name, getattr(self, name), X, Y) for name in ("filter_features", "head_features")]
            self.filter_features_, self.head_features_ = views
            for_filter, for_head = (unit_rows(seen(view, X), self.normalize) for view in views)
        with self._timed("filter"):
            self.filter_ = filter.fit(for_filter, Y, **self._filter_arguments(filter, weight, held_out))
        with self._timed("head"):
            more = {} if weight is None else {"sample_weight": weight}
            self.head_ = head.fit(for_head, Y, FilterRoutes(self.filter_, for_filter), **more)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> PrismClassifier:
        """Learn from further examples without growing the trees anew.

        Counts, centroids and the head learn from them; labels that are new get their place in the leaves that their
        examples reach. Not fitted yet, the model is fitted. See docs/models.md for what it is worth.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), what `features` takes, or a `Dataset` with y left out
        y : as in `fit`
            A matrix may have more columns than there are labels; names and classes may be new.
        classes : array of labels, optional
            Labels that will come, where y is names or classes. They need not be announced.
        sample_weight : array of shape (n,), optional
        """
        if "n_labels_" not in self.__dict__:
            self.fit(X, y, sample_weight)
            return self if classes is None else self._widened(classes)
        X, y, names = self._opened(X, y)
        X = self._validated(self._transformed(X), reset=False)
        Y, all_classes = extended_targets(y, self.classes_, names, () if classes is None else classes)
        check_consistent_length(X, Y)
        weight = check_sample_weight(sample_weight, Y.shape[0])
        X, Y, weight = weighted_rows(X, Y, weight)
        self._update_parts(X, Y, weight)
        self.classes_, self.n_labels_ = all_classes, int(Y.shape[1])
        return self

    def _widened(self, classes: Any) -> PrismClassifier:
        """Give labels a place that have no example yet."""
        Y, all_classes = extended_targets([], self.classes_, None, classes)
        self._update_parts(sp.csr_array((0, self.n_features_in_), dtype=np.float32), Y, None)
        self.classes_, self.n_labels_ = all_classes, int(Y.shape[1])
        return self

    def _update_parts(self, X: Any, Y: sp.csr_array, weight: Float64 | None) -> None:
        total = self._label_mass()
        counts = label_mass(Y, weight)
        counts[: self.n_labels_] += self.class_prior_ * total
        if "recipe_" in self.__dict__:
            given = None if weight is None else weight.astype(np.float32)
            self.recipe_ = updated(self.recipe_, as_csr(X), Y, given, self.n_jobs)
        else:
            self.filter_, self.head_ = self._updated_parts(X, Y, weight)
        self.class_prior_ = counts / counts.sum()

    def _updated_parts(self, X: Any, Y: sp.csr_array, weight: Float64 | None) -> tuple[Filter, Head]:
        """Return filter and head after further examples; those of the model stay, lest an error leaves them halfway."""
        filter, head = copy.copy(self.filter_), copy.copy(self.head_)
        for_filter, for_head = self._model().rows(X)  # type: ignore[attr-defined]
        filter.update(for_filter, Y, weight)
        head.update(for_head, Y, FilterRoutes(filter, for_filter), weight)
        return filter, head

    def _label_mass(self) -> float:
        """Return how many labels the examples so far have, with their weights."""
        if "recipe_" in self.__dict__:
            return float(self.recipe_.label_counts_.sum())
        return float(np.sum(self.filter_.leaf_mass_)) / getattr(self.filter_, "n_trees", 1)

    def _filter_arguments(self, filter: Filter, weight: Float64 | None, held_out: Any) -> dict[str, Any]:
        """Return weights and validation as arguments of the filter's `fit`, which must take them if they are there."""
        name = type(filter).__name__
        found: dict[str, Any] = {}
        if weight is not None:
            if not has_fit_parameter(filter, "sample_weight"):
                raise ValueError(f"{name} takes no sample_weight; leave it out, or choose another filter")
            found["sample_weight"] = weight
        if held_out is not None:
            if not has_fit_parameter(filter, "validation"):
                raise ValueError(f"{name} has nothing to choose by validation; leave it out, or choose SpectralTree")
            X, Y = held_out
            found["validation"] = unit_rows(seen(self.filter_features_, X), self.normalize), Y
        return found

    def _check_parameters(self) -> None:
        for name, choices in (("preset", (*PRESETS, "paper")), ("objective", ("precision", "propensity"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, (int, float, np.number)):
            raise ValueError(f"threshold must be a number, got {self.threshold!r}")
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, got {self.threshold!r}")
        check_whole("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0, 2**31 - 1)
        if self.features is not None and not (hasattr(self.features, "fit") and hasattr(self.features, "transform")):
            raise ValueError(f"features must be a transformer with fit and transform, got {self.features!r}")
        for name, kind in (("filter", Filter), ("head", Head)):
            part = getattr(self, name)
            if part is None:
                continue
            if not isinstance(part, kind):
                raise ValueError(f"{name} must be a {kind.__name__} of labelprism.{name}s, got {part!r}")
            try:
                part._check_parameters()
            except ValueError as error:  # the message begins with the name of the parameter
                raise ValueError(f"{name}__{error}") from error
        for name in ("filter_features", "head_features"):
            check_view(name, getattr(self, name))
            if getattr(self, name) is not None and self._uses_recipe():
                raise ValueError(
                    f"{name} needs a filter and a head of your own, as filter=SpectralTree(), head=LogisticHead(); "
                    f"in the preset {self.preset!r} all parts see the same features"
                )

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

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Log, and with `verbose` print, how long a stage took."""
        since = perf_counter()
        yield
        seconds = {stage: perf_counter() - since, **getattr(self.__dict__.get("recipe_"), "stage_seconds_", {})}
        for name, value in seconds.items():
            logger.info("%s: %.2f s", name, value)
            if self.verbose:
                print(f"{type(self).__name__}: {name} {value:.2f} s", file=sys.stderr)

    # ------------------------------------------------------------------------------------------------------------ rows

    def _opened(self, X: Any, y: Any) -> tuple[Any, Any, Any]:
        if not isinstance(X, Dataset):
            return X, y, None
        if y is not None:
            raise ValueError("a Dataset brings its own labels; leave y out")
        rows = X.X if self.features is None else X.texts
        if rows is None:
            missing = "no matrix X, only texts; give features=TextFeatures()" if self.features is None else "no texts"
            raise ValueError(f"the Dataset has {missing}")
        return rows, X.Y, X.label_names

    def _held_out(self, validation: Any, classes: Any) -> tuple[Any, sp.csr_array] | None:
        """Return the rows and labels of `validation`."""
        if validation is None:
            return None
        if isinstance(validation, Dataset):
            validation = validation, None
        if not isinstance(validation, (tuple, list)) or len(validation) != 2:
            raise ValueError("validation must be (X, y), or a Dataset")
        X, y, names = self._opened(*validation)
        X, Y = self._validated(self._transformed(X), reset=False), encode_known(y, classes, names)
        if X.shape[0] != Y.shape[0] or not Y.nnz:
            raise ValueError(
                f"validation has {X.shape[0]} rows, labels of {Y.shape[0]} rows, and {Y.nnz} labels that y has too; "
                "the rows must be the same, and some must have labels"
            )
        return X, Y

    def _fitted_rows(self, X: Any) -> Any:
        """Return X as the model takes it, after fitting `features`, if there are any."""
        if self.features is not None:
            if isinstance(X, (str, bytes)):
                raise ValueError("X is a single string; give a list of texts")
            X = list(X) if isinstance(X, Iterator) else X  # it can be read only once
            self.features_ = clone(self.features)
            with self._timed("features"):
                transformed = _fit_transformed(self.features_, X)
            return self._validated(transformed, reset=True)
        if isinstance(X, (list, tuple)) and X and isinstance(X[0], str):
            raise ValueError("X is a list of texts; give features=TextFeatures(), which makes rows of them")
        return self._validated(X, reset=True)

    def _transformed(self, X: Any) -> Any:
        return self.features_.transform(X) if "features_" in self.__dict__ else X

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "n_labels_")
        if isinstance(X, Dataset):
            X, _, _ = self._opened(X, None)
        X = self._transformed(X)
        # What needs nothing but a look is looked at once: that is felt in small batches.
        is_plain = is_rows_of(X, self.n_features_in_) and "feature_names_in_" not in self.__dict__
        return as_csr(X, n_threads=thread_count(self.n_jobs)) if is_plain else self._validated(X, reset=False)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, which is refused by name
            X = validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype=np.float32, order="C", ensure_min_samples=int(reset)
            )
        return as_csr(X, n_threads=thread_count(self.n_jobs)) if is_sparse(X) else X

    # ---------------------------------------------------------------------------------------------------------- models

    def _model(self) -> Model:
        check_is_fitted(self, "n_labels_")
        if "recipe_" in self.__dict__:
            return RecipeModel(self.recipe_, self.n_jobs)
        views = self.filter_features_, self.head_features_
        return Composition(self.filter_, self.head_, *views, self.normalize, self.n_jobs)

    def save(self, path: StrPath) -> None:
        """Write the model into a directory; one that is there is replaced in one step.

        Parameters
        ----------
        path : path-like
        """
        check_is_fitted(self, "n_labels_")
        save_arrays(path, *packed_model(self))

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
            return unpacked_model(cls, meta, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
            raise ModelFormatError(f"the model is damaged: {error}", path) from error


def _fit_transformed(features: Any, X: Any) -> Any:
    """Fit a transformer and return what it makes of X, in one go where it can."""
    return features.fit_transform(X) if hasattr(features, "fit_transform") else features.fit(X).transform(X)
