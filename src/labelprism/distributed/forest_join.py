"""The parts of the trees, put together: a forest whose nodes are in the order of growth, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from labelprism import _core
from labelprism._arrays import CSRParts, Float32, Int32, Int64
from labelprism.distributed.spread_growth import TopNode
from labelprism.distributed.spread_routing import Router
from labelprism.distributed.spread_tasks import Leaf
from labelprism.filters import SpectralForest


class Grown(NamedTuple):
    """Subtrees that grew in one task, or the first levels of a tree. Nodes are known by their keys.

    Attributes
    ----------
    keys : list of int
        Those of the roots, the first nodes.
    open_keys : list of int
        Those of the nodes of the next level, which grew elsewhere; their numbers follow those of the nodes here.
    arrays : ForestArrays
        As `ForestGrower.forest` gives them.
    """

    keys: list[int]
    open_keys: list[int]
    arrays: _core.ForestArrays


class TopEntry(NamedTuple):
    """A node of the top of a tree.

    Attributes
    ----------
    key : int
    children : (int, int)
        Their places in the list of entries; -1 for leaves and the roots of subtrees.
    router : Router or None
    leaf : Leaf or None
        Neither is known of the root of a subtree.
    """

    key: int
    children: tuple[int, int]
    router: Router | None
    leaf: Leaf | None


def described(roots: Sequence[TopNode]) -> list[TopEntry]:
    """Return the top of the trees as plain values, the roots first."""
    nodes = list(roots)
    for top in nodes:  # which grows meanwhile
        nodes += top.children
    number = {id(top): i for i, top in enumerate(nodes)}
    entries = []
    for top in nodes:
        left, right = (number[id(child)] for child in top.children) if top.children else (-1, -1)
        entries.append(TopEntry(top.key, (left, right), top.router, top.leaf))
    return entries


class _Nodes(NamedTuple):
    """Nodes in any order: numbers of both children, -1 for leaves; the rest as in `ForestArrays`."""

    left: Int64
    right: Int64
    bias: Float32
    noise: Float32
    routers: CSRParts
    leaves: CSRParts
    mass: Float32


def joined_forest(
    top: Sequence[TopEntry], parts: Sequence[Sequence[Grown]], forest: SpectralForest, shape: tuple[int, int],
    mean_weight: float,
) -> SpectralForest:  # fmt: skip
    """Return the forest of the top and the subtrees below it, its nodes in the order of growth: level by level.

    Parameters
    ----------
    top : sequence of TopEntry
    parts : sequence of lists of Grown
        All that grew below the top, in any order.
    forest : SpectralForest
        Its parameters; a copy of it is fitted.
    shape : (d, c)
    mean_weight : float
    """
    subtrees = [grown for part in parts for grown in part]
    sizes = [len(top), *(grown.arrays[0].size for grown in subtrees)]
    first = np.concatenate([[0], np.cumsum(sizes)])  # where nodes are, when all lie one after the other
    place_of_key = {
        key: int(begin) + place
        for grown, begin in zip(subtrees, first[1:-1], strict=True)
        for place, key in enumerate(grown.keys)
    }
    number = np.array([place_of_key.get(entry.key, i) for i, entry in enumerate(top)])
    nodes = [_of_top(top, number, forest.noise)]
    nodes += [_of_grown(grown, int(begin), place_of_key) for grown, begin in zip(subtrees, first[1:-1], strict=True)]
    fitted: SpectralForest = clone(forest)
    fitted._take(_in_order(_concatenated(nodes), number[: forest.n_trees]), shape)
    fitted.leaf_mass_ = fitted.leaf_mass_ * np.float32(mean_weight)
    return fitted


def _of_top(top: Sequence[TopEntry], number: Int64, noise: float) -> _Nodes:
    """Return the entries of the top as nodes; those of subtrees' roots are not asked for."""
    children = np.array([entry.children for entry in top], np.int64)
    children = np.where(children >= 0, number[children], -1)
    nothing: tuple[Any, Any] = (np.zeros(0, np.int32), np.zeros(0, np.float32))
    return _Nodes(
        children[:, 0],
        children[:, 1],
        np.array([0.0 if entry.router is None else entry.router.bias for entry in top], np.float32),
        np.array([0.0 if entry.router is None else noise for entry in top], np.float32),
        _csr([nothing if entry.router is None else (entry.router.features, entry.router.weights) for entry in top]),
        _csr([nothing if entry.leaf is None else (entry.leaf.labels, entry.leaf.shares) for entry in top]),
        np.array([0.0 if entry.leaf is None else entry.leaf.mass for entry in top], np.float32),
    )


