"""Pack a sixth of Debian's packages, by source, into the sample of `examples/package_dependencies.py`.

    apt-cache dumpavail | python tools/pack_debian_sample.py

Only facts are kept: names, sources, sections and what a package depends on, without versions; no descriptions.
"""

from __future__ import annotations

import lzma
import re
import sys
import zlib
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "examples" / "data" / "debian-sample.xz"
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def stanza_of(text: str) -> str | None:
    """Return what is kept of a package, or None where it is not in the sample."""
    fields = {name: value for name, _, value in (line.partition(": ") for line in text.split("\n"))}
    if "Package" not in fields:
        return None
    source = fields.get("Source", fields["Package"]).split()[0]
    if zlib.crc32(b"sample " + source.encode()) % 6:
        return None
    first = (NAME.match(one.strip()) for one in fields.get("Depends", "").split(","))
    depends = ", ".join(sorted({one.group() for one in first if one}))
    kept = {"Package": fields["Package"], "Source": source, "Section": fields.get("Section"), "Depends": depends}
    return "".join(f"{name}: {value}\n" for name, value in kept.items() if value)


def main() -> None:
    """Read a list of packages from standard input and write the sample."""
    stanzas = dict.fromkeys(filter(None, map(stanza_of, sys.stdin.read().split("\n\n"))))
    with lzma.open(TARGET, "wt", encoding="utf-8", preset=9) as stream:
        stream.write("\n".join(stanzas))
    print(f"{len(stanzas):,} packages, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
