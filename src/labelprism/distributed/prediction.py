"""Predictions by rows: a task for each chunk, and the model on every worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import tokenize
from dask.delayed import Delayed, delayed
from distributed import wait
from sklearn.utils.validation import check_is_fitted

from labelprism._arrays import check_whole
from labelprism.distributed.chunks import block_lists
from labelprism.distributed.traffic import task_name

LOST = ("cancelled", "lost", "error")
"""What may have become of a future, so that it has to be made again."""


def shipped(client: Any, model: Any) -> Any:
    """Return the future of a model; the task holds it, so that it can be made again where a worker died with it.

    Parameters
    ----------
    client : distributed.Client
    model : PrismClassifier
        Fitted.
    """
    key = task_name("prediction", "model", uuid4().hex, 0)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        future = client.submit(as_is, model, key=key, pure=False)
    wait(future)  # the scheduler may take a smaller graph first that was sent later, and would look for this in vain
    return future


def as_is(model: Any) -> Any:
    """Return the model."""
    return model


def by_rows(
    model: Any, method: str, X: Any, width: tuple[int, ...], dtype: Any, *, is_sparse: bool = False, **arguments: Any
) -> Any:
    """Return what a method says of each chunk, as a dask array; nothing is computed yet.

    Parameters
    ----------
    model : DaskPrismClassifier
        Fitted.
    method : str
        Of `PrismClassifier`.
    X : dask array of shape (n, d)
    width : tuple of int
        The shape of the result of a row.
    dtype : dtype
    is_sparse : bool
        Whether blocks are CSR matrices.
    **arguments
        Of the method.
    """
    return _stacked(answers(model, method, X, **arguments), X, width, dtype, is_sparse)


def ranked_by_rows(
    model: Any, method: str, X: Any, k: int, allowed: Iterable[Any] | None, dtypes: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Return labels and scores, both of shape (n, k), as dask arrays; see `by_rows`."""
    check_whole("k", k, 1, np.iinfo(np.int32).max)
    blocks = answers(model, method, X, k=k, allowed=allowed)
    first, second = (
        _stacked([block[place] for block in blocks], X, (k,), dtype, False) for place, dtype in enumerate(dtypes)
    )
    return first, second


def answers(model: Any, method: str, X: Any, **arguments: Any) -> list[Delayed]:
    """Return the delayed answers of a method, chunk by chunk; see `by_rows`."""
    return [_block(model, method, block, number, arguments) for number, block in enumerate(_checked(model, X))]


def score_by_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the mean of the scores of all chunks, by the weights of their rows.

    Parameters
    ----------
    model : DaskPrismClassifier
        Fitted.
    X, y, sample_weight : see `chunks.block_lists`
    """
    _checked(model, X)
    lists = block_lists(X, y, sample_weight)
    parts = [delayed(_scored, pure=True)(model.on_cluster(), *blocks) for blocks in zip(*lists, strict=True)]
    hits, weights = zip(*dask.compute(*parts), strict=True)
    return float(sum(hits) / sum(weights))


def _scored(model: Any, X: Any, y: Any, weight: Any = None) -> tuple[float, float]:
    """Return the score of rows times their weight, and the weight."""
    total = float(X.shape[0] if weight is None else np.sum(weight))
    return (total * model.score(X, y, weight) if total > 0 else 0.0), total


def _checked(model: Any, X: Any) -> list[Delayed]:
    check_is_fitted(model, "n_labels_")
    if X.ndim != 2 or X.numblocks[1] > 1:
        raise ValueError("rows must not be cut: X needs two dimensions and a single chunk of columns")
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {model.n_features_in_}")
    return list(np.ravel(X.to_delayed()))


def _block(model: Any, method: str, block: Delayed, number: int, arguments: dict[str, Any]) -> Delayed:
    """Return the delayed answer for one chunk."""
    token = tokenize(block.key, method, arguments)
    key = task_name("prediction", method.replace("_", "-"), token, number)
    return delayed(answered, pure=True)(model.on_cluster(), method, block, arguments, dask_key_name=key)


def answered(model: Any, method: str, X: Any, arguments: dict[str, Any]) -> Any:
    """Return what a method of the model says of rows."""
    return getattr(model, method)(X, **arguments)


def _stacked(blocks: list[Delayed], X: Any, width: tuple[int, ...], dtype: Any, is_sparse: bool) -> Any:
    meta = sp.csr_matrix((0, *width), dtype=dtype) if is_sparse else np.empty((0,) * (1 + len(width)), dtype)
    parts = [
        da.from_delayed(block, (n_rows, *width), dtype, meta) for block, n_rows in zip(blocks, X.chunks[0], strict=True)
    ]
    return da.concatenate(parts, axis=0)
