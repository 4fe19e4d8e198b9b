"""Every command of the paper's tables on data of a few hundred rows: they run, and their tables are tables."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import metrics

N_LABELS = 30
QUICK = ["--passes", "2", "--candidates", "6", "--depth", "4", "--jobs", "1"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Labels with features of their own; some rows have two labels, some none."""
    rng = np.random.default_rng(0)
    path = tmp_path / "planted"
    path.mkdir()
    profiles = rng.random((N_LABELS, 40)) * (rng.random((N_LABELS, 40)) < 0.1)
    for part, n in (("trn", 300), ("tst", 60)):
        Y = np.eye(N_LABELS)[rng.integers(N_LABELS, size=n)]
        Y[np.arange(n), rng.integers(N_LABELS, size=n)] = 1
        Y[:5] = 0
        sp.save_npz(path / f"X_{part}.npz", sp.csr_matrix(Y @ profiles + 0.01 * rng.random((n, 40))))
        sp.save_npz(path / f"Y_{part}.npz", sp.csr_matrix(Y))
    return path


@pytest.fixture
def tables() -> ModuleType:
    return importlib.import_module("paper_tables")


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> list[list[str]]:
    """Run a command; return the cells of all lines of its tables."""
    monkeypatch.setattr(sys, "argv", ["paper.py", *map(str, arguments)])
    importlib.import_module("paper").main()
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def share(cell: str) -> float:
    assert cell.endswith("%")
    return float(cell[:-1]) / 100


@pytest.mark.parametrize("command", ["aloi", "odp"])
def test_multiclass_tables(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row[0]: row for row in run(monkeypatch, capsys, command, *QUICK, "--rank", 10, folder)}
    assert {len(row) for row in rows.values()} == {6}
    assert rows["hyperplane evaluations an example"][1] == str(N_LABELS)
    assert 0 < float(rows["avg depth"][2]) <= 4
    flat, tree, constant = map(share, rows["test accuracy"][1:4])
    assert min(flat, tree, constant) > 1 / N_LABELS
    assert tree <= share(rows["test tree recall"][2])
    assert share(rows["recall of the most frequent k, test"][2]) < share(rows["test tree recall"][2])


def test_multilabel_tables(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lshtc", *QUICK, "--candidates", "6,9", "--rank", 10, "--fourier", 50, folder]
    rows = run(monkeypatch, capsys, *arguments)
    assert ["model", "P@1", "P@3", "P@5", "inference speed"] in rows
    names = [row[0] for row in rows if len(row) == 5]
    assert {"Rank-10 ILR", "Tree + ILR, k = 6", "k = 9", "FastXML (paper, LSHTC)"} <= set(names)


@pytest.mark.parametrize("command", ["odp", "lshtc"])
def test_without_baseline(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row[0]: row for row in run(monkeypatch, capsys, command, *QUICK, "--baseline-passes", 0, folder)}
    accuracy = rows["test accuracy" if command == "odp" else "test P@1"]
    assert accuracy[1] == rows["inference speed"][1] == rows["seconds to train the rest"][1] == ""
    assert share(accuracy[2]) > 1 / N_LABELS


def test_ablation(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for head in ("logistic", "low_rank"):
        rows = {row[0]: row for row in run(monkeypatch, capsys, "ablation", *QUICK, "--head", head, folder)}
        assert {"fractional", "deterministic", "sampled", "decided", "none", "bias", "group_sparse"} <= set(rows)
        assert share(rows["deterministic"][1]) >= share(rows["fractional"][1])


def test_pareto(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs the extra bench")
    picture = tmp_path / "new" / "pareto.svg"
    arguments = ["pareto", *QUICK, "--candidates", "5,20", "--one-label", "--picture", picture, folder]
    rows = {row[0]: row for row in run(monkeypatch, capsys, *arguments)}
    assert share(rows["5"][4]) <= share(rows["20"][4])  # a larger k finds more
    assert picture.read_text().startswith("<?xml")


def test_purity(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run(monkeypatch, capsys, "purity", "--directions", 20, folder)
    by_name = {row[1]: row for row in rows if row[0] == "planted"}
    root, mean, best = map(share, by_name["train purity"][2:])
    assert 0.5 <= mean <= best
    assert root > mean


def test_split_quality_is_that_of_the_metrics() -> None:
    paper_purity = importlib.import_module("paper_purity")
    rng = np.random.default_rng(0)
    Y = sp.csr_array(np.eye(7, dtype=np.float32)[rng.integers(7, size=50)])
    right = rng.random((50, 8)) < 0.4
    purity, balance = paper_purity.split_quality(Y, right, 1)
    for column in range(8):
        assert purity[column] == pytest.approx(metrics.purity(Y, right[:, column]))
        assert balance[column] == pytest.approx(max(right[:, column].mean(), 1 - right[:, column].mean()))


def test_results_of_other_programs(tables: ModuleType, folder: Path, tmp_path: Path) -> None:
    data = importlib.import_module("paper_data").load_split(str(folder))
    results = tmp_path / "results.jsonl"
    reached = {
        "dataset": "planted",
        "preset": "log_multi",
        "p_at_1": 0.5,
        "p_at_3": 0.25,
        "p_at_5": 0.2,
        "predict_s": 2,
    }
    lines = [reached, {**reached, "dataset": "another"}, {**reached, "preset": "plt"}, {**reached, "error": "timeout"}]
    results.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    rows = tables.peer_rows(data, results).strip().splitlines()
    assert rows[2:] == ["| LOMTree (Vowpal Wabbit) | 50.00% | 25.00% | 20.00% | 30 ex/s |"]
    assert tables.peer_rows(data, None) == ""


def test_a_source_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, "odp")
    assert "odp needs a SOURCE" in capsys.readouterr().err


@pytest.mark.parametrize(("n_labels", "k"), [(30, 25), (1000, 25), (10_000, 400), (100_000, 4000), (325_000, 4000)])
def test_budget(n_labels: int, k: int) -> None:
    assert importlib.import_module("paper_models").budget(n_labels) == k
