"""Pictures as plain functions of a state."""

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from softmaxlab.app import attention, polarization, probe, results, specialization, theme
from softmaxlab.app import polarization_page as page
from softmaxlab.app.states import Attention, Polarization, Probe, Specialization
from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SpecError
from softmaxlab.polarization import Flow
from tests.app.saved import save

EXACT = 1e-12  # sums of a few numbers in float64
PORTRAIT = 1e-3  # of the rough flows behind the simplex: a thousandth of its side is a third of a pixel
QUICK = {"horizon": 2.0}


def lines(figure) -> dict[str, np.ndarray]:
    return {trace.name: np.array(trace.y, dtype=float) for trace in figure.data}


def test_the_curves_are_those_of_the_result():
    state = Polarization(**QUICK)
    drawn = polarization.panels(state)
    result = polarization.solve(state)
    assert np.abs(lines(drawn["weights"])["token 1"] - result["weights"][1:, 1]).max() < EXACT
    assert np.abs(lines(drawn["fall"])["loss"] - result["loss"][1:]).max() < EXACT
    assert result["t"][-1] == 10**2


def test_the_bound_is_above_the_ratio_and_shown_only_where_it_is_proved():
    shown = lines(polarization.panels(Polarization())["bound"])
    assert (shown["runner-up over winner"] <= shown["1/(1 + δΓ/p)"] + EXACT).all()
    for change in ({"a": (0.5, 0.0, 0.0)}, {"optimizer": "gd", **QUICK}, {"u": (1.0, 1.0, 0.0)}, {"map": "sparsemax"}):
        assert polarization.panels(Polarization().replace(**change))["bound"] is None


@pytest.mark.parametrize("loss", ["cross_entropy", "kl"])
def test_losses_without_a_direction_show_scores_and_no_strength(loss):
    state = Polarization(loss=loss, u=(0.6, 0.4, 0.2), **QUICK)
    drawn = polarization.panels(state)
    assert drawn["strength"] is None
    assert polarization.title("values", state).startswith("Scores a")


def test_no_curve_has_more_points_than_agreed():
    x = np.arange(10_001.0)
    thin, same = theme.thinned(x, x)
    assert len(thin) == theme.MOST_POINTS
    assert (thin[0], thin[-1]) == (0.0, 10_000.0)
    assert (thin == same).all()


def test_a_run_that_stops_is_told():
    state = Polarization(loss="square", u=(3.0, 3.0, 3.0), a=(0.0, 0.0, 0.0), optimizer="momentum", lr=1.0, horizon=4.0)
    told = polarization.sentence(state.replace(map="linear", a=(4.0, 4.0, 4.0)))
    assert told.startswith("The run stopped.")


def test_the_portrait_is_the_flow_from_other_starts():
    state = Polarization(**QUICK)
    others = polarization.portrait(state)
    assert len(others) >= 10
    for other in others[:2]:
        fine = Flow(**{"loss": "logistic", "beta": [1.0], "V": [state.u], "a": other["a"][0], "t_end": 100.0})
        assert np.abs(simulate(fine)["weights"][-1] - other["weights"][-1]).max() < PORTRAIT


def test_controls_follow_a_choice_that_would_refuse_them():
    values = {"loss": "logistic", "map": "relu_norm", "optimizer": "gd", "p": 3, "horizon": 30.0, "lr": 0.1}
    allowed, horizon, starts = page.adapted(values, (0.5,) * 8 + (0.0,) * 8)
    assert (allowed, horizon) == (5.5, 5.5)
    assert starts == (0.5,) * 8 + (1.0,) * 8
    _, _, starts = page.adapted(values | {"loss": "kl"}, (-1.0,) * 8 + (1.0,) * 8)
    assert min(starts[:8]) > 0


def test_every_map_has_its_panel():
    state = Attention(scores=(1.0, -2.0))
    drawn = attention.pattern(state)
    result = attention.solve(state)
    assert [bar.name for bar in drawn.data] == result["map"].tolist()
    sums = {bar.name: sum(bar.y) for bar in drawn.data}
    assert sums["softmax"] == pytest.approx(1.0, abs=EXACT)
    assert sums["sigmoid"] < 0.9


