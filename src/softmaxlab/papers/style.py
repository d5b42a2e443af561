"""How pictures look: colours that all readers can tell apart, sizes of journal columns, files that do not change."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.files import atomic
from softmaxlab.errors import unknown

if TYPE_CHECKING:
    import matplotlib.figure

# Okabe and Ito's palette, ordered by contrast on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

# inches of one column and of the whole text, and font size in points; None leaves a picture as it was drawn
STYLES = {"screen": None, "icml": (3.25, 6.75, 6), "neurips": (5.5, 5.5, 6), "aps": (3.375, 7.0, 6)}
WIDE = 1.8  # width over height from which a picture takes the whole text
FORMATS = ("png", "svg", "pdf")


def save(figure: "matplotlib.figure.Figure", path: Path, format: str = "png", style: str = "screen") -> Path:
    """Write a picture; an SVG or PDF is the same byte for byte on every run."""
    import matplotlib

    check_look(format, style)
    _fit(figure, STYLES[style])
    path = path.with_name(f"{path.name}.{format}")
    stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
    settings: dict[Any, Any] = {"svg.hashsalt": "softmaxlab", "svg.fonttype": "none", "pdf.fonttype": 42}
    with atomic(path) as draft, matplotlib.rc_context(settings):
        figure.savefig(draft, format=format, dpi=150, metadata=stamp)
    return path


def check_look(format: str, style: str) -> None:
    """Refuse an unknown format or style, before any work."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if style not in STYLES:
        raise unknown("style", style, STYLES)


def _fit(figure: "matplotlib.figure.Figure", style: tuple[float, float, float] | None) -> None:
    """Scale a picture to a journal's column, or to its text width if it is wide; the title belongs in the caption."""
    if style is None:
        return
    import matplotlib.lines
    import matplotlib.text

    column, text, points = style
    width, height = figure.get_size_inches()
    new = text if width / height > WIDE else column
    shrink = min(1.0, new / width)
    # text shrinks less than the picture, so the picture grows in height to hold it
    figure.set_size_inches(new, height * shrink**0.7)
    for label in figure.findobj(matplotlib.text.Text):
        label.set_fontsize(min(points, label.get_fontsize() * shrink**0.5))
    figure.suptitle("")
    for line in figure.findobj(matplotlib.lines.Line2D):
        line.set_linewidth(line.get_linewidth() * shrink**0.5)
        line.set_markersize(line.get_markersize() * shrink**0.5)
