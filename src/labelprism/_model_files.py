"""A fitted `PrismClassifier` as what the model directory holds: a description fit for JSON, and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from labelprism._parts import packed, unpacked
from labelprism._string_arrays import PackedStrings, packed_strings
from labelprism._targets import Classes, TargetFormat
from labelprism._views import packed_view, unpacked_view
from labelprism.features import TextFeatures
from labelprism.recipe import DefaultRecipe

if TYPE_CHECKING:
    from labelprism.estimator import PrismClassifier

Arrays = dict[str, npt.NDArray[Any]]

_MOST_THREADS = 1024
_LARGEST_NAMES = 1 << 34  # bytes of an array of names, which is as wide as the longest
_PARAMETERS = ("preset", "objective", "normalize", "threshold", "n_jobs", "verbose")
_FIRST_TARGET = {"kind": "sparse", "dtype": "<f4", "container": "array"}  # where a model does not tell
_VIEWS = ("filter_features", "head_features")


def packed_model(model: PrismClassifier) -> tuple[dict[str, Any], Arrays]:
    """Return what a fitted model is.

    Parameters
    ----------
    model : PrismClassifier
    """
    parameters = {name: _plain(getattr(model, name)) for name in _PARAMETERS}
    meta: dict[str, Any] = {"n_features": model.n_features_in_, "n_labels": model.n_labels_, "parameters": parameters}
    meta["target"] = asdict(model._target_format)
    meta["classes"], arrays = _packed_classes(model.classes_)
    arrays["class_prior"] = model.class_prior_
    if hasattr(model, "feature_names_in_"):
        meta["feature_names"], more = _packed_names("feature_names", model.feature_names_in_.tolist(), "text")
        arrays |= more
    for name in _VIEWS:
        meta[name], more = packed_view(name, getattr(model, f"{name}_", None))
        arrays |= more
    if hasattr(model, "features_"):
        if not isinstance(model.features_, TextFeatures):
            name = type(model.features_).__name__
            raise ValueError(f"features is a {name}; a model directory can hold TextFeatures only. Pickle keeps others")
        meta["features"] = model.features_.meta()
        arrays |= {f"features_{name}": array for name, array in model.features_.arrays().items()}
    if hasattr(model, "recipe_"):
        meta["recipe"] = model.recipe_.meta
        return meta, model.recipe_.arrays | arrays  # a recipe that was loaded has our arrays of then among its own
    meta["filter"], of_filter = packed(model.filter_, "filter")
    meta["head"], of_head = packed(model.head_, "head")
    return meta, arrays | of_filter | of_head


def unpacked_model(
    kind: type[PrismClassifier], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> PrismClassifier:
    """Return the model that `packed_model` described.

    Parameters
    ----------
    kind : type
        The class of the model.
    meta, arrays : mappings
        Whatever they hold, nothing of it is executed.
    """
    parameters = dict(meta["parameters"])
    if not set(parameters) <= set(_PARAMETERS):
        raise ValueError(f"the parameters {sorted(set(parameters) - set(_PARAMETERS))} cannot be stored")
    model = kind(**parameters)
    _check_stored_threads(model.n_jobs)
    model.n_features_in_, model.n_labels_ = int(meta["n_features"]), int(meta["n_labels"])
    if "recipe" in meta:
        model.recipe_ = DefaultRecipe(arrays, meta["recipe"])
    else:
        model.filter_ = unpacked(meta["filter"], arrays, "filter")
        model.head_ = unpacked(meta["head"], arrays, "head")
        model.head_.candidates_ = model.filter_.leaf_candidates_
        if model.preset != "paper":
            model.filter, model.head = clone(model.filter_), clone(model.head_)
    of_part = (model.recipe_ if "recipe" in meta else model.filter_).n_labels_
    if of_part != model.n_labels_:
        raise ValueError(f"the parts have {of_part} labels, expected {model.n_labels_}")
    for name in _VIEWS:
        view = unpacked_view(meta.get(name), arrays, model.n_features_in_)
        setattr(model, name, view)
        setattr(model, f"{name}_", view)
    _restore_targets(model, meta, arrays)
    if "feature_names" in meta:
        names = _unpacked_names("feature_names", meta["feature_names"], arrays)
        model.feature_names_in_ = _objects(names, model.n_features_in_)
    if "features" in meta:
        own = {name.removeprefix("features_"): array for name, array in arrays.items() if name.startswith("features_")}
        model.features_ = TextFeatures.from_arrays(meta["features"], own)
        model.features = clone(model.features_)
    return model


def _restore_targets(model: PrismClassifier, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    c = model.n_labels_
    model._target_format = TargetFormat(**meta.get("target", _FIRST_TARGET))
    model.classes_ = _unpacked_classes(meta["classes"], arrays, c) if "classes" in meta else np.arange(c)
    # Models of the first format may lack it; there every label is as frequent as the others.
    prior = np.asarray(arrays.get("class_prior", np.full(c, 1 / c)))
    if prior.shape != (c,) or prior.dtype != np.float64:
        raise ValueError(f"class_prior has shape {prior.shape}, expected ({c},)")
    model.class_prior_ = prior


# --------------------------------------------------------------------------------------------------------------- names


def _packed_classes(classes: Classes) -> tuple[dict[str, Any], Arrays]:
    """Return names of labels as what is fit for JSON, and arrays: NumPy's own arrays of strings would be pickled."""
    if classes.dtype.kind in "iubf":
        if np.array_equal(classes, np.arange(classes.size)) and classes.dtype == np.int64:
            return {"kind": "range"}, {}
        wide: npt.NDArray[Any] = classes.astype({"b": np.bool_, "f": np.float64}.get(classes.dtype.kind, np.int64))
        return {"kind": "numbers", "dtype": classes.dtype.str}, {"classes": wide}
    names = classes.tolist()
    if all(type(name) is str for name in names):
        meta, arrays = _packed_names("classes", names, "text")
    elif all(type(name) in (str, int, float, bool) for name in names):
        meta, arrays = _packed_names("classes", [json.dumps(name) for name in names], "json")
    else:
        strange = next(name for name in names if type(name) not in (str, int, float, bool))
        raise ValueError(f"labels of type {type(strange).__name__} cannot be saved; pickle keeps them")
    return {**meta, "dtype": "object" if classes.dtype == object else "str"}, arrays


