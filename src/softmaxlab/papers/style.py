"""How pictures look: colours that all readers can tell apart, sizes of journal columns, files that do not change.

A picture is drawn for a screen. For a journal its panels are set anew, as many side by side as the column holds, the
text is 7 to 9 points, and legends of many entries go below. Its heading belongs in the caption and is left out.
"""

import math
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.files import atomic
from softmaxlab.errors import unknown

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

# Okabe and Ito's palette, ordered by contrast on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

STYLES = {"screen": None, "icml": 3.25, "neurips": 5.5, "aps": 3.375}  # inches of a column; None: as it was drawn
FORMATS = ("png", "svg", "pdf")
SMALLEST, LARGEST = 7.0, 9.0  # points of text in a journal
PANEL = 1.36  # inches that a panel needs across, and
LOWEST, HIGHEST = 1.55, 2.6  # down, its labels included
PAGE = 9.0  # inches, the highest picture
LETTER = 0.58  # mean width of a letter, of the size of the text
ENTRIES = 3  # of a legend inside a panel
SHORT = 4  # letters


def save(figure: "matplotlib.figure.Figure", path: Path, format: str = "png", style: str = "screen") -> Path:
    """Write a picture; an SVG or PDF is the same byte for byte on every run."""
    import matplotlib

    check_look(format, style)
    if (column := STYLES[style]) is not None:
        _fit(figure, column)
    path = path.with_name(f"{path.name}.{format}")
    stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
    settings: dict[Any, Any] = {"svg.hashsalt": "softmaxlab", "svg.fonttype": "path", "pdf.fonttype": 42}
    with atomic(path) as draft, matplotlib.rc_context(settings):
        figure.savefig(draft, format=format, dpi=150 if style == "screen" else 300, metadata=stamp)
    return path


def check_look(format: str, style: str) -> None:
    """Refuse an unknown format or style, before any work."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if style not in STYLES:
        raise unknown("style", style, STYLES)


def _fit(figure: "matplotlib.figure.Figure", column: float) -> None:
    """Make a picture as wide as a column, and as high as its panels then need."""
    import matplotlib.lines

    width, height = figure.get_size_inches()
    rows, across = _grid(figure)
    fit = math.ceil(across / math.ceil(across / max(1, int(column // _needed(figure)))))
    panel = min(HIGHEST, max(LOWEST, (height / rows) / (width / across) * column / fit))
    shrink = min(1.0, (column / fit) / (width / across))
    down = _set_anew(figure, rows, across, fit) if fit < across else rows
    figure.suptitle("")
    _write_anew(figure, shrink, column / fit, panel)
    below = _move_legends(figure, column, column / fit)
    figure.set_size_inches(column, min(PAGE, down * panel + below))
    for line in figure.findobj(matplotlib.lines.Line2D):
        line.set_linewidth(line.get_linewidth() * max(0.6, shrink**0.5))
        line.set_markersize(line.get_markersize() * max(0.6, shrink**0.5))


def _panels(figure: "matplotlib.figure.Figure") -> "list[Axes]":
    return [ax for ax in figure.axes if ax.get_subplotspec() is not None]


def _grid(figure: "matplotlib.figure.Figure") -> tuple[int, int]:
    """Rows and columns of panels; one of each if they are not in one plain grid, whose panels stay where they are."""
    specs = [spec for ax in _panels(figure) if (spec := ax.get_subplotspec()) is not None]
    grids = {id(spec.get_gridspec()) for spec in specs}
    if len(grids) != 1 or any(spec.num1 != spec.num2 for spec in specs):
        return 1, 1
    return specs[0].get_gridspec().get_geometry()


def _needed(figure: "matplotlib.figure.Figure") -> float:
    """Inches that a panel needs across: more if names stand side by side below it."""
    counts = [0]
    for ax in figure.axes:
        names = [text for text in ax.get_xticklabels() if text.get_rotation()]
        counts += [len(names)] if any(len(text.get_text()) > SHORT for text in names) else []
    return max(PANEL, max(counts) * 1.05 * SMALLEST / 72 + 0.5)


def _set_anew(figure: "matplotlib.figure.Figure", rows: int, across: int, fit: int) -> int:
    """Every row of panels becomes several, `fit` panels wide; if that leaves many gaps, close them. The new rows."""
    from matplotlib.gridspec import GridSpec

    parts = math.ceil(across / fit)
    panels = [ax for ax in _panels(figure) if ax.get_visible()]
    gaps = rows * (parts * fit - across)
    down = math.ceil(len(panels) / fit) if gaps > fit else rows * parts
    grid = GridSpec(down, fit, figure=figure)
    for i, ax in enumerate(panels):
        row, column = divmod(ax.get_subplotspec().num1, across)  # type: ignore[union-attr]
        place = divmod(i, fit) if gaps > fit else (row * parts + column // fit, column % fit)
        ax.set_subplotspec(grid[place])
        # panels that shared a scale left its numbers to a neighbour, which may now stand elsewhere
        if ax.axison and len(ax.get_shared_y_axes().get_siblings(ax)) > 1 and place[1] == 0:
            ax.tick_params(labelleft=True)
        if ax.axison and len(ax.get_shared_x_axes().get_siblings(ax)) > 1:
            ax.tick_params(labelbottom=True)
    return down


def _write_anew(figure: "matplotlib.figure.Figure", shrink: float, width: float, height: float) -> None:
    """Text of a journal's size, titles and labels broken to the panel. Notes inside a panel may stay smaller."""
    import matplotlib.text

    notes = {id(text) for ax in figure.axes for text in ax.texts}
    for text in figure.findobj(matplotlib.text.Text):
        size = text.get_fontsize()
        text.set_fontsize(min(size, SMALLEST) if id(text) in notes else _size(size * shrink**0.5))
    for ax in figure.axes:
        # labels take a part of the panel from the axes, over which titles are centred
        for text, room in ((ax.title, 0.8 * width), (ax.xaxis.label, 0.8 * width), (ax.yaxis.label, 0.6 * height)):
            text.set_text(_broken(text.get_text(), room, float(text.get_fontsize())))
        _thin_ticks(ax, 0.6 * width)


