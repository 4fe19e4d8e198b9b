"""`DaskPrismClassifier`: `PrismClassifier`, trained and used on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelprism._arrays import as_csr, as_label_matrix
from labelprism._stages import Checkpoint
from labelprism.composition import unit_rows
from labelprism.distributed.chunks import Chunk, block_names, made_chunks
from labelprism.distributed.cluster import Cluster, found_client
from labelprism.distributed.prediction import LOST, answers, by_rows, ranked_by_rows, score_by_rows, shipped
from labelprism.distributed.spread_growth import SpreadLimits
from labelprism.distributed.training import DistributedTraining
from labelprism.estimator import _LEARNED, PrismClassifier
from labelprism.filters import Filter
from labelprism.heads import Head
from labelprism.persistence import StrPath
from labelprism.recipe import PRESETS


class DaskPrismClassifier(PrismClassifier):
    """`PrismClassifier` on a Dask cluster: dask arrays in, dask arrays out, the same model.

    All presets but "paper" can be trained so. Rows stay in their chunks while the top of the trees
    grows, then move once to the workers that grow the subtrees; classifiers are trained in ranges of labels;
    predictions are made chunk by chunk. The same chunks and the same `random_state` give the same model, bit by bit,
    whatever the number of workers, and one as good as that of `PrismClassifier`. See docs/scaling.md.

    Parameters
    ----------
    filter, head : None
        Filters and heads of your own are trained by `PrismClassifier`.
    preset : {"default", "accurate", "fast"}, default="default"
        See `PrismClassifier`, as for all that follow.
    objective : {"precision", "propensity"}, default="precision"
    normalize : bool, default=True
    features, filter_features, head_features : None
        Make features before, with `dask.array.map_blocks` for instance.
    threshold : float, default=0.5
    n_jobs : int, optional
        Threads of the tasks that have a worker for themselves; all threads of the worker when left out.
    random_state : int, RandomState or None
    verbose : int, default=0
    client : distributed.Client, optional
        The client of the surrounding program when left out.

    Attributes
    ----------
    recipe_ : DefaultRecipe
        The model, here in this process; `to_local` gives a `PrismClassifier` with it.
    bytes_sent_ : dict of str to int
        The bytes that workers received from each other, and this process from them, in each phase. What a worker that
        died had received is missing.
    classes_, class_prior_, n_features_in_, n_labels_ : see `PrismClassifier`
    """

    _limits = SpreadLimits()

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
        client: Any = None,
    ) -> None:
        super().__init__(
            filter,
            head,
            preset=preset,
            objective=objective,
            normalize=normalize,
            features=features,
            filter_features=filter_features,
            head_features=head_features,
            threshold=threshold,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.client = client

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
    ) -> DaskPrismClassifier:
        """Train on the cluster.

        Parameters
        ----------
        X : dask array of shape (n, d)
            Blocks of whole rows: CSR matrices of scipy, or dense.
        y : dask array of shape (n, c) or (n,)
            Indicator matrices, CSR or dense; or one class a row.
        sample_weight : dask array or array of shape (n,), optional
            The weight of each example; those of weight 0 are left out.
        validation : (X, y), optional
            Examples to learn the blend on: dask arrays, or what `PrismClassifier` takes. They come to this process
            and must fit a worker.
        checkpoint : path-like, optional
            A folder of this process where the forest and the classifiers of each range of labels are kept when they
            are done. If the cluster or this process dies, the same call goes on from there.
        scratch : None
            Workers keep in their own files what does not fit into memory.
        """
        if scratch is not None:
            raise ValueError(
                "scratch is for training on one machine; workers keep in their own files what does not fit into memory "
                "(dask worker --local-directory)"
            )
        for name in (*_LEARNED, "bytes_sent_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._check_parameters()
        self._check_distributable()
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        cluster = Cluster(found_client(self.client))
        with nullcontext() if checkpoint is None else closing(Checkpoint(checkpoint)) as kept:
            return self._fit_on(cluster, X, y, sample_weight, validation, kept)

    def _fit_on(
        self, cluster: Cluster, X: Any, y: Any, sample_weight: Any, validation: Any, checkpoint: Checkpoint | None
    ) -> DaskPrismClassifier:
        with cluster.counted(block_names(X, y)), self._timed("recipe"):
            chunks = made_chunks(cluster, X, y, sample_weight, self.normalize)
            self.n_features_in_ = chunks.shape[0]
            held_out = self._validation_chunk(validation, chunks.classes, sample_weight is not None)
            settings = replace(PRESETS[self.preset], unit_rows=self.normalize)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            if checkpoint is not None and self.random_state is None and checkpoint.seed is not None:
                seed = checkpoint.seed  # what was begun goes on
            training = DistributedTraining(
                cluster, settings, self.objective, self.n_jobs, seed, self._limits, checkpoint
            )
            self.recipe_, counts = training.run(chunks, held_out)
            self.bytes_sent_ = cluster.traffic()
        self.classes_, self._target_format = chunks.classes, chunks.format
        self.class_prior_ = counts / counts.sum()
        self.n_labels_ = int(chunks.shape[1])
        return self

    def _check_distributable(self) -> None:
        if not self._uses_recipe():
            raise ValueError(
                'only the presets "default", "accurate" and "fast" are trained on a cluster; with a filter or head of '
                f"your own, or preset={self.preset!r}, use PrismClassifier"
            )
        if self.features is not None:
            raise ValueError(
                "features are made before: X.map_blocks(features.transform) for instance; leave features out"
            )

    def _validation_chunk(self, validation: Any, classes: Any, has_weights: bool) -> Chunk | None:
        if validation is None:
            return None
        if isinstance(validation, (tuple, list)) and any(isinstance(part, da.Array) for part in validation):
            validation = tuple(_gathered(part) for part in validation)
        held_out = self._held_out(validation, classes)
        assert held_out is not None
        X, Y = unit_rows(as_csr(held_out[0], "X of validation"), self.normalize), as_label_matrix(held_out[1])
        return Chunk(X, Y, np.ones(X.shape[0], np.float32) if has_weights else None)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> DaskPrismClassifier:
        """Learn from further examples, here in this process: see `PrismClassifier.partial_fit`.

        Parameters
        ----------
        X, y, classes, sample_weight : see `PrismClassifier.partial_fit`
            Dask arrays before the first `fit`, no dask arrays after it.
        """
        if "n_labels_" in self.__dict__ and any(isinstance(part, da.Array) for part in (X, y, sample_weight)):
            raise ValueError("partial_fit takes a few rows, which it learns from here; compute the dask arrays before")
        super().partial_fit(X, y, classes, sample_weight)
        return self

    def to_local(self) -> PrismClassifier:
        """Return the model as a `PrismClassifier`, which needs no cluster."""
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "client"}
        local = PrismClassifier(**parameters)
        for name in _LEARNED:
            if name in self.__dict__:
                setattr(local, name, self.__dict__[name])
        return local

    def save(self, path: StrPath) -> None:
        """Write the model into a directory, as `PrismClassifier` does, which can load it too.

        Parameters
        ----------
        path : path-like
        """
        check_is_fitted(self, "n_labels_")
        self.to_local().save(path)

    def __sklearn_clone__(self) -> DaskPrismClassifier:
        own = self.get_params(deep=False)
        client = own.pop("client")  # a connection, which both share
        return type(self)(**{name: clone(value, safe=False) for name, value in own.items()}, client=client)

    def __getstate__(self) -> dict[str, Any]:  # a client is a connection of this process
        state = {**super().__getstate__(), "client": None}
        state.pop("_on_cluster", None)
        return state

    def on_cluster(self) -> Any:
        """Return the model as tasks of predictions take it: the future of a local copy, made once for each client."""
        client = found_client(self.client)
        held: Any = self.__dict__.get("_on_cluster")
        if held is None or held[0] is not client or held[1] is not self.recipe_ or held[2].status in LOST:
            held = client, self.recipe_, shipped(client, self.to_local().set_params(n_jobs=1))
            self._on_cluster = held
        return held[2]

    # ------------------------------------------------------------------------------------------------------ prediction

    def predict_topk(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> Any:
        """Return the k labels of the largest scores of every example, best first.

        Parameters
        ----------
        X, k, allowed : see `PrismClassifier.predict_topk`
            X may be a dask array.

        Returns
        -------
        indices, scores : arrays of shape (n, k)
            Dask arrays for a dask array: nothing is computed yet.
        """
        if not isinstance(X, da.Array):
            return super().predict_topk(X, k, allowed=allowed)
        return ranked_by_rows(self, "predict_topk", X, k, allowed, (np.int32, np.float32))

    def predict_topk_proba(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> Any:
        """Return the k best labels of every example with their probabilities; see `predict_topk`.

        Parameters
        ----------
        X, k, allowed : see `predict_topk`
        """
        if not isinstance(X, da.Array):
            return super().predict_topk_proba(X, k, allowed=allowed)
        return ranked_by_rows(self, "predict_topk_proba", X, k, allowed, (np.int32, np.float64))

    def predict_scores(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> Any:
        """Return the scores of the k best labels of every example as a matrix.

        Parameters
        ----------
        X, k, allowed : see `predict_topk`

        Returns
        -------
        csr_array of shape (n, c), or a dask array whose blocks are such
        """
        if not isinstance(X, da.Array):
            return super().predict_scores(X, k, allowed=allowed)
        return by_rows(self, "predict_scores", X, (self.n_labels_,), np.float32, is_sparse=True, k=k, allowed=allowed)

    def candidates(self, X: Any) -> Any:
        """Return F(x): the candidates of every example with the filter's log-probabilities.

        Parameters
        ----------
        X : see `predict_topk`
        """
        if not isinstance(X, da.Array):
            return super().candidates(X)
        return by_rows(self, "candidates", X, (self.n_labels_,), np.float32, is_sparse=True)

    def predict_labels(self, X: Any, k: int = 5, *, allowed: Iterable[Any] | None = None) -> list[list[Any]]:
        """Return the names of the k best labels of every example, best first, here in this process.

        Parameters
        ----------
        X, k, allowed : see `predict_topk`
        """
        if not isinstance(X, da.Array):
            return super().predict_labels(X, k, allowed=allowed)
        found = dask.compute(*(answers(self, "predict_labels", X, k=k, allowed=allowed)))
        return [names for block in found for names in block]

    def predict(self, X: Any) -> Any:
        """Return the labels of every example, in the container that y had in `fit`.

        Parameters
        ----------
        X : see `predict_topk`
        """
        if not isinstance(X, da.Array):
            return super().predict(X)
        if self._target_format.is_exclusive:
            return by_rows(self, "predict", X, (), self.classes_.dtype)
        is_sparse = self._target_format.kind == "sparse"
        return by_rows(self, "predict", X, (self.n_labels_,), np.dtype(self._target_format.dtype), is_sparse=is_sparse)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every label.

        Parameters
        ----------
        X : see `predict_topk`
            Of a dask array each chunk must be below 10^8 probabilities.
        """
        if not isinstance(X, da.Array):
            return super().predict_proba(X)
        return by_rows(self, "predict_proba", X, (self.n_labels_,), np.float64)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : see `predict_proba`
        """
        if not isinstance(X, da.Array):
            return super().predict_log_proba(X)
        return by_rows(self, "predict_log_proba", X, (self.n_labels_,), np.float64)

    def decision_function(self, X: Any) -> Any:
        """Return the score of every label.

        Parameters
        ----------
        X : see `predict_proba`
        """
        if not isinstance(X, da.Array):
            return super().decision_function(X)
        width = () if self._target_format.is_exclusive and self.n_labels_ == 2 else (self.n_labels_,)
        dtype = np.float64 if not width else np.float32
        return by_rows(self, "decision_function", X, width, dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy where y is classes, and else the precision of the first label (P@1).

        Parameters
        ----------
        X, y, sample_weight : see `fit`
            No dask arrays, or all of them.
        """
        if not isinstance(X, da.Array):
            return super().score(X, y, sample_weight)
        return score_by_rows(self, X, y, sample_weight)

    def _rows(self, X: Any) -> Any:
        if isinstance(X, da.Array):
            raise ValueError("this method takes rows that are here; compute the dask array before, or a part of it")
        return super()._rows(X)


def _gathered(array: Any) -> Any:
    """Return a dask array as one matrix or array, here."""
    if not isinstance(array, da.Array):
        return array
    found = dask.compute(*np.ravel(array.to_delayed()))
    return sp.vstack(found, format="csr") if any(map(sp.issparse, found)) else np.concatenate(found)
