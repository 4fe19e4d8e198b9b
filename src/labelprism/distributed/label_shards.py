"""What is cut by labels: centroids, whose sums travel, and one-vs-rest classifiers, whose examples do."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from distributed import get_worker

from labelprism import _core
from labelprism._arrays import Float32, Int32, Int64, csr_parts
from labelprism.distributed.chunks import Chunk
from labelprism.distributed.sums import Partial, partly_added
from labelprism.heads.centroids import label_centroids, label_sums
from labelprism.heads.label_clusters import LabelClusters
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.recipe_stages import rounded

Float64 = npt.NDArray[np.float64]
LabelRange = tuple[int, int]

_MOST_ROUNDS = 1000  # of ranges, one after the other
_OFFERED_WITHIN = 0.25  # of a label's candidates, those that are in a cluster of a true label, about


def task_threads(n_jobs: int | None) -> int:
    """Return the threads of a task that has a worker for itself: all of the worker's, if it was not said otherwise."""
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    return max(int(get_worker().state.nthreads), 1)


def balanced_ranges(counts: npt.NDArray[Any], n_ranges: int) -> list[LabelRange]:
    """Return ranges of labels of about the same work, none of them empty.

    Parameters
    ----------
    counts : array of shape (c,)
        The work of each label.
    n_ranges : int
        At most so many.
    """
    c = counts.size
    n_ranges = max(min(n_ranges, c), 1)
    work = np.cumsum(counts + 1.0)
    cuts = np.searchsorted(work, work[-1] * np.arange(1, n_ranges) / n_ranges) + 1
    ends = np.unique(np.concatenate([[0], np.minimum(cuts, c), [c]])).tolist()
    return list(itertools.pairwise(ends))


def range_count(n_workers: int, n_bytes: int, per_row: float, memory: float) -> int:
    """Return into how many ranges the labels of the head are cut: one for each worker, or several where rows are many.

    Parameters
    ----------
    n_workers : int
    n_bytes : int
        The size of all rows.
    per_row : float
        How many labels and candidates a row has: so many ranges may want it.
    memory : float
        The bytes that the rows of a range may have.
    """
    rounds = 1
    while rounds < _MOST_ROUNDS and n_bytes * (1 - (1 - 1 / (n_workers * rounds)) ** per_row) > memory:
        rounds += 1
    return n_workers * rounds


class Lists(NamedTuple):
    """Labels of rows, or their candidates: CSR without values."""

    indptr: Int64
    labels: Int32

    @property
    def lengths(self) -> Int64:
        """How many each row has."""
        return np.diff(self.indptr)

    def inside(self, labels: LabelRange) -> Lists:
        """Return those of a range of labels, numbered from 0."""
        first, end = labels
        is_inside = (self.labels >= first) & (self.labels < end)
        lengths = np.zeros(self.indptr.size - 1, np.int64)
        filled = np.flatnonzero(self.lengths)
        lengths[filled] = np.add.reduceat(is_inside, self.indptr[filled], dtype=np.int64) if filled.size else 0
        return Lists(_cumulated(lengths), self.labels[is_inside] - np.int32(first))

    def only(self, rows: Int64) -> Lists:
        """Return the lists of some rows, where all others are empty."""
        return Lists(_cumulated(self.lengths[rows]), self.labels)

    def matrix(self, n_labels: int) -> sp.csr_array:
        """Return them as a matrix of ones."""
        ones = np.ones(self.labels.size, np.float32)
        return sp.csr_array((ones, self.labels, self.indptr), shape=(self.indptr.size - 1, n_labels))


def lists_of(Y: sp.csr_array) -> Lists:
    """Return the labels of rows."""
    parts = csr_parts(Y)
    return Lists(parts.indptr, parts.indices)


def one_after_the_other(lists: Sequence[Lists]) -> Lists:
    """Return the lists of rows after those of other rows."""
    return Lists(
        _cumulated(np.concatenate([own.lengths for own in lists])), np.concatenate([own.labels for own in lists])
    )


def _cumulated(lengths: Int64) -> Int64:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


class RowClasses(NamedTuple):
    """The classes of rows where labels are clustered; see `LabelClusters`."""

    own: Lists
    asked: Lists
    """Those of the candidates."""


def row_classes(chunk: Chunk, candidates: Lists, clusters: LabelClusters, is_held: bool = False) -> RowClasses:
    """Return the classes of a chunk's rows, and of their candidates.

    Parameters
    ----------
    chunk : Chunk
    candidates : Lists
    clusters : LabelClusters
    is_held : bool
        Whether the rows are held out: then their margins are wanted for all candidates within clusters.
    """
    own, n_seen = lists_of(chunk.Y), 0 if is_held else chunk.X.shape[0]
    asked = clusters.candidate_classes(*candidates, *own, n_seen)
    return RowClasses(Lists(*clusters.label_classes(*own)), Lists(*asked))