def _thin_ticks(ax: "Axes", room: float) -> None:
    """Of chosen ticks as many as have room; names longer than a number are left alone."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    for axis, across in ((ax.xaxis, True), (ax.yaxis, False)):
        labels = [text.get_text() for text in axis.get_ticklabels()]
        named = isinstance(axis.get_major_formatter(), FixedFormatter)
        if not isinstance(axis.get_major_locator(), FixedLocator) or (
            named and max(map(len, labels), default=0) > SHORT
        ):
            continue
        flat = across and not any(text.get_rotation() for text in axis.get_ticklabels())
        each = ((SHORT + 1) * LETTER if flat else 1.0) * SMALLEST / 72
        every = math.ceil(len(labels) * each / room)
        if every > 1:
            ticks = list(axis.get_majorticklocs())[::every]
            axis.set_ticks(ticks, labels[::every] if named else None)


def _size(points: float) -> float:
    return min(LARGEST, max(SMALLEST, points))


def _broken(text: str, room: float, points: float) -> str:
    """Lines of a text that fit into `room` inches; formulas are not broken."""
    whole = re.sub(r"\$[^$]*\$", lambda found: found[0].replace(" ", "\0"), text)
    letters = max(8, int(room * 72 / (LETTER * points)))
    lines = [part for line in whole.split("\n") for part in textwrap.wrap(line, letters, break_long_words=False)]
    return "\n".join(lines).replace("\0", " ")


def _move_legends(figure: "matplotlib.figure.Figure", column: float, panel: float) -> float:
    """Legends with short keys; those too large for their panel become one below the picture. The height it needs."""
    below: dict[str, Any] = {}
    for ax in figure.axes:
        if (legend := ax.get_legend()) is None:
            continue
        entries = _entries(legend)
        if len(entries) <= ENTRIES and _across(entries) < 0.6 * panel:
            ax.legend(entries.values(), entries, loc="best", **_look_of_legend())
        else:
            of = f"{ax.get_title()}: " if 0 < len(ax.get_title()) <= SHORT * 3 and len(figure.axes) > 1 else ""
            below |= {f"{of}{label}": handle for label, handle in entries.items()}
            legend.remove()
    for legend in list(figure.legends):
        below |= _entries(legend)
        legend.remove()
    if not below:
        return 0.0
    columns = max(1, min(len(below), int(column / _across(below))))
    figure.legend(below.values(), below, loc="outside lower center", ncols=columns, **_look_of_legend())
    return math.ceil(len(below) / columns) * 1.35 * SMALLEST / 72 + 0.1


def _entries(legend: "Legend") -> dict[str, Any]:
    """Label → what it is drawn as."""
    return {text.get_text(): handle for text, handle in zip(legend.get_texts(), legend.legend_handles) if handle}


def _across(labels: Iterable[str]) -> float:
    """Inches that an entry of a legend takes."""
    lengths = (len(re.sub(r"\\[a-z]+|[${}_^]", "", label)) for label in labels)
    return (max(lengths, default=0) * LETTER + 3) * SMALLEST / 72


def _look_of_legend() -> dict[str, Any]:
    short = {"handlelength": 1.4, "handletextpad": 0.4, "labelspacing": 0.25, "borderpad": 0.25, "columnspacing": 0.9}
    return {"fontsize": SMALLEST, "framealpha": 0.7, "edgecolor": "none", **short}
