"""Make the notebooks of `examples/` from its scripts, and run them.

    python tools/notebooks.py                  # make and run all of them, with all of the data
    python tools/notebooks.py subject_indexing # this one only
    python tools/notebooks.py --check          # are they in step with the scripts? runs nothing

A script is cut into cells at lines that begin with `# %%`; a cell under `# %% [markdown]` is text. Running needs
nbclient and ipykernel: `pip install '.[examples]'`. Checking needs nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "examples"
MARK = "# %%"
TEXT_MARK = "# %% [markdown]"
SECONDS = 1800  # the most that a cell may take


class Cell(NamedTuple):
    """A cell of a notebook: "code" or "markdown", and what is in it."""

    kind: str
    source: str


def cells_of(script: str) -> list[Cell]:
    """Return the cells of a script."""
    cells: list[tuple[str, list[str]]] = []
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith(MARK):
            if line not in (MARK, TEXT_MARK):
                raise ValueError(f"line {number}: {line!r} begins no cell; say {MARK!r} or {TEXT_MARK!r}")
            cells.append(("markdown" if line == TEXT_MARK else "code", []))
        elif cells:
            cells[-1][1].append(line)
        elif line:
            raise ValueError(f"line {number} comes before the first cell; say {MARK!r} above it")
    return [Cell(kind, _text(lines) if kind == "markdown" else "\n".join(lines).strip("\n")) for kind, lines in cells]


def _text(lines: list[str]) -> str:
    """Return comments as the text that they hold."""
    for line in lines:
        if line and line != "#" and not line.startswith("# "):
            raise ValueError(f"{line!r} is no comment, but stands in a cell of text")
    return "\n".join(line[2:] for line in lines).strip("\n")


def notebook_of(cells: list[Cell]) -> dict[str, Any]:
    """Return a notebook that has not run, as JSON of its format 4.5."""
    found = []
    for number, cell in enumerate(cells):
        more: dict[str, Any] = {"execution_count": None, "outputs": []} if cell.kind == "code" else {}
        source = cell.source.splitlines(keepends=True)
        found.append({"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}, "source": source, **more})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def problem_of(script: Path) -> str | None:
    """Return why the notebook beside a script is not in step with it, or None."""
    path = script.with_suffix(".ipynb")
    if not path.exists():
        return f"there is no {path.name}"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    held = [Cell(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    if held != cells_of(script.read_text(encoding="utf-8")):
        return f"{path.name} is made from another state of {script.name}"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if [cell["execution_count"] for cell in code] != list(range(1, len(code) + 1)):
        return f"{path.name} has not run from top to bottom"
    if any(output["output_type"] == "error" for cell in code for output in cell["outputs"]):
        return f"{path.name} has run into an error"
    return None


def make(script: Path) -> None:
    """Write the notebook of a script, with what it prints and draws."""
    import nbformat
    from nbclient import NotebookClient

    cells = cells_of(script.read_text(encoding="utf-8"))
    notebook = nbformat.reads(json.dumps(notebook_of(cells)), as_version=4)
    NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", record_timing=False, resources={"metadata": {"path": FOLDER}}
    ).execute()
    notebook.metadata.language_info = {"name": "python"}  # not the version: any will do
    without_complaints(notebook)
    script.with_suffix(".ipynb").write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def without_complaints(notebook: Any) -> None:
    """Leave out what went to standard error: bars of progress, warnings of packages with paths of this machine."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


def main() -> None:
    """Make or check notebooks; the exit code says whether all are well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of scripts, without .py; all by default")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    scripts = [FOLDER / f"{name}.py" for name in arguments.names] or sorted(FOLDER.glob("*.py"))
    if not arguments.check:
        for script in scripts:
            print(script.name, flush=True)
            make(script)
    problems = [problem for problem in map(problem_of, scripts) if problem]
    sys.exit("; ".join(problems) + ": python tools/notebooks.py makes it anew" if problems else 0)


if __name__ == "__main__":
    main()
