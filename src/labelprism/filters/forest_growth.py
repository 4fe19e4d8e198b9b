"""Growing a forest, one level after the other; what happens in a level is native."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, csr_parts, is_sparse
from labelprism._progress import watched
from labelprism._stages import NoStages, Stages

__all__ = ["grow_forest", "planted"]

_STAGE = "forest"
_NODES = ("keys", "node_indptr", "node_rows", "node_weight")
_FOREST = (
    *("child", "bias", "noise", "router_indptr", "router_indices", "router_data"),
    *("leaf_indptr", "leaf_labels", "leaf_shares", "mass"),
)


def planted(n_rows: int, weight: Float32 | None, shape: tuple[int, int], settings: _core.ForestSettings) -> Any:
    """Return a forest that has not begun to grow: its roots hold all rows.

    Parameters
    ----------
    n_rows : int
    weight : float32 array of shape (n_rows,) or None
        How much each row counts, above 0 and about 1 on average.
    shape : (d, c)
        The features and the labels.
    settings : ForestSettings

    Returns
    -------
    ForestGrower
    """
    keys = np.array(_core.root_keys(settings), np.uint64)
    rows = np.tile(np.arange(n_rows, dtype=np.int32), keys.size)
    weights = np.tile(np.ones(n_rows, np.float32) if weight is None else weight, keys.size)
    return _core.ForestGrower(settings, *shape, keys, np.arange(keys.size + 1) * np.int64(n_rows), rows, weights)


def grow_forest(
    X: Any,
    Y: sp.csr_array,
    weight: Float32 | None,
    settings: _core.ForestSettings,
    n_threads: int,
    stages: Stages | None = None,
) -> _core.ForestArrays:
    """Grow a forest.

    Parameters
    ----------
    X : csr_array or array of shape (n, d)
    Y : csr_array of shape (n, c)
    weight : see `planted`
    settings : ForestSettings
    n_threads : int
    stages : Stages, optional
        Where the forest is kept after each level, and taken from if it is there.

    Returns
    -------
    tuple of arrays
        Child, bias and noise of every node, routers and leaves as CSR, the mass of leaves.
    """
    stages = NoStages() if stages is None else stages
    (n, d), c, n_trees = X.shape, Y.shape[1], len(_core.root_keys(settings))
    kept = stages.load(_STAGE)
    grower = planted(n, weight, (d, c), settings) if kept is None else _replanted(kept, (d, c), settings)
    labels, no_ids, counter = csr_parts(Y), np.zeros(0, np.int64), _core.Counter()
    rows: Any = csr_parts(X) if is_sparse(X) else (X,)
    step = grower.step_csr if is_sparse(X) else grower.step_dense
    counter.advance(grower.depth * n_trees * n)
    total = _core.expected_levels(n, settings) * n_trees * n
    with watched(counter, total, f"growing {n_trees} trees", "rows"):
        while not grower.is_done:
            step(*rows, labels.indptr, labels.indices, no_ids, n_threads, counter)
            if stages.is_kept:
                stages.save(_STAGE, _arrays_of(grower))
    grown: _core.ForestArrays = grower.forest()
    return grown


def _arrays_of(grower: _core.ForestGrower) -> dict[str, npt.NDArray[Any]]:
    keys, *members = grower.nodes()
    arrays: Any = (keys.view(np.int64), *members, *grower.forest())  # files know no unsigned numbers of 64 bits
    return {"depth": np.array([grower.depth]), **dict(zip(_NODES + _FOREST, arrays, strict=True))}


def _replanted(kept: dict[str, npt.NDArray[Any]], shape: tuple[int, int], settings: _core.ForestSettings) -> Any:
    keys, *members = (kept[name] for name in _NODES)
    forest = tuple(kept[name] for name in _FOREST)
    arguments: Any = (*shape, keys.view(np.uint64), *members, int(kept["depth"][0]), forest)
    return _core.ForestGrower(settings, *arguments)
