"""The user's dask arrays as chunks of rows that training can rely on, and the rows that are held out of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism._arrays import Float32, Int64, as_csr, with_narrow_indices
from labelprism._targets import TargetFormat, encode_known, encode_targets
from labelprism._weights import check_sample_weight, label_mass
from labelprism.composition import unit_rows
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.sums import added

Float64 = npt.NDArray[np.float64]


class Chunk(NamedTuple):
    """Some rows, one after the other.

    Attributes
    ----------
    X : csr_array of shape (n, d)
    Y : csr_array of shape (n, c)
    weight : float32 array of shape (n,) or None
        How much each row counts; None where all count the same.
    """

    X: sp.csr_array
    Y: sp.csr_array
    weight: Float32 | None


class BlockFacts(NamedTuple):
    """What is asked of a block before chunks are made.

    Attributes
    ----------
    n_rows : int
        Of X; and of y and of the weights, which must be the same.
    n_features : int
    n_labels : int
        The columns of y; of classes those that the block has.
    classes : array or None
        The classes, sorted; None where y is a matrix.
    format : TargetFormat or None
        None of an empty block.
    """

    n_rows: int
    n_features: int
    n_labels: int
    classes: npt.NDArray[Any] | None
    format: TargetFormat | None


class ChunkFacts(NamedTuple):
    """What is known of a chunk.

    Attributes
    ----------
    n_rows, n_entries, n_labels : int
        Rows, entries of X, labels of all rows together.
    """

    n_rows: int
    n_entries: int
    n_labels: int


class LabelCounts(NamedTuple):
    """Of a chunk, or of all: the labels of the rows by weight, their number, and the weight of the rows."""

    weighted: Float64
    plain: Float64
    row_weight: float


class Tally(NamedTuple):
    """What is counted in a chunk, such that it can be added up over all.

    Attributes
    ----------
    counts : LabelCounts
    facts : int64 array of shape (n_chunks, 3)
        `ChunkFacts`, in the row of the chunk.
    """

    counts: LabelCounts
    facts: Int64


class Chunks(NamedTuple):
    """All chunks of a training.

    Attributes
    ----------
    futures : list of futures of Chunk
    facts : list of ChunkFacts
    counts : LabelCounts
        Of all.
    shape : (d, c)
    classes : array of shape (c,)
    format : TargetFormat
    """

    futures: list[Any]
    facts: list[ChunkFacts]
    counts: LabelCounts
    shape: tuple[int, int]
    classes: npt.NDArray[Any]
    format: TargetFormat

    @property
    def first_rows(self) -> Int64:
        """Where the rows of each chunk begin, and where the last one ends."""
        return np.concatenate([[0], np.cumsum([facts.n_rows for facts in self.facts], dtype=np.int64)])


# ----------------------------------------------------------------------------------------------------------- the blocks


def block_lists(X: Any, y: Any, sample_weight: Any) -> list[list[Any]]:
    """Return the blocks of X, y and the weights as delayed values, block by block.

    Parameters
    ----------
    X : dask array of shape (n, d)
        Whole rows in each block.
    y : dask array of shape (n, c) or (n,)
    sample_weight : dask array of shape (n,), array or None
    """
    if not isinstance(X, da.Array) or X.ndim != 2:
        raise ValueError(f"X must be a dask array of two dimensions, got {_described(X)}; see dask.array.from_array")
    if not isinstance(y, da.Array) or y.ndim not in (1, 2):
        raise ValueError(
            f"y must be a dask array, an indicator matrix or one class a row, got {_described(y)}; "
            "dask.array.map_blocks makes indicator matrices of other containers"
        )
    if X.numblocks[1] > 1 or (y.ndim == 2 and y.numblocks[1] > 1):
        raise ValueError("rows must not be cut: X and y need a single chunk of columns; see dask.array.rechunk")
    if sample_weight is not None and not isinstance(sample_weight, da.Array):
        n = X.shape[0]
        if np.isnan(n):
            raise ValueError("X has chunks of unknown size, so that sample_weight must be a dask array with its chunks")
        sample_weight = da.from_array(check_sample_weight(sample_weight, int(n)), chunks=(X.chunks[0],))
    others = [_aligned(y, X, "y")] + ([] if sample_weight is None else [_aligned(sample_weight, X, "sample_weight")])
    return [list(array.to_delayed().ravel()) for array in (X, *others)]


def block_names(X: Any, y: Any) -> frozenset[str]:
    """Return the names of the tasks that make the blocks of dask arrays; nothing for anything else."""
    arrays = [array for array in (X, y) if isinstance(array, da.Array)]
    return frozenset(str(block.key) for array in arrays for block in np.ravel(array.to_delayed()))


def _described(array: Any) -> str:
    kind = type(array).__name__
    return f"{kind} of {array.ndim} dimensions" if isinstance(array, da.Array) else kind


def _aligned(array: Any, X: Any, name: str) -> Any:
    """Return an array with the chunks of X, if their sizes are known."""
    if np.isnan(X.shape[0]) or np.isnan(array.shape[0]):
        if array.numblocks[0] != X.numblocks[0]:
            raise ValueError(
                f"X has {X.numblocks[0]} chunks and {name} {array.numblocks[0]}, some of unknown size; "
                "they must have the same chunks (compute_chunk_sizes finds their sizes)"
            )
        return array
    if array.shape[0] != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and {name} has {array.shape[0]}; they must be of the same examples")
    return array if array.chunks[0] == X.chunks[0] else array.rechunk({0: X.chunks[0]})


def block_facts(number: int, X: Any, y: Any, weight: Any = None) -> BlockFacts:
    """Return the facts of a block; refuse one whose parts do not belong together."""
    if np.ndim(X) != 2:
        raise ValueError(f"chunk {number} of X has {np.ndim(X)} dimensions, expected 2")
    n, d = X.shape
    for name, other in (("y", y), ("sample_weight", weight)):
        if other is not None and other.shape[0] != n:
            raise ValueError(f"chunk {number} has {n} rows of X and {other.shape[0]} of {name}; they must be the same")
    is_matrix = sp.issparse(y) or y.ndim == 2
    if n == 0:
        return BlockFacts(0, d, y.shape[1] if is_matrix else 0, None, None)
    with _named(f"chunk {number} of y"):
        found = encode_targets(y)
    is_classes = found.format.kind == "classes"
    return BlockFacts(n, d, found.classes.size, found.classes if is_classes else None, found.format)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put a name before the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def union_of_classes(facts: Sequence[BlockFacts]) -> npt.NDArray[Any]:
    """Return the sorted classes of all blocks."""
    return np.unique(np.concatenate([block.classes for block in facts if block.classes is not None]))


def checked_chunk(number: int, shape: tuple[int, int], classes: Any, unit: bool, X: Any, y: Any, weight: Any) -> Chunk:
    """Return a block as a chunk: canonical, unit rows if that is wanted, rows of weight 0 left out.

    Parameters
    ----------
    number : int
        That of the block, for messages.
    shape : (d, c)
        Of all.
    classes : array of shape (c,) or None
        What y holds, where it is classes.
    unit : bool
    X, y, weight : blocks
    """
    rows = as_csr(X, f"chunk {number} of X")
    with _named(f"chunk {number} of y"):
        if rows.shape[0] == 0:
            labels = sp.csr_array((0, shape[1]), dtype=np.float32)
        else:
            labels = encode_targets(y).Y if classes is None else encode_known(y, classes)
    if weight is not None:
        weight = np.asarray(weight, np.float64)
        if weight.ndim != 1 or not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(
                f"chunk {number} of sample_weight must hold finite values, none of them negative, one a row"
            )
        kept = np.flatnonzero(weight)
        if kept.size < weight.size:
            rows, labels, weight = rows[kept], labels[kept], weight[kept]
        weight = weight.astype(np.float32)
    return Chunk(unit_rows(with_narrow_indices(rows), unit), with_narrow_indices(labels), weight)


def tallied(chunk: Chunk, number: int, n_chunks: int) -> Tally:
    """Count what is in a chunk."""
    facts = np.zeros((n_chunks, 3), np.int64)
    facts[number] = ChunkFacts(chunk.X.shape[0], chunk.X.nnz, chunk.Y.nnz)
    row_weight = chunk.X.shape[0] if chunk.weight is None else chunk.weight.sum(dtype=np.float64)
    return Tally(LabelCounts(label_mass(chunk.Y, chunk.weight), label_mass(chunk.Y, None), float(row_weight)), facts)


def tally(cluster: Cluster, phase: str, futures: Sequence[Any]) -> tuple[list[ChunkFacts], LabelCounts]:
    """Return what is known of each chunk, and the counts of all."""
    n_chunks = len(futures)
    parts = cluster.submit_all(phase, "tally", tallied, [(chunk, k, n_chunks) for k, chunk in enumerate(futures)])
    total: Tally = added(cluster.fetch(phase, cluster.subtotals(phase, "tally", parts)))
    return [ChunkFacts(*facts) for facts in total.facts.tolist()], total.counts


def made_chunks(cluster: Cluster, X: Any, y: Any, sample_weight: Any, unit: bool) -> Chunks:
    """Return the chunks of the user's arrays, once all of them have been checked.

    Parameters
    ----------
    cluster : Cluster
    X, y, sample_weight : see `block_lists`
    unit : bool
        Whether rows are made unit.
    """
    lists = block_lists(X, y, sample_weight)
    blocks = [cluster.client.compute(delayed) for delayed in lists]
    weights = blocks[2] if len(blocks) == 3 else [None] * len(blocks[0])
    rows = list(zip(blocks[0], blocks[1], weights, strict=True))
    asked = cluster.submit_all("chunks", "facts", block_facts, [(k, *row) for k, row in enumerate(rows)])
    facts = cluster.fetch("chunks", asked)
    shape, form = _common(facts)
    classes = None
    if form.kind == "classes":
        classes = cluster.submit("chunks", "classes", union_of_classes, asked)
    names = np.arange(shape[1]) if classes is None else cluster.fetch("chunks", classes)
    shape = (shape[0], int(names.size))
    checked = [(k, shape, classes, unit, *row) for k, row in enumerate(rows)]
    futures = cluster.submit_all("chunks", "check", checked_chunk, checked)
    found, counts = tally(cluster, "chunks", futures)
    if not sum(chunk.n_rows for chunk in found):
        raise ValueError("sample_weight must contain at least one non-zero number")
    if not sum(chunk.n_labels for chunk in found):
        raise ValueError("no example has a label, so that there are no classes to learn; y holds none")
    return Chunks(futures, found, counts, shape, names, form)


def _common(facts: Sequence[BlockFacts]) -> tuple[tuple[int, int], TargetFormat]:
    """Return the shape (d, c) that all chunks have, and the format of y."""
    for what, sizes in (
        ("X", [block.n_features for block in facts]),
        ("y", [block.n_labels for block in facts if block.classes is None and block.n_rows]),
    ):
        other = next((k for k, size in enumerate(sizes) if size != sizes[0]), None)
        if other is not None:
            raise ValueError(
                f"all chunks of {what} must have the same number of columns; there are {sizes[0]} and {sizes[other]}"
            )
    forms = [block.format for block in facts if block.format is not None]
    if not forms:
        raise ValueError("X and y have no rows; there is nothing to learn from")
    if len({form.kind for form in forms}) > 1:
        raise ValueError(f"chunks of y are of different kinds: {sorted({form.kind for form in forms})}")
    return (facts[0].n_features, max(block.n_labels for block in facts)), forms[0]


# ------------------------------------------------------------------------------------------------------------ the split


def taken(chunk: Chunk, places: Int64, inverted: bool) -> Chunk:
    """Return the rows of a chunk at some places, or all others."""
    if inverted:
        if not places.size:
            return chunk
        places = np.delete(np.arange(chunk.X.shape[0]), places)
    return Chunk(chunk.X[places], chunk.Y[places], None if chunk.weight is None else chunk.weight[places])


def taken_labels(chunk: Chunk, places: Int64) -> sp.csr_array:
    """Return the labels of the rows of a chunk at some places."""
    return chunk.Y[places]


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Return chunks one after the other, at least one."""
    if len(chunks) == 1:
        return chunks[0]
    weight = None if chunks[0].weight is None else np.concatenate([chunk.weight for chunk in chunks])
    return Chunk(
        sp.csr_array(sp.vstack([chunk.X for chunk in chunks], format="csr")),
        sp.csr_array(sp.vstack([chunk.Y for chunk in chunks], format="csr")),
        weight,
    )


