"""What is measured of embeddings, on rows of which words say little and embeddings everything."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp

N_LABELS = 12


@pytest.fixture
def encoder() -> ModuleType:
    return importlib.import_module("encoder")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return a data set of random words, and a cache of embeddings that lie near the centre of their label."""
    rng = np.random.default_rng(0)
    folder, cache, kept = tmp_path / "planted", tmp_path / "cache", {}
    folder.mkdir()
    cache.mkdir()
    centres = rng.normal(size=(N_LABELS, 8))
    for part, n in (("trn", 240), ("tst", 60)):
        labels = rng.integers(N_LABELS, size=n)
        sp.save_npz(
            folder / f"X_{part}.npz", sp.random_array((n, 30), density=0.2, rng=rng, format="csr", dtype=np.float32)
        )
        sp.save_npz(folder / f"Y_{part}.npz", sp.csr_array(np.eye(N_LABELS)[labels]))
        rows = np.arange(0, n, 2)
        near = centres[labels[rows]] + 0.1 * rng.normal(size=(rows.size, 8))
        kept[part] = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float16)
        kept[f"{part}_rows"], kept[f"{part}_seconds"] = rows, 1.0
    np.savez(cache / "planted.npz", **kept)
    return folder, cache


def test_measure(
    encoder: ModuleType, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, cache = folders
    monkeypatch.setattr(sys, "argv", ["encoder.py", "measure", str(cache), str(folder), "--jobs", "1"])
    encoder.main()
    said = capsys.readouterr().out
    assert "planted: 120 + 30 rows" in said
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.startswith("|")]
    precision = {row[0]: float(row[1]) for row in rows[2:]}
    assert len(precision) == 8
    assert precision["embeddings"] > 80 > precision["tf-idf"]
    assert precision["two models, scores added"] > 80  # the shares are chosen, and embeddings get most of them
    assert {len(row) for row in rows} == {10}


def test_rows_that_are_not_there(encoder: ModuleType, folders: tuple[Path, Path]) -> None:
    folder, cache = folders
    sp.save_npz(folder / "X_trn.npz", sp.csr_array((5, 30), dtype=np.float32))
    with pytest.raises(ValueError, match="encode it anew"):
        encoder.read(folder, cache)