def _csr(rows: Sequence[tuple[Int32, Float32]]) -> CSRParts:
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return CSRParts(_cumulated(np.array([own.size for own, _ in rows])), columns, values)


def _cumulated(lengths: Int64) -> Int64:
    """Return where parts of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _of_grown(grown: Grown, begin: int, place_of_key: dict[int, int]) -> _Nodes:
    """Return the nodes of subtrees, the first of which will be node number `begin`."""
    arrays = grown.arrays
    n_nodes = arrays[0].size
    below = np.array([place_of_key[key] for key in grown.open_keys], np.int64)
    numbers = np.concatenate([np.arange(begin, begin + n_nodes), below])  # of the nodes here, and of the next level
    child = arrays[0].astype(np.int64)
    left, right = (np.where(child >= 0, numbers[np.maximum(child + side, 0)], -1) for side in range(2))
    routers, leaves = CSRParts(*arrays[3:6]), CSRParts(*arrays[6:9])
    return _Nodes(left, right, arrays[1], arrays[2], routers, leaves, arrays[9])


def _concatenated(parts: Sequence[_Nodes]) -> _Nodes:
    left, right, bias, noise, routers, leaves, mass = zip(*parts, strict=True)
    return _Nodes(
        np.concatenate(left), np.concatenate(right), np.concatenate(bias), np.concatenate(noise),
        _stacked(routers), _stacked(leaves), np.concatenate(mass),
    )  # fmt: skip


def _stacked(matrices: Sequence[CSRParts]) -> CSRParts:
    """Return the rows of CSR matrices one after the other."""
    lengths = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    indices, data = (np.concatenate([matrix[part] for matrix in matrices]) for part in (1, 2))
    return CSRParts(_cumulated(lengths), indices, data)


def _rows_at(matrix: CSRParts, order: Int64) -> CSRParts:
    """Return rows of a CSR matrix, in the order given; several times as fast as SciPy does it."""
    lengths = np.diff(matrix.indptr)[order]
    indptr = _cumulated(lengths)
    places = np.arange(indptr[-1]) + np.repeat(matrix.indptr[order] - indptr[:-1], lengths)
    return CSRParts(indptr, matrix.indices[places], matrix.data[places])


def _in_order(nodes: _Nodes, roots: Int64) -> _core.ForestArrays:
    """Return nodes as growth numbers them: level by level, the children of a node one after the other."""
    levels, children, n_before = [], [], roots.size
    level = roots
    while level.size:
        inner = nodes.left[level] >= 0
        child = np.full(level.size, -1, np.int64)
        child[inner] = n_before + 2 * np.arange(int(inner.sum()))
        levels.append(level)
        children.append(child)
        n_before += 2 * int(inner.sum())
        level = np.stack([nodes.left[level[inner]], nodes.right[level[inner]]], axis=1).ravel()
    order = np.concatenate(levels)
    routers, leaves = _rows_at(nodes.routers, order), _rows_at(nodes.leaves, order)
    numbers: Int32 = np.concatenate(children).astype(np.int32)
    return (numbers, nodes.bias[order], nodes.noise[order], *routers, *leaves, nodes.mass[order])