def labels_of(cluster: Cluster, chunks: Chunks, rows: Int64) -> sp.csr_array:
    """Return the labels of some rows, whose numbers among all ascend, as a matrix of them."""
    asked = [(chunk, own) for chunk, own in zip(chunks.futures, _places(chunks, rows), strict=True) if own.size]
    parts = cluster.fetch("split", cluster.submit_all("split", "labels", taken_labels, asked)) if asked else []
    n_labels = chunks.counts.plain.size
    return sp.csr_array(sp.vstack([sp.csr_array((0, n_labels), dtype=np.float32), *parts], format="csr"))


def _places(chunks: Chunks, rows: Int64) -> list[Int64]:
    """Return where rows, whose numbers among all ascend, are in each of the chunks."""
    first = chunks.first_rows
    cuts = np.searchsorted(rows, first)
    return [rows[cuts[k] : cuts[k + 1]] - first[k] for k in range(len(chunks.futures))]


def split_chunks(cluster: Cluster, chunks: Chunks, held_out: Int64) -> tuple[Chunks, Any]:
    """Return the chunks without some rows, and the future of these rows, in a chunk of their own.

    Parameters
    ----------
    cluster : Cluster
    chunks : Chunks
    held_out : int64 array, ascending
        The numbers of the rows among all.
    """
    sizes = [facts.n_entries for facts in chunks.facts]
    cluster.settle(chunks.futures, balanced(cluster.homes(chunks.futures), sizes, list(cluster.workers())))
    pairs = list(zip(chunks.futures, _places(chunks, held_out), strict=True))
    seen = cluster.submit_all("split", "seen", taken, [(*pair, True) for pair in pairs])
    held = cluster.submit_all("split", "held", taken, [(*pair, False) for pair in pairs if pair[1].size])
    joined_held = cluster.submit("split", "held-out", joined, held) if held else None
    facts, counts = tally(cluster, "split", seen)
    cluster.settle(seen, cluster.homes(seen))
    return chunks._replace(futures=seen, facts=facts, counts=counts), joined_held


def balanced(homes: Sequence[str | None], sizes: Sequence[int], workers: Sequence[str]) -> list[str]:
    """Return where chunks should be: where they are, but no worker shall have much more than its share.

    Parameters
    ----------
    homes : sequence of str or None
        Where they are.
    sizes : sequence of int
        How large they are.
    workers : sequence of str
    """
    room = sum(sizes) / len(workers) + max(sizes, default=0)
    loads = dict.fromkeys(workers, 0)
    placed: list[str] = []
    for home, size in zip(homes, sizes, strict=True):
        if home not in loads or loads[home] + size > room:
            home = min(workers, key=lambda worker: loads[worker])
        loads[home] += size
        placed.append(home)
    return placed
