"""Check an archive and wheels before they are given to anybody; `make wheel`.

    python tools/release/check.py dist python3.10 python3.12

What they hold, their metadata, and for each Python, in a fresh environment without a compiler: what `pip install`
fetches and takes up, the demonstration, and the tests that pyproject.toml has for wheels, from a folder outside the
source tree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
MOST_FETCHED = 150e6  # bytes that `pip install labelprism` may fetch
MOST_OF_US = 10e6  # of which ours
STRAY = re.compile(r"(^|/)(\.git/|\.venv|build/|dist/|__pycache__|\.\w+_cache|.*\.(o|a|pyc|orig|rej|swp)$)")
IN_ARCHIVE = (
    "CHANGELOG.md",
    "CITATION.cff",
    "CMakeLists.txt",
    "LICENSE",
    "Makefile",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    "THIRD_PARTY_LICENSES.md",
    "cmake/sbom.cmake",
    "pyproject.toml",
    "src/core/bindings.cpp",
    "src/labelprism/data/tate/train.tsv.xz",
    "tests/conftest.py",
    "tests/fixtures/models-format-1/texts/meta.json",
    "tools/oldest.txt",
)
IN_WHEEL = (
    "labelprism/__init__.py",
    "labelprism/_core.pyi",
    "labelprism/py.typed",
    "labelprism/data/tate/train.tsv.xz",
    "labelprism/explore/assets/page.html",
    "labelprism/serve/static/page.html",
    "METADATA",
    "entry_points.txt",
    "licenses/LICENSE",
    "licenses/THIRD_PARTY_LICENSES.md",
    "sboms/labelprism.cdx.json",
)


def check_archive(archive: Path) -> None:
    """Make sure that the source archive has what it needs, and nothing else."""
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    complain(archive, names, IN_ARCHIVE)
    if compiled := [name for name in names if name.endswith((".so", ".pyd", ".dylib"))]:
        sys.exit(f"{archive.name} holds compiled files: {compiled}")


def check_wheel(wheel: Path) -> None:
    """Make sure that a wheel has what it needs, and nothing else; and that its list of what is compiled in is valid."""
    with zipfile.ZipFile(wheel) as files:
        names = {re.sub(r"^labelprism-[^/]*\.dist-info/", "", name) for name in files.namelist()}
        complain(wheel, names, IN_WHEEL)
        (native,) = (name for name in names if re.fullmatch(r"labelprism/_core\..*\.?(so|pyd)", name))
        (bill,) = (name for name in files.namelist() if name.endswith("sboms/labelprism.cdx.json"))
        text = files.read(bill).decode()
    if ("abi3" in wheel.name) != ("abi3" in native or native.endswith("_core.pyd")):
        sys.exit(f"{wheel.name} and {native} do not agree about the stable interface")
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"{wheel.name}: {bill} is not valid: {error}")
    print(f"{wheel.name}: compiled in are", ", ".join(part["name"] for part in json.loads(text)["components"]))
    if "abi3" in wheel.name:
        run([sys.executable, "-m", "abi3audit", "--strict", "--summary", str(wheel)])


def complain(file: Path, names: set[str], needed: tuple[str, ...]) -> None:
    """End with a message if a file lacks what is needed, has what is stray, or is too large."""
    if missing := [name for name in needed if name not in names]:
        sys.exit(f"{file.name} lacks {missing}")
    if stray := [name for name in names if STRAY.search(name)]:
        sys.exit(f"{file.name} holds stray files: {stray}")
    if file.stat().st_size > MOST_OF_US:
        sys.exit(f"{file.name} has {file.stat().st_size / 1e6:.1f} MB, more than {MOST_OF_US / 1e6:.0f}")


def check_installed(target: Path, python: str, folder: Path) -> None:
    """Install the wheel for a Python and use it.

    Parameters
    ----------
    target : Path
        Has the wheels.
    python : str
        The interpreter.
    folder : Path
        Takes all that is made.
    """
    run([python, "-m", "venv", "--without-pip", str(folder / "venv")])
    inside = str(folder / "venv/bin/python")
    pip = [*PIP, "--python", inside]
    wheels = folder / "wheels"
    # The wheel that pip takes for this Python, then all that it depends on, in their newest versions.
    choose = ["download", "--no-deps", "--no-index", "--only-binary=:all:", "--find-links", str(target)]
    run([*pip, *choose, "--dest", str(wheels), "labelprism"])
    (ours,) = wheels.iterdir()
    run([*pip, "download", "--only-binary=:all:", "--dest", str(wheels), str(ours)])
    fetched = {file.name: file.stat().st_size for file in wheels.iterdir()}
    for name, size in sorted(fetched.items(), key=lambda item: -item[1]):
        print(f"  {size / 1e6:6.1f} MB  {name}")
    total = sum(fetched.values())
    if total > MOST_FETCHED:
        sys.exit(f"pip fetches {total / 1e6:.0f} MB, more than {MOST_FETCHED / 1e6:.0f}")
    nothing = folder / "no-tools"
    nothing.mkdir()
    environment = {**os.environ, "PATH": str(nothing)}
    run([*pip, "install", "--no-index", "--find-links", str(wheels), "labelprism"], environment)
    (packages,) = (folder / "venv/lib").glob("python*/site-packages")
    taken = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    print(
        f"{ours.name}: fetched {sum(fetched.values()) / 1e6:.1f} MB, installed {taken / 1e6:.0f} MB, without a compiler"
    )
    use_installed(inside, folder)


def use_installed(inside: str, folder: Path) -> None:
    """Run what pyproject.toml has for wheels, the demonstration and tests, outside the source tree."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    run([*PIP, "--python", inside, "install", *settings["test-requires"]])
    place = folder / "tests-alone"
    place.mkdir()
    for name in settings["test-sources"]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)
    for command in settings["test-command"].split(" && "):
        run([inside, *command.split()[1:]], folder=place)


def run(command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a program that must succeed."""
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env=environment, cwd=folder)


def main(target: Path, pythons: list[str]) -> None:
    """Check all files of a folder."""
    files = sorted(path for path in target.iterdir() if path.name.endswith((".whl", ".tar.gz")))
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    for file in files:
        check_wheel(file) if file.suffix == ".whl" else check_archive(file)
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            check_installed(target, python, Path(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or [sys.executable])
