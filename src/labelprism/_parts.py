"""Fitted filters and heads as plain values and arrays, for the model directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import csr_parts
from labelprism.filters import AllLabels, MostFrequent, SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead

Arrays = dict[str, npt.NDArray[Any]]

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (SpectralTree, SpectralForest, AllLabels, MostFrequent, LogisticHead, LowRankHead, ConstantHead)
}
_ATTRIBUTE = re.compile(r"_[a-z][a-z0-9_]*|[a-z][a-z0-9_]*_")  # learned ones; nothing else may be set by a file
_PARTS_OF_CSR = ("indptr", "indices", "data")


def packed(part: Any, prefix: str) -> tuple[dict[str, Any], Arrays]:
    """Return what a fitted part is: a description that is fit for JSON, and arrays with names that begin with prefix.

    Parameters
    ----------
    part : Filter or Head
    prefix : str
    """
    name = type(part).__name__
    if name not in _KINDS:
        raise ValueError(f"{name} cannot be saved; those that can are {', '.join(sorted(_KINDS))}. Pickle keeps others")
    values: dict[str, Any] = {}
    matrices: dict[str, list[int]] = {}
    arrays: Arrays = {}
    for key, value in part.__getstate__().items():
        if key in part.get_params(deep=False) or key in ("candidates_", "_sklearn_version"):  # those are the filter's
            continue
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}_{key.strip('_')}"] = value
            values[key] = {"array": f"{prefix}_{key.strip('_')}"}
        elif isinstance(value, sp.csr_array):
            matrices[key] = list(value.shape)
            arrays |= {
                f"{prefix}_{key.strip('_')}_{piece}": array for piece, array in csr_parts(value)._asdict().items()
            }
        else:
            values[key] = _plain(value)
    parameters = {
        key: value if isinstance(value, (int, float, str, type(None))) else None
        for key, value in ((key, _plain(value)) for key, value in part.get_params(deep=False).items())
    }
    return {"kind": name, "parameters": parameters, "values": values, "matrices": matrices}, arrays


def _plain(value: Any) -> Any:
    """Return a number of NumPy, which JSON does not know, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def unpacked(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Any:
    """Return the part that `packed` described."""
    try:
        kind = _KINDS[meta["kind"]]
        part = kind(**meta["parameters"])
        for key in (*meta["values"], *meta["matrices"]):
            if not _ATTRIBUTE.fullmatch(key):
                raise ValueError(f"the description of the {prefix} sets {key!r}, which is nothing that is learned")
        for key, value in meta["values"].items():
            setattr(part, key, arrays[value["array"]] if isinstance(value, dict) else value)
        for key, shape in meta["matrices"].items():
            indptr, indices, data = (arrays[f"{prefix}_{key.strip('_')}_{piece}"] for piece in _PARTS_OF_CSR)
            matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape))
            matrix.check_format(full_check=True)
            setattr(part, key, matrix)
        if isinstance(part, SpectralForest):
            _ = part.scorer_  # which checks the arrays
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"the description of the {prefix} is damaged: {error!r}") from error
    return part
