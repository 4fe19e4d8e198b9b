"""Pack the Tate subjects into the three files that `labelprism.data.load_tate` reads.

    python tools/pack_tate.py SOURCE_DIR

SOURCE_DIR holds trn.txt.xz and tst.txt.xz (a text a line), Y_trn.txt.xz and Y_tst.txt.xz (a header "rows labels", then
the label ids of each row, blanks between them) and labels.txt.xz (`Tate id TAB name`, a line for each label id).
"""

from __future__ import annotations

import argparse
import lzma
from collections import Counter
from pathlib import Path

TARGET_DIR = Path(__file__).resolve().parents[1] / "src" / "labelprism" / "data" / "tate"


def read_lines(path: Path) -> list[str]:
    """Return the lines of an xz file, which end at line feeds and nowhere else."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [line.removesuffix("\n") for line in lines]


def unique_names(lines: list[str]) -> list[str]:
    """Return the names in lines of `id TAB name`; those that share a name get their id in brackets."""
    pairs = [line.split("\t") for line in lines]
    uses = Counter(name for _, name in pairs)
    names = [f"{name} ({tate_id})" if uses[name] > 1 else name for tate_id, name in pairs]
    if len(set(names)) != len(names):
        raise ValueError("an id in brackets makes a name that another label has already")
    return names


def rows_of(source: Path, part: str, n_labels: int) -> list[str]:
    """Return the rows of one part as lines of `text TAB id,id`."""
    texts = read_lines(source / f"{part}.txt.xz")
    header, *rows = read_lines(source / f"Y_{part}.txt.xz")
    if header.split() != [str(len(texts)), str(n_labels)] or len(rows) != len(texts):
        raise ValueError(f"Y_{part} says {header!r}, but there are {len(texts)} texts and {n_labels} labels")
    if any("\t" in text for text in texts):
        raise ValueError(f"a text of {part} holds a TAB")
    return [f"{text}\t{','.join(row.split())}" for text, row in zip(texts, rows, strict=True)]


def pack(source: Path, target: Path) -> dict[str, int]:
    """Write the three files into `target` and return their sizes in bytes."""
    names = unique_names(read_lines(source / "labels.txt.xz"))
    contents = {
        "labels.txt.xz": names,
        "train.tsv.xz": rows_of(source, "trn", len(names)),
        "test.tsv.xz": rows_of(source, "tst", len(names)),
    }
    target.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for file_name, lines in contents.items():
        plain = "".join(f"{line}\n" for line in lines).encode("utf-8")
        sizes[file_name] = (target / file_name).write_bytes(lzma.compress(plain, preset=9 | lzma.PRESET_EXTREME))
    return sizes


def main() -> None:
    """Pack what the command line names and print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SOURCE_DIR")
    sizes = pack(parser.parse_args().source, TARGET_DIR)
    for file_name, size in sizes.items():
        print(f"{size:>9,} bytes  {file_name}")
    print(f"{sum(sizes.values()):>9,} bytes  in all")


if __name__ == "__main__":
    main()