# ------------------------------------------------------------------------------------------------------------ centroids


class Centroids(NamedTuple):
    """The centroids of a range of labels, and the norms of the sums that they are the directions of."""

    centre: sp.csr_array
    norms: Float64


def range_sums(chunk: Chunk, labels: LabelRange) -> sp.csr_array:
    """Return the sums of the rows of each label of a range, of shape (labels, d)."""
    inside = lists_of(chunk.Y).inside(labels)
    return label_sums(chunk.X, inside.matrix(labels[1] - labels[0]), chunk.weight)


def group_sums(chunks: Sequence[Chunk], numbers: Sequence[int], n_chunks: int, labels: LabelRange) -> Partial:
    """Return `range_sums` over some chunks, by their numbers among all, as far as they can be added up."""
    sums = [{(0, number): range_sums(chunk, labels)} for number, chunk in zip(numbers, chunks, strict=True)]
    return partly_added(sums, n_chunks)


def range_centroids(sums: sp.csr_array, more: Chunk | None, labels: LabelRange, n_features: int) -> Centroids:
    """Return the centroids of a range of labels, with further rows if there are any."""
    n_labels, d = sums.shape
    rows = Chunk(sp.csr_array((0, d), dtype=np.float32), sp.csr_array((0, n_labels), dtype=np.float32), None)
    if more is not None:
        rows = Chunk(more.X, lists_of(more.Y).inside(labels).matrix(n_labels), more.weight)
    return Centroids(*label_centroids(*rows, n_features, start=sums))


def stacked(matrices: Sequence[sp.csr_array]) -> sp.csr_array:
    """Return matrices one below the other."""
    return sp.csr_array(sp.vstack(list(matrices), format="csr"))


# ----------------------------------------------------------------------------------------------------------------- head


class Examples(NamedTuple):
    """The rows of a chunk that have a label of a range, or have one among their candidates.

    Attributes
    ----------
    X : csr_array of shape (m, d)
    labels, candidates : Lists
        Of the range, numbered from 0.
    weight : float32 array of shape (m,) or None
    rows : int64 array of shape (m,)
        Their places in the chunk.
    """

    X: sp.csr_array
    labels: Lists
    candidates: Lists
    weight: Float32 | None
    rows: Int64


class Shard(NamedTuple):
    """The classifiers of a range of labels.

    Attributes
    ----------
    weights : csr_array of shape (labels, d)
    bias : float32 array of shape (labels,)
    margins : csr_array of shape (held-out rows, labels)
        By classifiers that had not seen these rows.
    """

    weights: sp.csr_array
    bias: Float32
    margins: sp.csr_array


def expected_examples(labels: Float64, sample: Int64 | None, n_sampled: int, n_rows: int, per_row: int) -> Float64:
    """Return about how many rows each label will be learned from, before the candidates of all rows are known.

    Parameters
    ----------
    labels : float64 array of shape (c,)
        How many rows have each label.
    sample : int64 array of shape (c,) or None
        How many of some rows have each label as a candidate,
    n_sampled : int
        so many rows.
    n_rows : int
        All rows.
    per_row : int
        Candidates of a row at most. Where there is no sample, they are taken to be as frequent as the labels.
    """
    if sample is None or not n_sampled:
        return np.asarray(labels * (1 + per_row * n_rows / max(labels.sum(), 1.0)))
    return np.asarray(labels + sample * (n_rows / n_sampled))


def expected_of_classes(labels: Float64, work: Float64, clusters: LabelClusters) -> Float64:
    """Return about how many rows each class will be learned from; see `LabelClusters`.

    Parameters
    ----------
    labels, work : float64 arrays of shape (c,)
        How many rows have each label, and `expected_examples`.
    clusters : LabelClusters
    """
    within = labels + _OFFERED_WITHIN * (work - labels)
    of_clusters = [
        np.bincount(own, within, clusters.n_clusters) for own in clusters.of_label
    ]  # a little too many: rows with several labels of a cluster count for each
    return np.concatenate([work, *[within] * clusters.n_clusterings, np.sum(of_clusters, axis=0)])


def group_examples(
    chunks: Sequence[Chunk], candidates: Sequence[Lists | RowClasses], labels: LabelRange, after: None = None
) -> list[Examples]:
    """Return what a range of labels learns from in some chunks; `after` the range before it is done."""
    return [examples_of(*pair, labels) for pair in zip(chunks, candidates, strict=True)]


