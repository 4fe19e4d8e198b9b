"""Notebooks are in step with the scripts that they are made from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "examples").is_dir() or not (ROOT / "tools").is_dir():
    pytest.skip(f"there are no folders examples and tools in {ROOT}: this is not a checkout", allow_module_level=True)
sys.path.insert(0, str(ROOT / "tools"))

import notebooks

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert len(SCRIPTS) == 5


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_in_step(script: Path) -> None:
    assert notebooks.problem_of(script) is None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_outputs_are_of_no_machine_in_particular(script: Path) -> None:
    notebook = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    said = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert said
    for output in said:
        text = "".join(output.get("text", [])) + "".join(output.get("data", {}).get("text/plain", []))
        assert "/home/" not in text
        assert "site-packages" not in text
        assert output.get("name") != "stderr", text


def test_cells() -> None:
    script = "# %% [markdown]\n# # Title\n#\n# words\n\n# %%\n\nx = 1\n\n\n# %%\nx\n"
    cells = notebooks.cells_of(script)
    assert cells == [("markdown", "# Title\n\nwords"), ("code", "x = 1"), ("code", "x")]
    made = notebooks.notebook_of(cells)
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "code"]
    assert len({cell["id"] for cell in made["cells"]}) == 3


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os\n# %%\n", "before the first cell"),
        ("# %% title\n", "begins no cell"),
        ("# %% [markdown]\nx = 1\n", "is no comment"),
    ],
)
def test_what_is_no_cell(script: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        notebooks.cells_of(script)


def test_what_is_out_of_step(tmp_path: Path) -> None:
    script, path = tmp_path / "one.py", tmp_path / "one.ipynb"
    script.write_text("# %%\nx = 1\n")
    assert notebooks.problem_of(script) == "there is no one.ipynb"
    notebook = notebooks.notebook_of(notebooks.cells_of(script.read_text()))
    path.write_text(json.dumps(notebook))
    assert notebooks.problem_of(script) == "one.ipynb has not run from top to bottom"
    notebook["cells"][0]["execution_count"] = 1
    path.write_text(json.dumps(notebook))
    assert notebooks.problem_of(script) is None
    notebook["cells"][0]["outputs"] = [{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]
    path.write_text(json.dumps(notebook))
    assert notebooks.problem_of(script) == "one.ipynb has run into an error"
    script.write_text("# %%\nx = 2\n")
    assert notebooks.problem_of(script) == "one.ipynb is made from another state of one.py"
