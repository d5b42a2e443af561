"""Pictures at the width of a journal's column: their size, their text, and the same bytes again."""

import re

import matplotlib.text
import pytest
from matplotlib.figure import Figure

from softmaxlab.cli.run import command
from softmaxlab.papers.index import figure
from softmaxlab.plotting.journal import PAGE, STYLES, save
from softmaxlab.plotting.text_layout import LARGEST, SMALLEST

WIDTHS = {"icml": 3.25, "neurips": 5.5, "aps": 3.375}  # inches, from the journals' instructions


def drawn() -> Figure:
    """Four panels in a row that share a scale, with a heading, long titles and a legend of many entries."""
    figure = Figure(figsize=(13, 3.5), layout="constrained")
    for i, ax in enumerate(figure.subplots(1, 4, sharey=True)):
        for token in range(6):
            ax.plot([0, 1], [0, token], label=f"token {token}")
        ax.set_title(f"panel {i}: a title that is longer than its panel is wide $x_0 + y$", fontsize=9)
        ax.set_xlabel("time t", fontsize=5)
    ax.legend(fontsize=6)
    figure.suptitle("A heading", fontsize=14)
    return figure


def titles(figure: Figure) -> list:
    """Where the titles stand."""
    figure.draw_without_rendering()  # at the figure's own resolution, not that of the file
    return [ax.title.get_window_extent() for ax in figure.axes]


@pytest.mark.parametrize("style", WIDTHS)
def test_width_text_and_panels(style, tmp_path):
    figure = drawn()
    save(figure, tmp_path / "picture", "png", style)
    width, height = figure.get_size_inches()
    assert width == WIDTHS[style] == STYLES[style]
    assert height <= PAGE
    sizes = [t.get_fontsize() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]
    assert SMALLEST <= min(sizes) <= max(sizes) <= LARGEST
    assert figure.get_suptitle() == ""
    assert len(figure.legends) == 1


@pytest.mark.parametrize("style", WIDTHS)
def test_titles_stay_within_the_picture_and_off_each_other(style, tmp_path):
    figure = drawn()
    save(figure, tmp_path / "picture", "png", style)
    boxes = titles(figure)
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_legend_without_entries_is_no_trouble(tmp_path):
    figure = Figure(layout="constrained")
    figure.subplots().legend(handles=[])
    assert save(figure, tmp_path / "picture", "png", "icml").exists()


def test_as_drawn_titles_would_overlap(tmp_path):
    figure = drawn()
    figure.set_size_inches(3.25, 1.5)
    save(figure, tmp_path / "picture")
    boxes = titles(figure)
    assert any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("format", ["pdf", "svg", "png"])
def test_the_same_bytes_again(format, tmp_path):
    first, again = (save(drawn(), tmp_path / name, format, "icml").read_bytes() for name in ("first", "again"))
    assert first == again


def test_pdf_has_truetype_and_the_column_as_its_page(tmp_path):
    data = save(drawn(), tmp_path / "picture", "pdf", "icml").read_bytes()
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", data)
    assert float(box[1]) == pytest.approx(WIDTHS["icml"] * 72)
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


def test_presets_and_styles_do_not_replace_each_other(tmp_path):
    small = ["tokens=3", 'maps=["softmax"]']
    for look in ({}, {"style": "icml"}, {"preset": "paper"}, {"preset": "paper", "style": "aps"}):
        command("attention/maps", settings=small, out=str(tmp_path), **look)
    names = {re.sub(r"maps-[0-9a-f]{8}-?", "", path.stem) for path in tmp_path.glob("*/*.png")}
    assert names == {"", "icml", "paper", "paper-aps"}


def test_a_spec_from_a_file_does_not_replace_the_figure(tmp_path):
    spec = figure("attention/maps").preset("quick").replace(tokens=3, maps=("softmax",))
    (tmp_path / "spec.json").write_text(spec.json_text())
    command(str(tmp_path / "spec.json"), out=str(tmp_path / "runs"))
    assert [path.name for path in tmp_path.glob("runs/attention/*")] == [f"maps-{spec.key[:8]}.png"]


def leaves(figure: Figure) -> bool:
    """Whether anything drawn crosses the edge, by more than a rounded pixel."""
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) < -1.0 / figure.dpi


def shared_bars() -> Figure:
    """Rows of maps, each with a colour bar for all of them."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    for row in figure.subplots(3, 5):
        for ax in row:
            ax.imshow([[0, 1], [1, 0]], aspect="auto")
            ax.label_outer()
        figure.colorbar(row[0].images[0], ax=row, label="weight")
    return figure


def noted() -> Figure:
    """Three panels, one with a note that is wider than it in a column, and wide titles at the edge."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    for ax in figure.subplots(1, 3):
        ax.set_title("isotropic Gaussian of any size, F = 2, H = 4")
        ax.annotate("softmax 0.297,\nsoftmax-1 0.237: not close", (0.1, 0.1), (0.45, 0.7), textcoords="axes fraction")
    return figure


@pytest.mark.parametrize("style", WIDTHS)
@pytest.mark.parametrize("picture", [drawn, noted, shared_bars])
def test_nothing_leaves_the_picture(picture, style, tmp_path):
    figure = picture()
    save(figure, tmp_path / "picture", "png", style)
    assert not leaves(figure)


def test_narrow_without_a_style_words_do_leave(tmp_path):
    figure = noted()
    figure.set_size_inches(8, 4)  # narrower, and the layout gives up
    save(figure, tmp_path / "picture")
    figure.draw_without_rendering()
    assert leaves(figure)


@pytest.mark.parametrize("style", WIDTHS)
def test_notes_stay_in_their_panels_and_equations_whole(style, tmp_path):
    figure = noted()
    save(figure, tmp_path / "picture", "png", style)
    for ax in figure.axes:
        panel, note = ax.get_window_extent(), ax.texts[0].get_window_extent()
        assert panel.x0 - 1 <= note.x0 <= note.x1 <= panel.x1 + 1
        assert "F = 2," in ax.get_title()


@pytest.mark.parametrize("style", WIDTHS)
def test_shared_colour_bars_stand_beside_their_rows(style, tmp_path):
    figure = shared_bars()
    save(figure, tmp_path / "picture", "png", style)
    boxes = [ax.get_window_extent() for ax in figure.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_names_are_all_there_and_numbers_thinned(tmp_path):
    figure = Figure(figsize=(8, 4), layout="constrained")
    names, numbers = figure.subplots(1, 2)
    names.set_xticks(range(11), [f"map_{i}" for i in range(11)], rotation=60)
    numbers.set_xticks(range(40), range(40))
    save(figure, tmp_path / "picture", "png", "icml")
    assert len(names.get_xticks()) == 11
    assert 1 < len(numbers.get_xticks()) < 20


def test_a_list_of_panels_has_no_gaps(tmp_path):
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots(2, 7).ravel()
    axes[-1].set_visible(False)
    save(figure, tmp_path / "picture", "png", "neurips")
    places = [ax.get_subplotspec().num1 for ax in axes[:-1]]
    assert places == list(range(13))
