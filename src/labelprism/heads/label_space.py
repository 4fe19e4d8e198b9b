"""Features and labels as vectors of one space, in which a row lies near its labels.

The vector of a row is the sum of those of its features, each times its value, made unit; that of a label is the sum of
its rows, made unit. Centroids know only features that a label's own rows have; here features that mean the same lie
together, so that a row finds labels with which it shares none.

Only features are learned. They begin as the strongest directions in which features and labels vary together (the
largest singular vectors of X'Y, labels weighted by the inverse root of their frequency), and then move so that a row
lies nearer to its label than to those of other rows and to candidates. Labels follow after each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, csr_of, csr_parts
from labelprism._progress import watched
from labelprism._weights import label_mass

Arrays = dict[str, npt.NDArray[Any]]
Candidates = tuple[Int64, Int32]
Float64 = npt.NDArray[np.float64]

WIDTH = 64
"""The number of dimensions: a vector in bytes is a line of the cache (space_vectors.hpp)."""

LIST_LABELS = 96
"""The usual labels of a list; it has up to four times as many, and more when new ones join."""

MOST_LISTS = 16
"""So many lists are looked through for a row at most (space_lists.hpp)."""

_MINED_LISTS = 2  # are enough for rows that only look for what they are to be told from
_RATE = 1.5  # how far a feature moves in its first step
_SCALE = 5.0  # of cosines in the softmax: a soft one, so that labels keep their places relative to each other
_START = 0.3  # the size of features at first, for the steps to be large beside them
_FIRST_SQUARES = 1e-3
_MULTIPLICATIONS = 2  # of random vectors with X'Y, to find its strongest directions; 1 where rows look for candidates
_LEAST_EIGENVALUE = 1e-10  # of the largest: what is below is rounding
_FEATURES_AT_ONCE = 4096
_ENTRIES_AT_ONCE = 1 << 20
_LABELS_AT_ONCE = 64  # new ones, whose cosines with all others are held
_ONES = np.zeros(0, np.float32)  # where values or weights are all 1
_NO_LISTS = np.zeros(0, np.int32)


class Vectors(NamedTuple):
    """Vectors as models keep them.

    Attributes
    ----------
    steps : int8 array of shape (m, 64)
    scale : float32 array of shape (m,)
        What the steps of each vector are to be multiplied with.
    """

    steps: npt.NDArray[np.int8]
    scale: Float32


class SpaceLabels(NamedTuple):
    """The labels of a space.

    Attributes
    ----------
    vectors : Vectors
        Of length 1, or 0 for labels without rows.
    norms : float32 array of shape (c,)
        Of the sums of their rows, of which the vectors are the directions.
    """

    vectors: Vectors
    norms: Float32


class SievingSpace(NamedTuple):
    """A space that says which candidates of a row are near.

    Attributes
    ----------
    features, labels : Vectors
    lists : int32 array of shape (c,) or None
        See `label_lists`; None where it neither finds candidates nor leaves any out.
    """

    features: Vectors
    labels: Vectors
    lists: Int32 | None

    def kept(
        self, X: sp.csr_array, indptr: Int64, candidates: Int32, n_near: int, n_kept: int, n_threads: int = 1,
        most_lists: int = MOST_LISTS,
    ) -> tuple[Int64, Int32]:  # fmt: skip
        """Return the candidates of each row that are nearest to it, of those given and of the nearest of all labels.

        Of a few lists that are near the row, all labels are looked at.

        Parameters
        ----------
        X : csr_array of shape (n, d)
        indptr, candidates : int arrays of shapes (n + 1,) and (m,)
            The candidates of each row, ascending.
        n_near : int
            How many of all labels; 0 where there are no lists.
        n_kept : int
            How many candidates of a row are kept.
        n_threads : int
        most_lists : int
            Of how many lists that are near a row the labels are looked at, at most.

        Returns
        -------
        indptr, candidates : int arrays
            Those that are kept, ascending.
        """
        space = _core.LabelSpace(*self.features, *self.labels, _NO_LISTS if self.lists is None else self.lists)
        return space.sieved(*csr_parts(X), indptr, candidates, n_near, n_kept, n_threads, most_lists)

    def lists_of(self, labels: SpaceLabels, n_threads: int = 1) -> Int32 | None:
        """Return the lists of labels of further rows; see `joined_lists`."""
        return None if self.lists is None else joined_lists(self.lists, self.labels, labels.vectors, n_threads)


class Mining(NamedTuple):
    """How rows look for candidates in the space while it is learned.

    Attributes
    ----------
    every : int
        How many passes there are from one search to the next; the first one comes before the first pass.
    n_near, n_kept : int
        See `SievingSpace.kept`.
    """

    every: int
    n_near: int
    n_kept: int


class LearnedSpace(NamedTuple):
    """What was learned.

    Attributes
    ----------
    features : Vectors
    mined : tuple of int64 and int32 arrays or None
        CSR of the candidates of the rows that were found last; None without `Mining`.
    """

    features: Vectors
    mined: Candidates | None

    def arrays(self) -> Arrays:
        """Return all that there is, by name."""
        mined = {} if self.mined is None else {"mined_indptr": self.mined[0], "mined_labels": self.mined[1]}
        return {**self.features._asdict(), **mined}

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> LearnedSpace:
        """Return what had these arrays."""
        mined = (arrays["mined_indptr"], arrays["mined_labels"]) if "mined_indptr" in arrays else None
        return cls(Vectors(arrays["steps"], arrays["scale"]), mined)


def learned_space(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, candidates: Candidates, passes: int,
    seed: int, n_threads: int = 1, mining: Mining | None = None,
) -> LearnedSpace:  # fmt: skip
    """Learn the vectors of features.

    With `mining`, rows are told from the labels nearest to them, of those given and of all others: as they lie when
    the search is made.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Unit rows.
    Y : csr_array of shape (n, c), sorted
    weight : float32 array of shape (n,) or None
        How much each row counts.
    candidates : tuple of int64 and int32 arrays
        CSR of the labels, at least n rows of them, from which rows are to be told their own; none, if it has no rows.
    passes : int
        How many times all rows are learned from.
    seed : int
    n_threads : int
        The result does not depend on it.
    mining : Mining, optional
    """
    if (used := _used_features(X)) is not None:
        learned = learned_space(_columns(X, used), Y, weight, candidates, passes, seed, n_threads, mining)
        features = Vectors(np.zeros((X.shape[1], WIDTH), np.int8), np.zeros(X.shape[1], np.float32))
        features.steps[used], features.scale[used] = learned.features
        return LearnedSpace(features, learned.mined)
    relative = None if weight is None else np.maximum(weight / weight.mean(dtype=np.float64), 1e-30).astype(np.float32)
    vectors = _start(X, Y, relative, 1 if mining else _MULTIPLICATIONS, seed, n_threads)
    squares = np.full(X.shape[1], _FIRST_SQUARES, np.float32)
    own, counter = csr_parts(Y), _core.Counter()
    rows: Any = (*csr_parts(X), own.indptr, own.indices, _ONES if relative is None else relative)
    mined = None
    with watched(counter, passes * X.shape[0], "placing features", "rows"):
        for number in range(passes):
            labels = _label_sums(X, Y, relative, vectors, n_threads)
            _make_unit(labels)
            if mining is not None and number % mining.every == 0:
                mined = None  # makes room for the next
                of_now = (as_bytes(vectors, n_threads), as_bytes(labels, n_threads))
                mined = _mined(X, candidates, *of_now, mining, seed, n_threads)
            step = (labels, vectors, squares, number, passes, _RATE, _SCALE, seed, n_threads, counter)
            arguments: Any = (*rows, *(candidates if mined is None else mined), *step)
            _core.learn_space(*arguments)
    return LearnedSpace(as_bytes(vectors, n_threads), mined)


def label_vectors(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, features: Vectors, n_threads: int = 1,
    before: SpaceLabels | None = None,
) -> SpaceLabels:  # fmt: skip
    """Return the labels of a space.

    Parameters
    ----------
    X, Y, weight : see `learned_space`
    features : Vectors
        Of the d features.
    n_threads : int
        The result does not depend on it.
    before : SpaceLabels, optional
        Those of other rows, to which these are added; of at most c labels.
    """
    if (used := _used_features(X)) is not None:
        X, features = _columns(X, used), Vectors(features.steps[used], features.scale[used])
    sums = _label_sums(X, Y, weight, as_floats(features), n_threads)
    if before is not None:
        sums[: before.norms.size] += as_floats(before.vectors) * before.norms[:, None]
    norms = _make_unit(sums)
    return SpaceLabels(as_bytes(sums, n_threads), norms)


def space_cosines(
    features: Vectors, labels: Vectors, X: sp.csr_array, indptr: Int64, candidates: Int32, n_threads: int = 1
) -> Float32:
    """Return the cosines of rows and their candidates, entry by entry.

    Parameters
    ----------
    features, labels : Vectors
    X : csr_array of shape (n, d)
    indptr, candidates : int arrays of shapes (n + 1,) and (m,)
        The candidates of each row.
    n_threads : int
    """
    space = _core.LabelSpace(*features, *labels, _NO_LISTS)
    return space.cosines(*csr_parts(X), indptr, candidates, n_threads)


def label_lists(labels: Vectors, seed: int, n_threads: int = 1) -> Int32:
    """Return the list of every label: labels that lie together are in one.

    Parameters
    ----------
    labels : Vectors
    seed : int
    n_threads : int
        The result does not depend on it.
    """
    return _core.space_lists(*labels, LIST_LABELS, seed, n_threads)


def joined_lists(lists: Int32, before: Vectors, after: Vectors, n_threads: int = 1) -> Int32:
    """Return the lists of all labels after further rows.

    A label that had no place so far joins the list of the nearest one of those that had. Labels that still have none
    are dealt out.

    Parameters
    ----------
    lists : int32 array of shape (old labels,)
    before, after : Vectors
        Of the old labels and of all; of 0 where a label has no rows.
    n_threads : int
        The result does not depend on it.
    """
    n_new = after.scale.size - lists.size
    joined = np.concatenate([lists, np.arange(n_new, dtype=np.int32) % np.int32(lists.max(initial=0) + 1)])
    known = np.flatnonzero(before.scale > 0)
    joining = np.setdiff1d(np.flatnonzero(after.scale > 0), known)
    if not known.size:
        return joined
    old = as_floats(Vectors(before.steps[known], before.scale[known]))
    for begin in range(0, joining.size, _LABELS_AT_ONCE):
        part = joining[begin : begin + _LABELS_AT_ONCE]
        new = np.zeros((WIDTH, _LABELS_AT_ONCE), np.float32)
        new[:, : part.size] = as_floats(Vectors(after.steps[part], after.scale[part])).T
        cosines = _core.dense_times_block(old, new, n_threads)[:, : part.size]
        joined[part] = lists[known[np.argmax(cosines, axis=0)]]
    return joined


def as_bytes(vectors: Float32, n_threads: int = 1) -> Vectors:
    """Return vectors in bytes: steps of a 127th of the largest number of each."""
    return Vectors(*_core.vectors_in_bytes(vectors, n_threads))


def as_floats(vectors: Vectors) -> Float32:
    """Return vectors in float32, of shape (m, 64)."""
    return np.asarray(vectors.steps * vectors.scale[:, None], np.float32)


# ------------------------------------------------------------------------------------------------- arrays of a model


def space_arrays(features: Vectors, labels: SpaceLabels, lists: Int32 | None = None) -> Arrays:
    """Return the arrays that a model keeps of its space; `lists` where it finds and sieves candidates."""
    return {
        **({} if lists is None else {"space_lists": lists}),
        "space_features": features.steps,
        "space_feature_scale": features.scale,
        "space_labels": labels.vectors.steps,
        "space_label_scale": labels.vectors.scale,
        "space_label_norms": labels.norms,
    }


def kept_space(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Vectors, SpaceLabels] | None:
    """Return features and labels of a model's arrays; None where these have no space."""
    if "space_features" not in arrays:
        return None
    features = Vectors(arrays["space_features"], arrays["space_feature_scale"])
    labels, norms = Vectors(arrays["space_labels"], arrays["space_label_scale"]), arrays["space_label_norms"]
    if (
        norms.shape != labels.scale.shape
        or norms.dtype != np.float32
        or not (norms >= 0).all()
        or np.isinf(norms).any()
    ):
        raise ValueError("space_label_norms must have a number of 0 or more for every label; the model is damaged")
    return features, SpaceLabels(labels, norms)


