"""Which features a part sees: `filter_features` and `head_features` of the estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from labelprism.data.dataset import as_features

Arrays = dict[str, npt.NDArray[Any]]


def check_view(name: str, view: Any) -> None:
    """Make sure that something can choose features.

    Parameters
    ----------
    name : str
        The parameter.
    view : None, slice, array of int or of bool, or transformer
    """
    if view is None or isinstance(view, slice) or (hasattr(view, "fit") and hasattr(view, "transform")):
        return
    columns = np.asarray(view)
    if columns.ndim != 1 or columns.dtype.kind not in "iub" or not columns.size:
        raise ValueError(
            f"{name} must be None, a slice, an array of feature numbers (or n_features booleans), or a transformer; "
            f"got {view!r}"
        )


def fitted_view(name: str, view: Any, X: Any, Y: sp.csr_array) -> Any:
    """Return a view that can be applied: a slice, an array of feature numbers, or a fitted clone of a transformer.

    Parameters
    ----------
    name : str
        The parameter.
    view : None, slice, array of int or of bool, or transformer
    X : csr_array or float32 array of shape (n, d)
    Y : csr_array of shape (n, c)
        Labels, for transformers that learn from them.
    """
    d = X.shape[1]
    if view is None:
        return None
    if hasattr(view, "fit"):
        return clone(view).fit(X, Y)
    if isinstance(view, slice):
        columns = np.arange(d)[view]
        if not columns.size:
            raise ValueError(f"{name} is {view}, which is none of the {d} features")
        return view
    columns = np.asarray(view)
    if columns.dtype == bool:
        if columns.shape != (d,):
            raise ValueError(f"{name} has {columns.size} booleans, but X has {d} features")
        columns = np.flatnonzero(columns)
    if columns.size == 0 or columns.min() < -d or columns.max() >= d:
        raise ValueError(f"{name} must hold numbers of features, from 0 to {d - 1}")
    return np.where(columns < 0, columns + d, columns).astype(np.int64)


def seen(view: Any, X: Any) -> Any:
    """Return X as a part sees it.

    Parameters
    ----------
    view : None, slice, int64 array or fitted transformer
    X : csr_array or float32 array of shape (n, d)
    """
    if view is None:
        return X
    if hasattr(view, "transform"):
        return as_features(view.transform(X))
    return as_features(X[:, view])


def seen_feature(view: Any, feature: int, n_features: int) -> int | None:
    """Return which feature of X a feature that a part sees is; None where a transformer has made it."""
    if view is None:
        return feature
    if hasattr(view, "transform"):
        return None
    return int(np.arange(n_features)[view][feature]) if isinstance(view, slice) else int(view[feature])


def packed_view(name: str, view: Any) -> tuple[Any, Arrays]:
    """Return a fitted view as what is fit for JSON, and arrays."""
    if view is None:
        return None, {}
    if isinstance(view, slice):
        return {"slice": [None if end is None else int(end) for end in (view.start, view.stop, view.step)]}, {}
    if isinstance(view, np.ndarray):
        return {"columns": name}, {name: view}
    raise ValueError(f"{name} is a transformer, which a model directory cannot hold; pickle keeps it")


def unpacked_view(meta: Any, arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> Any:
    """Return the view that `packed_view` described."""
    if meta is None:
        return None
    if "slice" in meta:
        start, stop, step = meta["slice"]
        if not all(end is None or type(end) is int for end in (start, stop, step)) or step == 0:
            raise ValueError(f"a slice of features is damaged: {meta['slice']!r}")
        return slice(start, stop, step)
    columns = np.asarray(arrays[meta["columns"]])
    if columns.ndim != 1 or columns.dtype != np.int64 or not columns.size:
        raise ValueError("an array of features is damaged")
    if columns.min() < 0 or columns.max() >= n_features:
        raise ValueError("an array of features holds numbers out of range")
    return columns