def examples_of(chunk: Chunk, candidates: Lists | RowClasses, labels: LabelRange) -> Examples:
    """Return what a range of labels, or of classes, learns from in a chunk."""
    classes = candidates if isinstance(candidates, RowClasses) else RowClasses(lists_of(chunk.Y), candidates)
    own, asked = classes.own.inside(labels), classes.asked.inside(labels)
    rows = np.flatnonzero((own.lengths > 0) | (asked.lengths > 0))
    weight = None if chunk.weight is None else chunk.weight[rows]
    return Examples(chunk.X[rows], own.only(rows), asked.only(rows), weight, rows)


def done(shard: Shard) -> None:
    """Tell that a range is trained, so that the rows of the next may come."""


def fitted_shard(
    groups: Sequence[Sequence[Examples]], numbers: Sequence[Sequence[int]], held: Examples | None, n_held: int,
    joins: bool, labels: LabelRange, head: OneVsRestHead, seed: int,
) -> Shard:  # fmt: skip
    """Train the classifiers of a range of labels: the same bits as of a head over all labels.

    Parameters
    ----------
    groups : sequence of sequences of Examples
        Of all chunks, group by group,
    numbers : sequence of sequences of int
        and the numbers of the chunks.
    held : Examples or None
        Of the held-out rows,
    n_held : int
        so many in all.
    joins : bool
        Whether they are learned from in the end.
    labels : (int, int)
    head : OneVsRestHead
        Its parameters.
    seed : int
        Of the recipe.
    """
    by_number = {number: own for each in zip(numbers, groups, strict=True) for number, own in zip(*each, strict=True)}
    seen = [by_number[number] for number in range(len(by_number))]
    learned = [*seen, held] if held is not None and joins else list(seen)
    X = stacked([own.X for own in learned])
    own, asked = (one_after_the_other([getattr(own, name) for own in learned]) for name in ("labels", "candidates"))
    weight = None if learned[0].weight is None else np.concatenate([own.weight for own in learned])
    n_seen = sum(own.rows.size for own in seen)
    is_held = np.zeros(X.shape[0], np.uint8)
    is_held[n_seen:] = 1
    weights, bias, noted = _fitted(X, own, asked, is_held, weight, labels, head, seed)
    size = labels[1] - labels[0]
    margins = sp.csr_array((n_held, size), dtype=np.float32)
    if held is not None and joins:
        by_label = sp.csr_array((noted[2], noted[1] - n_seen, noted[0]), shape=(size, held.rows.size))
        margins = _placed(sp.csr_array(by_label.T.tocsr()), held.rows, n_held)
    elif held is not None:
        margins = _placed(_scored(held, weights, bias), held.rows, n_held)
    return Shard(weights, bias, margins)


def _fitted(
    X: sp.csr_array, own: Lists, asked: Lists, is_held: npt.NDArray[np.uint8], weight: Float32 | None,
    labels: LabelRange, head: OneVsRestHead, seed: int,
) -> tuple[sp.csr_array, Float32, Any]:  # fmt: skip
    """Return weights as models keep them, biases, and the margins of held-out rows by label."""
    settings = head._settings(seed)
    first, end = labels
    nothing, no_start = np.zeros(0, np.float32), csr_parts(sp.csr_array((0, 0), dtype=np.float32))
    # Random numbers are keyed by the label, whose number is that among all.
    rows: Any = (*csr_parts(X), X.shape[1], own.indptr, own.labels + np.int32(first), end)
    examples: Any = (asked.indptr, asked.labels + np.int32(first), is_held, nothing if weight is None else weight)
    rest: Any = (*no_start, nothing, first, end, settings, task_threads(head.n_jobs))
    found, bias, noted = _core.fit_one_vs_rest(*rows, *examples, *rest)
    return sp.csr_array((rounded(found[2]), found[1], found[0]), shape=(end - first, X.shape[1])), bias, noted


def _scored(held: Examples, weights: sp.csr_array, bias: Float32) -> sp.csr_array:
    """Return the margins of rows that the classifiers have not learned from, for their candidates."""
    by_feature = sp.csr_array(weights.T.tocsr())
    asked = held.candidates
    scores = _core.candidate_scores(
        *(*csr_parts(held.X), held.X.shape[1], *csr_parts(by_feature), bias, asked.indptr, asked.labels)
    )
    return sp.csr_array((scores, asked.labels, asked.indptr), shape=(held.rows.size, weights.shape[0]))


def _placed(matrix: sp.csr_array, rows: Int64, n_rows: int) -> sp.csr_array:
    """Return rows of a matrix at their places among all."""
    lengths = np.zeros(n_rows, np.int64)
    lengths[rows] = np.diff(matrix.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array((matrix.data, matrix.indices, indptr), shape=(n_rows, matrix.shape[1]))
