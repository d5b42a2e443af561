"""Every registered figure: facts complete, presets valid, computed, drawn, and the same on a second run."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.papers.citation import bibliography, citation, sources
from softmaxlab.papers.index import CLAIMS, FIGURES
from softmaxlab.plotting.journal import save


@pytest.mark.parametrize("id", FIGURES)
def test_facts_and_presets(id):
    figure = FIGURES[id]
    assert set(figure.presets) == set(figure.cost)
    assert set(figure.presets) == {"quick", "paper"} | ({"committed", "later"} if id.startswith("studies/") else set())
    assert figure.title
    assert figure.reports
    assert figure.__doc__
    for preset in figure.presets:
        spec = figure.preset(preset)
        assert sl.from_json(spec.json_text()) == spec


@pytest.mark.parametrize("id", [id for id in FIGURES if id.startswith("attention/")])
def test_the_quick_preset_is_computed_and_drawn(id, tmp_path):
    result, picture = sl.run(id)
    assert result.status.ok
    first = save(picture, tmp_path / "first", "svg").read_bytes()
    again = save(sl.run(id)[1], tmp_path / "again", "svg").read_bytes()
    assert first == again
    assert len(picture.axes) >= 1


def test_the_maps_figure_shows_every_score_map():
    result, picture = sl.run("attention/maps", tokens=4, maps=("softmax", "linear"))
    titles = [ax.get_title().split("\n")[0] for ax in picture.axes if ax.get_visible()]
    assert titles == ["scores", "softmax", "linear"]
    np.testing.assert_allclose(result["weights"][0].sum(-1), 1.0)
    assert (np.triu(result["weights"][0, 0], 1) == 0).all()


@pytest.mark.parametrize(("format", "style"), [("png", "screen"), ("pdf", "icml"), ("svg", "aps")])
def test_pictures_in_every_format_and_style(tmp_path, format, style):
    picture = sl.run("attention/maps", tokens=3, maps=("softmax", "linear", "sigmoid"))[1]
    path = save(picture, tmp_path / "maps", format, style)
    assert path.stat().st_size > 1000
    if style == "aps":
        assert picture.get_size_inches()[0] == 3.375  # one column


def test_unknown_preset_figure_and_plot():
    with pytest.raises(SpecError, match="unknown preset 'quik', did you mean 'quick'"):
        sl.run("attention/maps", preset="quik")
    with pytest.raises(SpecError, match="no picture is known for results of no spec"):
        sl.plot(sl.Result({}, {}))


def test_every_source_is_in_the_bibliography():
    known = bibliography()
    assert set(sources().values()) <= known.keys()
    for id in [*FIGURES, *CLAIMS]:
        assert citation(id).startswith("@")


@pytest.mark.parametrize(
    ("asked", "meant"), [("polarization/fig4", "polarization/fig04"), ("fig04", "polarization/fig04")]
)
def test_a_figure_without_its_zero_or_its_paper_is_understood(asked, meant):
    with pytest.raises(SpecError, match=meant):
        sl.run(asked)
