"""What all drawn pictures share: colours for light and dark pages, and files that do not change without reason."""

from __future__ import annotations

import io
import logging
import warnings
from pathlib import Path
from typing import Any

from labelprism.data.files import writing

logger = logging.getLogger("labelprism")

PAPER, INK, FAINT, GRID = "#ffffff", "#24292f", "#6a737d", "#d5d9de"
LEFT, RIGHT, THIRD, FOURTH = "#0072b2", "#d55e00", "#00805e", "#9a4f8a"
"""Blue, vermilion, green and purple, which colour-blind people can tell apart; of enough contrast on white."""

_IN_DARK = {
    PAPER: "#16191f",
    INK: "#e6e9ee",
    FAINT: "#9aa4af",
    GRID: "#363c45",
    LEFT: "#56b4e9",
    RIGHT: "#ff9e4a",
    THIRD: "#2fd0a3",
    FOURTH: "#d9a0c8",
}
"""What colours become where the reader has chosen a dark page; the paper is drawn too, so that all fit in any case."""


def matplotlib_figure(width: float, height: float) -> Any:
    """Return an empty figure of some inches, on paper of its own.

    Parameters
    ----------
    width, height : float
    """
    return figure_type()(figsize=(width, height), layout="constrained", facecolor=PAPER)


def figure_type() -> Any:
    """Return matplotlib's figure, or say how to install it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'labelprism[explore]'") from error
    return Figure


def plain_axes(axes: Any) -> None:
    """Give axes the colours of this module, whatever the reader's own settings are.

    Parameters
    ----------
    axes : matplotlib Axes
    """
    axes.set_facecolor(PAPER)
    axes.tick_params(colors=INK, labelsize=9, which="both")
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.spines[:].set_color(FAINT)
    axes.spines[["top", "right"]].set_visible(False)


def legend(owner: Any, **options: Any) -> None:
    """Add a legend to axes or a figure.

    Parameters
    ----------
    owner : matplotlib Axes or Figure
    **options
        As of matplotlib.
    """
    owner.legend(frameon=False, fontsize=9, labelcolor=INK, **options)


def save_picture(figure: Any, path: str | Path) -> None:
    """Write a figure into a file; the ending says the kind: .svg, .png, .pdf.

    An SVG holds text as text, shows dark colours where the reader's system does, and has the same bytes whenever it is
    drawn from the same numbers by the same matplotlib.

    Parameters
    ----------
    figure : matplotlib Figure
        One of this package has colours for dark pages; any other keeps its own.
    path : path-like
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "pdf"):
        raise ValueError(f"{path}: pictures are written as .svg, .png or .pdf")
    figure_type()
    from matplotlib import rc_context

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "labelprism", "font.sans-serif": ["DejaVu Sans"]}
    drawn = io.BytesIO()
    with rc_context(settings), warnings.catch_warnings(record=True) as told:
        warnings.filterwarnings("always", "Glyph .* missing from font")
        metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        figure.savefig(drawn, format=kind, dpi=120, metadata=metadata)
    missing = [str(one.message) for one in told if "missing from font" in str(one.message)]
    if missing:  # one for each character, of which there may be thousands
        logger.warning("the font of matplotlib lacks characters of some names: %s", missing[0])
    content = drawn.getvalue()
    with writing(path) as stream:
        stream.write(_with_dark_colours(content.decode()).encode() if kind == "svg" else content)


def _with_dark_colours(svg: str) -> str:
    """Return an SVG with rules for readers who prefer dark pages; what ignores the rules shows the light ones."""
    rules = [
        f'[style*="{property}: {light}"]{{{property}:{dark} !important}}'
        for light, dark in _IN_DARK.items()
        for property in ("fill", "stroke")
        if f"{property}: {light}" in svg
    ]
    style = f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>\n"
    return svg.replace("</defs>", "</defs>\n " + style, 1)
