"""`labelprism explore`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labelprism import PrismClassifier
from labelprism.cli import main
from labelprism.data import write_jsonl, write_npz
from labelprism.data.dataset import Dataset


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, text_model: PrismClassifier, tree_model: PrismClassifier, test: Dataset,
    matrices: tuple[Dataset, Dataset],
) -> Path:  # fmt: skip
    folder = tmp_path_factory.mktemp("explore")
    text_model.save(folder / "texts")
    tree_model.save(folder / "rows")
    write_jsonl(test, folder / "test.jsonl")
    write_npz(matrices[1], folder / "X_test.npz")
    return folder


def run(*arguments: object) -> int:
    return main([str(argument) for argument in ("explore", *arguments)])


def test_everything_at_once(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "tree.html"
    asked = ("--out", page, "--png", tmp_path / "png", "--table", "--depth", "1", "--top", "2", "--examples", "3")
    assert run(folder / "texts", "--data", folder / "test.jsonl", *asked) == 0
    shown = capsys.readouterr()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "<title>Labels of texts</title>" in page.read_text(encoding="utf-8")
    names = ["model", "node-0", "node-1", "tree-1", "tree-2", "ways-1", "ways-2"]
    assert sorted(path.stem for path in (tmp_path / "png").iterdir()) == names
    lines = shown.out.splitlines()
    assert lines[0].split() == ["tree", "way", "depth", "mass", "most", "frequent", "labels"]
    assert [line.split()[1] for line in lines[1:4]] == ["-", "L", "R"]
    assert all(line.count(";") == 1 for line in lines[1:])


def test_table_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder / "rows", "--table", "--json", "--top", "20") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["way"] == ""
    assert len(rows[0]["labels"]) == 20
    assert rows[1]["grown"][0][1] > 1


def test_rows_of_numbers(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "tree.html"
    assert run(folder / "rows", "--data", folder / "X_test.npz", "--out", page, "--title", "Mine", "-q") == 0
    assert "<title>Mine</title>" in page.read_text(encoding="utf-8")


def test_pictures_of_a_node_and_a_row(folder: Path, tmp_path: Path) -> None:
    asked = ("--png", tmp_path / "png", "--node", "1", "--row", "7", "-q")
    assert run(folder / "rows", "--data", folder / "X_test.npz", *asked) == 0
    assert {path.stem for path in (tmp_path / "png").iterdir()} == {"model", "node-1", "tree-1", "ways-1"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("{0}/texts",), 2, "explore needs --out PAGE, --png FOLDER or --table"),
        (("{0}/none", "--table"), 4, "there is no model here"),
        (("{0}/texts", "--data", "{0}/X_test.npz", "--table"), 3, "the model takes texts"),
        (("{0}/rows", "--data", "{0}/test.jsonl", "--table"), 3, "the model takes rows of numbers"),
        (("{0}/texts", "--table", "--examples", "-1"), 2, "at least 0"),
        (("{0}/texts", "--table", "--groups", "9"), 2, "two ascending numbers"),
        (("{0}/texts", "--out", "{0}/missing/tree.html"), 5, "does not exist"),
        (("{0}/rows", "--data", "{0}/X_test.npz", "--png", "{0}/png", "--node", "9999"), 2, "--node: node must be"),
        (("{0}/rows", "--data", "{0}/X_test.npz", "--png", "{0}/png", "--row", "9999"), 2, "the data has 150 rows"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert run(*(argument.format(folder) for argument in arguments)) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "package"), [("--out", "plotly"), ("--png", "matplotlib")])
def test_what_is_missing_is_said_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flag: str, package: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(folder / "texts", flag, folder / "anything") == 2
    assert f"needs {package}: pip install 'labelprism[explore]'" in capsys.readouterr().err
