"""Write a bill of materials of labelprism with all core dependencies, as CycloneDX; `make sbom`.

    python tools/release/sbom.py dist python3.12

It describes a fresh environment with the wheel in it, and is checked against the schema. What is compiled into a wheel
is listed in the wheel itself, in its .dist-info/sboms.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def main(target: Path, python: str) -> None:
    """Write the bill beside the wheels.

    Parameters
    ----------
    target : Path
        Has the wheels.
    python : str
        The interpreter whose wheel is described.
    """
    (archive,) = target.glob("labelprism-*.tar.gz")
    bill = target / archive.name.replace(".tar.gz", ".cdx.json")
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        run([python, "-m", "venv", "--without-pip", str(environment)])
        inside = str(environment / "bin/python")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", inside]
        wheel = Path(folder) / "wheel"
        choose = ["download", "--no-deps", "--no-index", "--only-binary=:all:", "--find-links", str(target)]
        run([*pip, *choose, "--dest", str(wheel), "labelprism"])
        run([*pip, "install", "--only-binary=:all:", *map(str, wheel.iterdir())])
        arguments = ["--output-reproducible", "--validate", "--sv", "1.6", "--of", "JSON", "-o", str(bill), inside]
        run([sys.executable, "-m", "cyclonedx_py", "environment", *arguments])
    print(f"{bill}: {bill.stat().st_size} bytes")


def run(command: list[str]) -> None:
    """Run a program that must succeed."""
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else sys.executable)
