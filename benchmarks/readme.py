"""The table and the picture of README.md, made of the tables of docs/benchmarks.md.

python benchmarks/readme.py
"""

from __future__ import annotations

import html
import math
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
PICTURE = ROOT / "docs" / "pictures" / "peers.svg"
N_LABELS = {
    "bibtex": 159,
    "delicious": 983,
    "onet-task-dwa": 2069,
    "icd10cm-sub": 10863,
    "tate-subjects": 14905,
    "wordnet-hypernym": 19675,
    "wordnet-ancestors": 19772,
    "yso-finna-en": 24953,
    "debian-deps": 37694,
    "npm-deps": 75928,
    "geonames-alt": 137573,
    "mesh-all-terms": 169744,
}
OURS, OUR_COLOUR = "labelprism default", "#4c5fd5"
SYSTEMS = {
    OURS: ("labelprism", OUR_COLOUR),
    "labelprism accurate": ("labelprism `accurate`", OUR_COLOUR),
    "omikuji parabel": ("omikuji Parabel", "#d9822b"),
    "omikuji bonsai": ("omikuji Bonsai", "#b5891a"),
    "libpecos default, unit rows": ("PECOS", "#2a9d6e"),
    "napkinxc plt": ("napkinXC", "#c2528b"),
    "vowpalwabbit plt": ("Vowpal Wabbit", "#8a63d2"),
}
Results = dict[str, dict[str, tuple[float, float]]]


def results(page: str) -> Results:
    """Return P@1 and CPU seconds of training, by data set and system.

    Parameters
    ----------
    page : str
        The text of docs/benchmarks.md.
    """
    found: Results = {}
    for name, table in re.findall(r"^### (\S+)\n\n((?:\|.*\n)+)", page, re.MULTILINE):
        rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines()]
        p_at_1, seconds = rows[0].index("P@1"), rows[0].index("(CPU)")
        found[name] = {row[0]: (float(row[p_at_1]), float(row[seconds])) for row in rows[2:]}
    missing = set(N_LABELS) - set(found)
    if missing:
        raise ValueError(f"docs/benchmarks.md has no table of {sorted(missing)}")
    return found


def table(found: Results) -> str:
    """Return the table of README.md: a row for each data set, P@1 and CPU seconds of each system."""
    titles = [title for title, _ in SYSTEMS.values()]
    lines = ["| data set, labels | " + " | ".join(titles) + " |", "|---" * (1 + len(titles)) + "|"]
    for name, n_labels in N_LABELS.items():
        best = max(found[name][system][0] for system in SYSTEMS if system in found[name])
        cells = [_cell(found[name].get(system), best) for system in SYSTEMS]
        lines.append(f"| {name}, {n_labels:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(result: tuple[float, float] | None, best: float) -> str:
    if result is None:
        return "-"
    p_at_1, seconds = result
    shown = f"{p_at_1:.2f}"
    return f"{f'**{shown}**' if p_at_1 == best else shown}, {seconds:.1f}"


# ------------------------------------------------------------------------------------------------------------- picture

WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 44
TIMES, POINTS = (1 / 2, 128), (-14, 2)
TIMES_SHOWN = (0.5, 1, 2, 4, 8, 16, 32, 64, 128)
INK = "#757d8a"  # like the colours of the marks, to be read on white and on black
SPACE = 116  # between words of the legend


def picture(found: Results) -> str:
    """Return an SVG: how long others train and how good they are, both against labelprism, a mark for each data set."""
    marks, legend = [], []
    for place, (system, (title, colour)) in enumerate(list(SYSTEMS.items())[1:]):
        title, x = title.replace("`", "").removeprefix("labelprism "), LEFT + 12 + SPACE * place
        legend.append(_circle(x, 14, colour) + _text(x + 10, 18, title))
        for name in N_LABELS:
            if system in found[name]:
                (p_at_1, seconds), (our_p, our_seconds) = found[name][system], found[name][OURS]
                tip = f"{title}, {name}: {seconds / our_seconds:.1f} times the CPU time, P@1 {p_at_1 - our_p:+.1f}"
                marks.append(_mark(seconds / our_seconds, p_at_1 - our_p, colour, tip))
    ticks = [_text(_x(time), HEIGHT - BOTTOM + 17, f"{time:g} x", "middle") for time in TIMES_SHOWN]
    ticks += [_text(LEFT - 7, _y(points) + 4, f"{points:+d}" if points else "0", "end") for points in range(-14, 3, 2)]
    grid = [_line(_x(time), TOP, _x(time), HEIGHT - BOTTOM, 0.25) for time in TIMES_SHOWN if time != 1]
    grid += [_line(LEFT, _y(points), WIDTH - RIGHT, _y(points), 0.25) for points in range(-14, 3, 2) if points]
    axes = [_line(_x(1), TOP, _x(1), HEIGHT - BOTTOM, 1), _line(LEFT, _y(0), WIDTH - RIGHT, _y(0), 1)]
    words = [
        _text(WIDTH / 2, HEIGHT - 6, "CPU time of training, against labelprism", "middle"),
        f'<g transform="rotate(-90 13 {HEIGHT / 2})">{_text(13, HEIGHT / 2, "points of P@1", "middle")}</g>',
        f'<path d="M{_x(1):.1f} {_y(0) - 9:.1f}l8 14h-16z" fill="{OUR_COLOUR}"/>',
        f'<g fill="{OUR_COLOUR}" font-weight="bold">{_text(_x(1) - 12, _y(0) - 5, "labelprism", "end")}</g>',
    ]
    style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}" role="img"'
    title = "<title>P@1 and training time of other systems on twelve data sets, against labelprism</title>"
    parts = [title, *grid, *axes, *ticks, *marks, *legend, *words]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f"{head} {style}>\n" + "\n".join(parts) + "\n</svg>\n"


def _x(time: float) -> float:
    low, high = (math.log(limit) for limit in TIMES)
    return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(time) - low) / (high - low)


def _y(points: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (points - POINTS[0]) / (POINTS[1] - POINTS[0])


def _mark(time: float, points: float, colour: str, tip: str) -> str:
    """Return a mark; one that lies below the picture points down from its edge, and says how far."""
    if points >= POINTS[0]:
        return _circle(_x(time), _y(points), colour, tip)
    x, edge = _x(time), _y(POINTS[0])
    arrow = f'<path d="M{x - 5:.1f} {edge - 10:.1f}h10l-5 10z" fill="{colour}"><title>{html.escape(tip)}</title></path>'
    return arrow + _text(x + 9, edge - 3, f"{points:+.0f}")


def _circle(x: float, y: float, colour: str, tip: str = "") -> str:
    inside = f"<title>{html.escape(tip)}</title>" if tip else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}" fill-opacity="0.85">{inside}</circle>'


def _line(x1: float, y1: float, x2: float, y2: float, opacity: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{INK}" stroke-opacity="{opacity}"/>'


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def with_table(readme: str, found: Results) -> str:
    """Return README.md with its table made anew, between two comments."""
    before, _, rest = readme.partition("<!-- table -->\n")
    _, _, after = rest.partition("<!-- end -->\n")
    if not after:
        raise ValueError("README.md must have the lines <!-- table --> and <!-- end -->, the table between them")
    return f"{before}<!-- table -->\n{table(found)}<!-- end -->\n{after}"


def main() -> None:
    """Write the table and the picture."""
    found = results(PAGE.read_text("utf-8"))
    README.write_text(with_table(README.read_text("utf-8"), found), "utf-8")
    PICTURE.write_text(picture(found), "utf-8")


if __name__ == "__main__":
    main()
