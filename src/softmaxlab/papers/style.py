"""How pictures look: colours that all readers can tell apart, sizes of journal columns, files that do not change."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.files import atomic
from softmaxlab.errors import unknown

if TYPE_CHECKING:
    import matplotlib.figure

# Okabe and Ito's palette, ordered by contrast on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

# width in inches of one column, and font size in points
STYLES = {"screen": (None, None), "icml": (3.25, 8), "neurips": (5.5, 9), "aps": (3.375, 8)}
FORMATS = ("png", "svg", "pdf")


def save(figure: "matplotlib.figure.Figure", path: Path, format: str = "png", style: str = "screen") -> Path:
    """Write a picture; an SVG or PDF is the same byte for byte on every run."""
    import matplotlib

    check_look(format, style)
    _fit(figure, *STYLES[style])
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


def _fit(figure: "matplotlib.figure.Figure", width: float | None, points: float | None) -> None:
    """Scale a picture to a column width, and its text to the style's size."""
    if width is None or points is None:
        return
    import matplotlib.text

    old_width, old_height = figure.get_size_inches()
    figure.set_size_inches(width, old_height * width / old_width)
    for text in figure.findobj(matplotlib.text.Text):
        text.set_fontsize(points)