def _packed_names(prefix: str, names: list[str], kind: str) -> tuple[dict[str, Any], Arrays]:
    text, offsets = packed_strings(names)
    return {"kind": kind}, {f"{prefix}_text": text, f"{prefix}_offsets": offsets}


def _unpacked_names(prefix: str, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    if meta["kind"] not in ("text", "json"):
        raise ValueError(f"{prefix} cannot be of the kind {meta['kind']!r}")
    names = PackedStrings(np.asarray(arrays[f"{prefix}_text"]), np.asarray(arrays[f"{prefix}_offsets"]))[:]
    if meta["kind"] == "text":
        return names
    values = [json.loads(name) for name in names]
    if not all(type(value) in (str, int, float, bool) for value in values):
        raise ValueError(f"{prefix} holds other things than strings and numbers")
    return values


def _unpacked_classes(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], c: int) -> Classes:
    if meta["kind"] == "range":
        return np.arange(c)
    if meta["kind"] == "numbers":
        dtype = np.dtype(meta["dtype"])
        classes = np.asarray(arrays["classes"])
        if dtype.kind not in "iubf" or classes.shape != (c,):
            raise ValueError(f"classes are {dtype} of shape {classes.shape}, expected numbers of shape ({c},)")
        return classes.astype(dtype)
    names = _unpacked_names("classes", meta, arrays)
    if meta["dtype"] == "object":
        return _objects(names, c)
    if not all(type(name) is str for name in names) or len(names) != c:
        raise ValueError(f"there are {len(names)} names, expected {c} strings")
    if 4 * c * max(map(len, names), default=0) > _LARGEST_NAMES:
        raise ValueError("an array of the names would be too large")
    return np.array(names)


def _objects(names: list[Any], n: int) -> Classes:
    if len(names) != n:
        raise ValueError(f"there are {len(names)} names, expected {n}")
    return np.fromiter(names, object, n)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _check_stored_threads(n_jobs: Any) -> None:
    """Refuse what `save` cannot have written, before a forged model starts a million threads."""
    if n_jobs is not None and (type(n_jobs) is not int or n_jobs == 0 or abs(n_jobs) > _MOST_THREADS):
        raise ValueError(f"n_jobs must be null or a whole number up to {_MOST_THREADS}, but not 0, got {n_jobs!r}")
