"""Files that pages take for granted, such as the model that another page has trained; made once, by the program."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np


def give(name: str, folder: Path, store: Path, programs: Path) -> None:
    """Copy a file or folder of this name into a folder.

    Parameters
    ----------
    name : str
    folder : Path
        Where it is wanted.
    store : Path
        Where it is kept for further pages.
    programs : Path
        A folder with the program `labelprism`.
    """
    made = _made(name, store, str(programs / "labelprism"))
    if made.is_dir():
        shutil.copytree(made, folder / name)
    else:
        shutil.copy(made, folder / name)


@cache
def _made(name: str, store: Path, program: str) -> Path:
    path = store / name
    if name == "tate":
        _run(program, "demo", "--write-data", str(path))
    elif name == "tate.model":
        _run(program, "train", str(_made("tate", store, program) / "train.jsonl"), "--out", str(path), "-q")
    elif name == "big.txt":
        path.write_text(_sparse_text(600))
    else:
        raise ValueError(f"no file {name!r} can be given to a page; add it to {Path(__file__).name}")
    return path


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _sparse_text(n_rows: int) -> str:
    """Rows in the format of the XC repository: a label is a group of five features."""
    rng = np.random.default_rng(0)
    lines = [f"{n_rows} 100 20"]
    for label in rng.integers(20, size=n_rows):
        features = sorted({*(5 * label + rng.integers(5, size=3)), *rng.integers(100, size=2)})
        lines.append(f"{label} " + " ".join(f"{feature}:1" for feature in features))
    return "\n".join(lines) + "\n"