def label_space(arrays: Mapping[str, npt.NDArray[Any]]) -> _core.LabelSpace | None:
    """Return what knows the cosines of rows and labels, of a model's arrays; None where these have no space."""
    kept = kept_space(arrays)
    return None if kept is None else _core.LabelSpace(*kept[0], *kept[1].vectors, arrays.get("space_lists", _NO_LISTS))


# ----------------------------------------------------------------------------------------------------- how it is done


def _mined(
    X: sp.csr_array, candidates: Candidates, features: Vectors, labels: Vectors, mining: Mining, seed: int,
    n_threads: int,
) -> Candidates:  # fmt: skip
    """Return the labels nearest to each row, of the candidates given and of all."""
    n = X.shape[0]
    given = (np.zeros(n + 1, np.int64), _NO_LISTS)
    if candidates[0].size > n:
        given = candidates[0][: n + 1], candidates[1][: candidates[0][n]]
    space = SievingSpace(features, labels, label_lists(labels, seed, n_threads))
    return space.kept(X, *given, mining.n_near, mining.n_kept, n_threads, _MINED_LISTS)


def _used_features(X: sp.csr_array) -> Int64 | None:
    """Return the features that occur, ascending; None where most do, so that it is not worth the time to pick them."""
    occurs = np.zeros(X.shape[1], bool)
    for begin in range(0, max(X.indices.size, 1), _ENTRIES_AT_ONCE):
        occurs[X.indices[begin : begin + _ENTRIES_AT_ONCE]] = True
        if 2 * np.count_nonzero(occurs) >= occurs.size:
            return None
    return np.flatnonzero(occurs)


