"""Small tables and numbers for people."""

from __future__ import annotations

import math
from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], n_left: int = 1) -> str:
    """Return rows of cells in columns: the first `n_left` columns to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < n_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def percent(value: float | None, digits: int = 2) -> str:
    """Return a share in percent; "-" where it is undefined."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:.{digits}f}"


def size(n_bytes: int) -> str:
    """Return a number of bytes in a unit that suits it."""
    value, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{n_bytes} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def without_nan(value: float) -> float | None:
    """Return a number as JSON can have it: None where it is undefined."""
    return None if math.isnan(value) else value
