"""The look of pictures: colours that all readers can tell apart, sizes of journal columns, files that do not change.

A picture is drawn for a screen. For a journal its panels are set anew, as many side by side as the column holds, the
text is 7 to 9 points, and legends of many entries go below. Its heading belongs in the caption and is left out.
"""

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.files import atomic
from softmaxlab.errors import unknown
from softmaxlab.plotting import text_layout
from softmaxlab.plotting.text_layout import LETTER, SHORT, SMALLEST

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

# Okabe and Ito's palette, ordered by contrast on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

STYLES = {"screen": None, "icml": 3.25, "neurips": 5.5, "aps": 3.375}  # inches of a column; None: as it was drawn
FORMATS = ("png", "svg", "pdf")
PANEL = 1.36  # inches that a panel needs across, and
LOWEST, HIGHEST = 1.55, 2.6  # down, its labels included;
BARE = 0.9  # both, if it has no labels
PAGE = 9.0  # inches, the highest picture
LINES = 2  # of a title, for which a panel has room
ENTRIES = 3  # of a legend inside a panel
DPI = 300  # of a journal's picture


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
        figure.savefig(draft, format=format, dpi=150 if style == "screen" else DPI, metadata=stamp)
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
    import matplotlib.patches

    inside = text_layout.notes_inside(figure)
    width, height = figure.get_size_inches()
    rows, across = _grid(figure)
    least, lowest = _needed(figure)
    fit = across if _is_bound(figure) else _side_by_side(figure, min(across, max(1, int(column // least))))
    panel = min(HIGHEST, max(lowest, (height / rows) / (width / across) * column / fit))
    shrink = min(1.0, (column / fit) / (width / across))
    down = _set_anew(figure, rows, across, fit) if fit < across or _narrowest(figure, column) < least else rows
    figure.suptitle("")
    text_layout.resize(figure, shrink, column / fit)
    below = _move_legends(figure, column, column / fit)
    figure.set_size_inches(column, min(PAGE, down * panel + below))
    figure.set_dpi(DPI)  # letters are a little wider or narrower at another
    text_layout.settle(figure, inside)
    if (more := text_layout.most_lines(figure) - LINES) > 0:
        figure.set_size_inches(column, min(PAGE, down * (panel + more * 1.35 * SMALLEST / 72) + below))
        text_layout.settle(figure, inside)
    thinner = max(0.6, shrink**0.5)
    for line in figure.findobj(matplotlib.lines.Line2D):
        line.set_linewidth(line.get_linewidth() * thinner)
        line.set_markersize(line.get_markersize() * thinner)
    for patch in figure.findobj(matplotlib.patches.Patch):
        patch.set_linewidth(patch.get_linewidth() * thinner)


def _panels(figure: "matplotlib.figure.Figure") -> "list[Axes]":
    return [ax for ax in figure.axes if ax.get_subplotspec() is not None]


def _grid(figure: "matplotlib.figure.Figure") -> tuple[int, int]:
    """Rows and columns of panels; one of each if they are not in one plain grid, whose panels stay where they are."""
    specs = [spec for ax in _panels(figure) if (spec := ax.get_subplotspec()) is not None]
    grids = {id(spec.get_gridspec()) for spec in specs}
    if len(grids) != 1 or any(spec.num1 != spec.num2 for spec in specs):
        return 1, 1
    return specs[0].get_gridspec().get_geometry()


def _is_bound(figure: "matplotlib.figure.Figure") -> bool:
    """Return whether all panels share colour bars, which stand beside them only as long as rows stay whole."""
    bars = (getattr(ax, "_colorbar_info", {}) for ax in figure.axes)
    shared = [ax for bar in bars if len(bar.get("parents", ())) > 1 for ax in bar["parents"]]
    return set(shared) == set(_panels(figure))


def _narrowest(figure: "matplotlib.figure.Figure", column: float) -> float:
    """Inches of the narrowest panel, if some are drawn wider than others."""
    ratios = _ratios(figure)
    return column * min(ratios) / sum(ratios) if min(ratios) < max(ratios) else math.inf


def _ratios(figure: "matplotlib.figure.Figure") -> list[float]:
    """Return the widths of a plain grid's columns, relative to each other."""
    panels = _panels(figure)
    if _grid(figure)[1] == 1:
        return [1.0]
    return list(panels[0].get_subplotspec().get_gridspec().get_width_ratios())  # type: ignore[union-attr]


def _is_list(figure: "matplotlib.figure.Figure") -> bool:
    """Panels that end within a row are a list, whose rows mean nothing."""
    rows, across = _grid(figure)
    return rows > 1 and sum(ax.get_visible() for ax in _panels(figure)) < rows * across


def _side_by_side(figure: "matplotlib.figure.Figure", most: int) -> int:
    """Return how many panels stand side by side: at most `most`, with as few gaps as possible in the last row."""
    number = sum(ax.get_visible() for ax in _panels(figure)) if _is_list(figure) else _grid(figure)[1]
    return math.ceil(number / math.ceil(number / most))


def _needed(figure: "matplotlib.figure.Figure") -> tuple[float, float]:
    """Inches that a panel needs across and down: more if names stand side by side below it, less if it is bare."""
    needed = [0.0]
    for ax in figure.axes:
        names = [text for text in ax.get_xticklabels() if text.get_rotation()]
        if any(len(text.get_text()) > SHORT for text in names):
            needed.append(len(names) * 1.05 * SMALLEST / 72 + 0.5)
        needed.append(text_layout.longest_word(ax.get_title()) + text_layout.GAP)
    bare = all(not (len(ax.get_xticks()) or len(ax.get_yticks())) for ax in _panels(figure) if ax.get_visible())
    return max(BARE if bare else PANEL, *needed), BARE if bare else LOWEST


def _set_anew(figure: "matplotlib.figure.Figure", rows: int, across: int, fit: int) -> int:
    """Break every row of panels into rows of `fit` panels; close gaps if that leaves many. Return the new rows."""
    from matplotlib.gridspec import GridSpec

    parts = math.ceil(across / fit)
    panels = [ax for ax in _panels(figure) if ax.get_visible()]
    close = rows * (parts * fit - across) > fit or _is_list(figure)
    down = math.ceil(len(panels) / fit) if close else rows * parts
    grid = GridSpec(down, fit, figure=figure)
    for i, ax in enumerate(panels):
        row, column = divmod(ax.get_subplotspec().num1, across)  # type: ignore[union-attr]
        place = divmod(i, fit) if close else (row * parts + column // fit, column % fit)
        ax.set_subplotspec(grid[place])
        # panels that shared a scale left its numbers to a neighbour, which may now stand elsewhere
        if ax.axison and len(ax.get_shared_y_axes().get_siblings(ax)) > 1 and place[1] == 0:
            ax.tick_params(labelleft=True)
        if ax.axison and len(ax.get_shared_x_axes().get_siblings(ax)) > 1:
            ax.tick_params(labelbottom=True)
    return down


def _move_legends(figure: "matplotlib.figure.Figure", column: float, panel: float) -> float:
    """Shorten keys of legends, and move large legends below the picture. Return the height that they need."""
    below: dict[str, Any] = {}
    for ax in figure.axes:
        if (legend := ax.get_legend()) is None:
            continue
        entries = _entries(legend)
        if len(entries) <= ENTRIES and _across(entries) < 0.4 * panel:
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
