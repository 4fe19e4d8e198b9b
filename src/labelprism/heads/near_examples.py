"""The training examples nearest to a row, whose labels are likely to be its own.

Head, forest and centroids sum up what a label's examples have in common; what is true of two features together, or of a
few examples that are like no others, is lost in it. The nearest examples themselves still know. Each feature has a list
of the examples in which it is strongest; an example's nearness is its cosine with the row, over the row's six strongest
features; the hundred nearest vote for their labels, by the fourth power of their nearness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, csr_of, csr_parts

Arrays = dict[str, npt.NDArray[Any]]

MOST_ENTRIES = 1 << 26
"""Data with more stored values is taken to be too large for a model that keeps a good part of them."""

_TABLES = ("begin", "row", "value", "label_begin", "label")  # as the arrays of a model are named, after "example_"


class Examples(NamedTuple):
    """Examples that may vote.

    Attributes
    ----------
    lists : csr_array of shape (d, n), float32
        For each feature, the examples in which it is strongest; as from `strongest_examples`.
    label_indptr, labels : int arrays of shapes (n + 1,) and (m,)
        The labels of each example.
    weight : float32 array of shape (n,) or None
        How much each example counts.
    """

    lists: sp.csr_array
    label_indptr: Int64
    labels: Int32
    weight: Float32 | None


def strongest_examples(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, longest: int, n_threads: int = 1
) -> Examples:
    """Return examples by feature, for each feature those of its largest values.

    Parameters
    ----------
    X : csr_array of shape (n, d), sorted
        Unit rows.
    Y : csr_array of shape (n, c)
    weight : float32 array of shape (n,) or None
    longest : int
        The most examples of a feature.
    n_threads : int
        The result does not depend on it.
    """
    lists = _core.strongest_examples(*csr_parts(X), X.shape[1], longest, n_threads)
    own = csr_parts(Y)
    return Examples(csr_of(*lists, (X.shape[1], X.shape[0])), own.indptr, own.indices, weight)


def joined_examples(parts: Sequence[Examples], longest: int, n_threads: int = 1) -> Examples:
    """Return the examples of several parts as if they had been taken together.

    Parameters
    ----------
    parts : sequence of Examples
        Each with at least its `longest` strongest examples of a feature. Where some have weights, others weigh 1.
    longest, n_threads : see `strongest_examples`
    """
    X = sp.csr_array(sp.hstack([part.lists for part in parts], format="csr").T.tocsr())
    starts = np.concatenate([[0], np.cumsum([part.labels.size for part in parts])])
    ends = [part.label_indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    weight = None
    if any(part.weight is not None for part in parts):
        weight = np.concatenate([_weight_of(part) for part in parts])
    lists = csr_of(*_core.strongest_examples(*csr_parts(X), X.shape[1], longest, n_threads), X.T.shape)
    labels = np.concatenate([part.labels for part in parts])
    return Examples(lists, np.concatenate([[0], *ends]).astype(np.int64), labels, weight)


def _weight_of(part: Examples) -> Float32:
    return np.ones(part.label_indptr.size - 1, np.float32) if part.weight is None else part.weight


def example_arrays(examples: Examples) -> Arrays:
    """Return the arrays that a model keeps of its examples: values as float16, and weights if there are any."""
    begin, row, value = csr_parts(examples.lists)
    halves = value.astype(np.float16).view(np.uint16)
    tables: Any = (begin, row, halves, examples.label_indptr, examples.labels)
    arrays: Arrays = {f"example_{name}": table for name, table in zip(_TABLES, tables, strict=True)}
    return arrays if examples.weight is None else {**arrays, "example_weight": examples.weight}


def kept_examples(arrays: Mapping[str, npt.NDArray[Any]]) -> Examples:
    """Return the examples of a model's arrays."""
    begin, row, value, label_begin, label = (np.asarray(arrays[f"example_{name}"]) for name in _TABLES)
    lists = csr_of(begin, row, value.view(np.float16).astype(np.float32), (begin.size - 1, label_begin.size - 1))
    return Examples(lists, label_begin, label, arrays.get("example_weight"))


def near_examples(arrays: Mapping[str, npt.NDArray[Any]]) -> _core.NearExamples | None:
    """Return what finds the examples near a row, of a model's arrays; None where these have no examples."""
    if "example_begin" not in arrays:
        return None
    tables: Any = [arrays[f"example_{name}"] for name in _TABLES]
    tables.append(arrays.get("example_weight", np.zeros(0, np.float32)))
    return _core.NearExamples(*tables)


def example_votes(
    examples: Examples, X: sp.csr_array, indptr: Int64, labels: Int32, n_labels: int, n_threads: int = 1
) -> Float32:
    """Return log(0.01 + share of the votes) for the candidates of rows, entry by entry.

    Parameters
    ----------
    examples : Examples
    X : csr_array of shape (n, d), sorted
        Unit rows that are not among the examples.
    indptr, labels : int arrays of shapes (n + 1,) and (m,)
        The candidates of each row.
    n_labels : int
    n_threads : int
    """
    found = near_examples(example_arrays(examples))
    assert found is not None
    return found.votes(*csr_parts(X), indptr, labels, n_labels, n_threads)