def _columns(X: sp.csr_array, used: Int64) -> sp.csr_array:
    """Return a matrix without the columns that have no entries; `used` are the others."""
    place = np.zeros(X.shape[1], np.int32)
    place[used] = np.arange(used.size, dtype=np.int32)
    return csr_of(np.asarray(X.indptr, np.int64), place[X.indices], X.data, (X.shape[0], used.size))


def _start(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, n_multiplications: int, seed: int, n_threads: int
) -> Float32:
    """Return where features begin: a block of random vectors, multiplied with X'Y and made orthonormal."""
    rarity = (1 / np.sqrt(np.maximum(label_mass(Y, weight), 1e-6))).astype(np.float32)[:, None]
    signs = np.unpackbits(np.frombuffer(np.random.default_rng(seed).bytes(Y.shape[1] * WIDTH // 8), np.uint8))
    labels = signs.reshape(Y.shape[1], WIDTH).astype(np.float32)
    labels -= np.float32(0.5)
    labels *= rarity
    own, rows = csr_parts(Y)._replace(data=_ONES), csr_parts(X)
    of_row = _ONES if weight is None else weight
    for number in range(n_multiplications):
        features = _core.sums_through_rows(*own, *rows, X.shape[1], of_row, labels, False, n_threads)
        features = _orthonormal(features, n_threads)
        if number + 1 < n_multiplications:
            labels = _label_sums(X, Y, weight, features, n_threads, unit=False) * rarity
    size = np.sqrt(np.einsum("ij,ij->", features, features, dtype=np.float64) / max(X.shape[1], 1))
    return np.asarray(features * (_START / max(size, 1e-12)), np.float32)


def _label_sums(
    X: sp.csr_array, Y: sp.csr_array, weight: Float32 | None, features: Float32, n_threads: int, unit: bool = True
) -> Float32:
    """Return the sum of the vectors of each label's rows, of shape (c, 64)."""
    own = csr_parts(Y)._replace(data=_ONES)
    of_row = _ONES if weight is None else weight
    return _core.sums_through_rows(*csr_parts(X), *own, Y.shape[1], of_row, features, unit, n_threads)


def _make_unit(vectors: Float32) -> Float32:
    """Make vectors of length 1, in place, but for those that are 0; return the norms that they had."""
    norms = np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)))
    vectors /= np.maximum(norms, np.float32(1e-12))[:, None]
    return norms


def _orthonormal(vectors: Float32, n_threads: int) -> Float32:
    """Return columns that span the same space and are orthonormal; 0 for those that there are too many of."""
    gram = np.zeros((WIDTH, WIDTH))
    for begin in range(0, vectors.shape[0], _FEATURES_AT_ONCE):  # sums of float32 that are not too long
        part = vectors[begin : begin + _FEATURES_AT_ONCE]
        gram += _core.dense_times_block(np.ascontiguousarray(part.T), part, n_threads)
    # Not by LAPACK, whose threads go on waiting for more for a tenth of a second.
    values, directions = _core.symmetric_eigen((gram + gram.T) / 2)
    least = max(_LEAST_EIGENVALUE * values[0], np.finfo(np.float64).tiny)
    lengths = np.where(values > least, 1 / np.sqrt(np.maximum(values, least)), 0.0)
    return _core.dense_times_block(vectors, np.ascontiguousarray(directions * lengths, np.float32), n_threads)
