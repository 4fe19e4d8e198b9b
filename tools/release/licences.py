"""List the licences of all packages that labelprism and its extras install, in docs/licences.md.

    python tools/release/licences.py write      # in an environment that has all extras: make licences
    python tools/release/licences.py check      # whether it has every package: make check-release-files

Which packages there are follows from the requirements of the packages that are installed here, for every Python and
every system that we support. For one that is not installed, because only another Python or system needs it, the licence
is the one that the file has already.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/licences.md"
FOR_DEVELOPERS = {"bench", "dev", "docs", "encoder", "examples", "release", "test", "test-serve"}
SYSTEMS = ("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt")
ENVIRONMENTS = [
    {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0", "sys_platform": platform,
     "platform_system": system, "os_name": os_name, "platform_machine": "x86_64", "implementation_name": "cpython",
     "platform_python_implementation": "CPython"}
    for minor in range(10, 15)
    for platform, system, os_name in SYSTEMS
]  # fmt: skip
# What packages say of themselves where they have no SPDX expression.
SHORT = {
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
HEAD = """# Licences of the packages that are installed with labelprism

labelprism is under the Apache License 2.0. What its wheels hold of others is in
[THIRD_PARTY_LICENSES.md](../THIRD_PARTY_LICENSES.md). The packages below come from PyPI when labelprism, or one of its
extras, is installed, each under its own licence. Some are for certain Pythons or systems only. `make licences` writes
this page from what the packages say of themselves, and `make check-release-files` tells when it lacks one.
"""
CORE_TABLE = ["## labelprism itself", "", "| package | licence |", "|---|---|"]
EXTRAS_TABLE = ["", "## Extras", "", "| package | licence | comes with |", "|---|---|---|"]


def closure(extra: str) -> set[str]:
    """Return the packages that labelprism with an extra needs; those of labelprism alone for an empty string."""
    needed: set[str] = set()
    waiting = [("labelprism", extra)]
    seen = set()
    while waiting:
        name, of_extra = waiting.pop()
        if (name, of_extra) in seen:
            continue
        seen.add((name, of_extra))
        needed.add(name)
        for requirement in requirements(name):
            if any(wants(requirement, environment, of_extra) for environment in ENVIRONMENTS):
                waiting.extend((canonicalize_name(requirement.name), e) for e in ["", *requirement.extras])
    return needed - {"labelprism"}


def requirements(name: str) -> Iterable[Requirement]:
    """Return what a package needs; nothing of one that is not here."""
    try:
        return [Requirement(text) for text in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:
        return []


def wants(requirement: Requirement, environment: dict[str, str], extra: str) -> bool:
    """Tell whether a requirement holds in an environment, with an extra."""
    return requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra})


def licence(name: str) -> str | None:
    """Return the licence of a package that is installed here, as SPDX where it says so."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if expression := about.get("License-Expression"):
        return str(expression)
    said = (about.get("License") or "").strip()
    classified = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    found = said if said and len(said) < 60 and "\n" not in said else " AND ".join(classified)
    return SHORT.get(found, found) or None


def listed() -> dict[str, str]:
    """Return the licences that the page has, by package."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return dict(re.findall(r"^\| ([^ |]+) \| ([^|]+?) \|", text, re.MULTILINE))


def distribution_extras() -> set[str]:
    """Return the extras of labelprism, as it is installed here."""
    return set(metadata.metadata("labelprism").get_all("Provides-Extra") or [])


def packages() -> dict[str, list[str]]:
    """Return every package, and by which extras it comes; an empty name for labelprism itself."""
    extras = distribution_extras() - FOR_DEVELOPERS
    found: dict[str, list[str]] = {}
    core = closure("")
    for extra in ["", *sorted(extras)]:
        for name in closure(extra) - (core if extra else set()):
            found.setdefault(name, []).append(extra)
    return dict(sorted(found.items()))


def main(what: str) -> None:
    """Write the page, or tell what it lacks."""
    before, found = listed(), packages()
    licences = {name: licence(name) or before.get(name) for name in found}
    if unknown := [name for name, known in licences.items() if known is None]:
        sys.exit(f"no licence is known of {unknown}: install them first, or add a line for each to {PAGE.name}")
    if what == "check":
        if missing := [name for name in licences if name not in before]:
            sys.exit(f"{PAGE.name} lacks {missing}: make licences")
        return
    core = [f"| {name} | {licences[name]} |" for name, extras in found.items() if extras == [""]]
    more = [f"| {name} | {licences[name]} | {', '.join(extras)} |" for name, extras in found.items() if extras != [""]]
    text = "\n".join([HEAD, *CORE_TABLE, *core, *EXTRAS_TABLE, *more, ""])
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
