"""What the tests of data directories share: data sets compared part by part, and directories forged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism.data import Dataset


def assert_same(first: Dataset, second: Dataset) -> None:
    for name in ("X", "Y"):
        one, two = getattr(first, name), getattr(second, name)
        assert (one is None) == (two is None)
        if one is None:
            continue
        assert (one.shape, one.dtype, sp.issparse(one)) == (two.shape, two.dtype, sp.issparse(two))
        if sp.issparse(one):
            for part in ("indptr", "indices", "data"):
                np.testing.assert_array_equal(getattr(one, part), getattr(two, part))
        else:
            np.testing.assert_array_equal(one, two)
    for name in ("label_names", "texts"):
        one, two = getattr(first, name), getattr(second, name)
        assert (None if one is None else list(one)) == (None if two is None else list(two))


def change_array(directory: Path, name: str, change: Callable[[np.ndarray], Any], *, with_sum: bool = True) -> None:
    """Change an array, and what `meta.json` says of it, as a forger would."""
    path = directory / f"{name}.npy"
    array = np.load(path)
    changed = change(array)
    array = array if changed is None else np.asarray(changed)
    np.save(path, array)
    if with_sum:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entry = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}
        change_meta(directory, lambda meta: meta["arrays"].update({name: entry}))


def change_meta(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    meta = json.loads((directory / "meta.json").read_text())
    change(meta)
    (directory / "meta.json").write_text(json.dumps(meta))