def test_eight_heads_are_told_apart_by_a_legend():
    drawn = specialization.plane(Specialization(heads=8, tau=1.0), "coarse")
    named = [trace for trace in drawn.data if trace.showlegend is not False]
    assert drawn.layout.showlegend
    assert [trace.name for trace in named] == ["signal θ", *(f"head {h}" for h in range(1, 9))]
    looks = {(trace.marker.symbol, trace.marker.color) for trace in named}
    assert len(looks) == 9


def test_the_player_shows_the_time_that_is_asked_for():
    state = Specialization(tau=3.0, at=0)
    first = specialization.plane(state, "coarse")
    result = specialization.solve(state, "coarse")
    dots = [trace for trace in first.data if trace.meta]
    assert [dot.x[0] for dot in dots] == result["m"][0, :, 0].tolist()
    last = specialization.loss(state.replace(at=100), "coarse")
    (now,) = [trace for trace in last.data if trace.meta]
    assert now.x[0] == 3.0


def test_a_flow_that_its_tab_has_left_is_not_remembered():
    state = Specialization(tau=3.0, seed=77)
    with specialization.stoppable("tab"):
        specialization.leave("tab")
        with pytest.raises(specialization.Superseded):
            specialization.solve(state, "coarse")
    assert specialization.solve(state, "coarse").status.ok


def test_a_tab_may_move_on_before_its_flow_starts(monkeypatch):
    """Requests run at the same time: the next one takes the entry away as soon as it is made."""

    class Hasty(OrderedDict):
        def __setitem__(self, tab, stop):
            super().__setitem__(tab, stop)
            specialization.leave(tab)

    monkeypatch.setattr(specialization, "_stops", Hasty())
    with specialization.stoppable("tab"), pytest.raises(specialization.Superseded):
        specialization.solve(Specialization(tau=3.0, seed=78), "coarse")
    specialization.leave("tab")


def test_the_pattern_is_shown_where_it_was_saved_and_the_profile_elsewhere(tmp_path):
    save(tmp_path / "one", patterns=True)
    saved = results.load(tmp_path, "one")
    seen = Probe(layer=1, head=2, tokens=64)
    pattern = probe.one_head(seen, saved).data[0]
    assert pattern.type == "heatmap"
    assert np.array(pattern.customdata).shape == (64, 64)
    other = probe.one_head(Probe(layer=0, head=0, tokens=4), saved).data[0]
    assert other.type == "bar"
    assert list(other.y) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert "was not saved" in probe.head_title(Probe(), saved)


def test_tokens_are_no_markup(tmp_path):
    save(tmp_path / "one", patterns=True)
    saved = replace(results.load(tmp_path, "one"), tokens=["<s>", "a&b", "</s> <b>long</b>", *"xyz"])
    labels = probe.one_head(Probe(layer=1, head=2, tokens=6), saved).data[0].x
    assert list(labels[:4]) == ["0: &lt;s&gt;", "1: a&amp;b", "2: &lt;/s&gt;␣&lt;b&gt;long…", "3: x"]


def test_heads_of_each_subject(tmp_path):
    save(tmp_path / "two", subjects=("one", "two"))
    saved = results.load(tmp_path, "")
    sinks = [probe.heads(Probe(subject=i), saved).data[0].z[1][2] for i in (0, 1)]
    assert sinks == pytest.approx([0.5, 0.9])
    assert probe.heads(Probe(), saved).data[0].z[0][2] is None, "layer 0 has two heads"


@pytest.mark.parametrize(
    ("state", "message"),
    [(Probe(subject=3), "subject must be less than 1"), (Probe(layer=5), "no head 5.0")],
)
def test_what_a_result_does_not_have_is_refused(tmp_path, state, message):
    save(tmp_path / "one")
    saved = results.load(tmp_path, "one")
    probe.check(Probe(), saved)
    with pytest.raises(SpecError, match=message):
        probe.check(state, saved)
