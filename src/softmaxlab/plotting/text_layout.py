"""The words of a picture, set anew for a narrow one: their size, their lines, and where notes stand.

Layouts leave room for the lines of a title but not for its width, so lines are broken to the room that is measured.
"""

import math
import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

SMALLEST, LARGEST = 7.0, 9.0  # points of text in a journal
LETTER = 0.58  # mean width of a letter, of the size of the text
SHORT = 4  # letters
FEWEST = 6  # letters of a line
GAP = 0.06  # inches between words of neighbours, and to the edge
BEYOND = 1.2  # a panel's height, that its label may take
ROUNDS = 2  # of layout and new lines; each changes the room of the other


def resize(figure: "Figure", shrink: float, width: float) -> None:
    """Text of a journal's size, and ticks as many as have room. Notes inside a panel may stay smaller."""
    import matplotlib.text

    notes = {id(text) for ax in figure.axes for text in ax.texts}
    for text in figure.findobj(matplotlib.text.Text):
        size = text.get_fontsize()
        small = min(size, SMALLEST) if id(text) in notes else size * shrink**0.5
        text.set_fontsize(small if id(text) in notes else min(LARGEST, max(SMALLEST, small)))
    for ax in figure.axes:
        _thin_ticks(ax, 0.6 * width)


def settle(figure: "Figure", inside: "list[Text]") -> None:
    """Lay the picture out, break its lines to the room that they then have, and keep notes inside their panels."""
    whole = {text: text.get_text() for ax in figure.axes for text in (*_headings(ax), ax.yaxis.label)}
    for text in inside:
        text.set_in_layout(False)
    for _ in range(ROUNDS):
        figure.draw_without_rendering()
        for ax in figure.axes:
            across, down = _room(ax, figure.axes)
            for text in _headings(ax):
                _break(text, whole[text], across)
            _break(ax.yaxis.label, whole[ax.yaxis.label], min(down, BEYOND * ax.get_window_extent().height))
    figure.draw_without_rendering()
    for text in inside:
        _pull_inside(text)


def most_lines(figure: "Figure") -> int:
    """Return the largest number of lines of a title."""
    return max((ax.get_title().count("\n") + 1 for ax in figure.axes if ax.get_visible()), default=0)


def notes_inside(figure: "Figure") -> "list[Text]":
    """The notes that stand within their panels."""
    notes = [(text, ax) for ax in figure.axes for text in ax.texts if text.get_text()]
    if notes:
        figure.draw_without_rendering()
    return [text for text, ax in notes if _is_inside(text, ax)]


def longest_word(text: str) -> float:
    """Inches that a text needs at least."""
    return max((len(word) for word in _glued(text).split()), default=0) * LETTER * SMALLEST / 72


def _headings(ax: "Axes") -> "tuple[Text, Text]":
    return ax.title, ax.xaxis.label


def _room(ax: "Axes", others: "list[Axes]") -> tuple[float, float]:
    """Pixels for words centred on a panel: as far as the edge, or to the middle between it and its neighbour."""
    edges, box = ax.figure.bbox.max, ax.get_window_extent()
    # a colour bar no higher than its panel ends below the panel's title
    boxes = [
        around
        for other in others
        if (around := other.get_window_extent()).height > BEYOND * box.height or other.get_label() != "<colorbar>"
    ]
    rooms = []
    for along, beside in ((0, 1), (1, 0)):
        centre = (box.min + box.max)[along] / 2
        row = [b for b in boxes if b.min[beside] < box.max[beside] and b.max[beside] > box.min[beside]]
        steps = [abs((b.min + b.max)[along] / 2 - centre) for b in row]
        room = min([2 * centre, 2 * (edges[along] - centre), *(step for step in steps if step > 1)])
        rooms.append(room - GAP * ax.figure.dpi)
    return rooms[0], rooms[1]


def _length(text: "Text") -> float:
    """Return the pixels of a text's longest line."""
    box = text.get_window_extent()
    return box.height if text.get_rotation() else box.width


def _break(text: "Text", whole: str, room: float) -> None:
    """The longest lines that fit into `room` pixels."""
    text.set_text(whole)
    letters = max(map(len, whole.split("\n")))
    while _length(text) > room and letters >= FEWEST:
        text.set_text(_lines(whole, letters))
        letters -= 1


def _lines(whole: str, letters: int) -> str:
    """Lines of as many letters; formulas are not broken."""
    lines = [
        part for line in _glued(whole).split("\n") for part in textwrap.wrap(line, letters, break_long_words=False)
    ]
    return "\n".join(lines).replace("\0", " ")


def _glued(text: str) -> str:
    """Formulas as one word."""
    whole = re.sub(r"\$[^$]*\$", lambda found: found[0].replace(" ", "\0"), text)
    return re.sub(r" ([=<>≤≥≠]) ", "\0\\1\0", whole)


def _is_inside(text: "Text", ax: "Axes") -> bool:
    box, panel = text.get_window_extent(), ax.get_window_extent()
    return panel.x0 <= box.x0 and box.x1 <= panel.x1 and panel.y0 <= box.y0 and box.y1 <= panel.y1


def _pull_inside(text: "Text") -> None:
    """Break a note to its panel and move it back into it."""
    panel = text.axes.get_window_extent()  # type: ignore[union-attr]
    if not text.get_rotation():
        _break(text, text.get_text(), panel.width)
    box, place = text.get_window_extent(), text.get_transform()
    over = [min(0.0, high - b) or max(0.0, low - a) for low, high, a, b in zip(panel.min, panel.max, box.min, box.max)]
    if any(over):
        x, y = place.transform(text.get_position())
        text.set_position(tuple(place.inverted().transform((x + over[0], y + over[1]))))


def _thin_ticks(ax: "Axes", room: float) -> None:
    """Keep as many of the chosen ticks as have room, unless most of them are names."""
    from matplotlib.ticker import FixedLocator

    for axis, across in ((ax.xaxis, True), (ax.yaxis, False)):
        labels = [text.get_text() for text in axis.get_ticklabels()]
        if not isinstance(axis.get_major_locator(), FixedLocator) or 2 * sum(map(_is_name, labels)) > len(labels):
            continue
        flat = across and not any(text.get_rotation() for text in axis.get_ticklabels())
        each = ((SHORT + 1) * LETTER if flat else 1.0) * SMALLEST / 72
        every = math.ceil(len(labels) * each / room)
        if every > 1:
            axis.set_ticks(list(axis.get_majorticklocs())[::every], labels[::every])


def _is_name(label: str) -> bool:
    """Return whether a text is no number or formula: it has two letters in a row."""
    return re.search(r"[^\W\d_]{2}", re.sub(r"\$[^$]*\$", "", label)) is not None
