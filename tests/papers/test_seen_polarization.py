"""What figures say of their own arrays: numbers counted here again, and sentences that change with the arrays."""

import numpy as np
import pytest

from softmaxlab.core.result import Result, Status
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.attention.figures.maps import Maps
from softmaxlab.papers.polarization.figures import (
    fig01,
    fig02,
    fig04,
    fig05,
    fig06,
    fig07,
    fig08,
    fig09,
    fig14,
    fig15,
    fig16,
    fig17,
    fig18,
    fig19,
    fig20,
    fig21,
    phase,
    sink_time,
    softmax1,
)
from softmaxlab.training.presets import MAPS

NAN = float("nan")


def changed(result, **arrays):
    """The same result with other arrays."""
    return Result({**result.arrays, **arrays}, result.axes, result.status, result.notes)


def patterns():
    """Three maps with 2, 0 and 1 sinks among their heads."""
    score = [[0.95, 0.99], [0.2, 0.9], [0.1, 0.93]]  # 0.9 itself is no sink
    arrays = {"map": ["softmax", "sigmoid", "linear"], "sink_score": score, "induction_accuracy": [1.0, 0.98, 0.97]}
    return Result(arrays, {"map": ("map",), "sink_score": ("map", "head"), "induction_accuracy": ("map",)})


def shares():
    """CLS of two samples with three keys, at three steps, under two maps; the last step of sigmoid is not known."""
    softmax = [[[1, 1, 2], [1, 1, 2]], [[1, 1, 8], [1, 1, 8]], [[0.01, 0.01, 0.98], [0.3, 0.7, 0.0]]]
    sigmoid = [[[1, 1, 2], [1, 1, 2]], [[1, 2, 2], [1, 4, 5]], [[NAN] * 3, [NAN] * 3]]
    arrays = {"map": ["softmax", "sigmoid"], "weights": np.array([softmax, sigmoid], float)}
    return Result(arrays, {"map": ("map",), "weights": ("map", "step", "sample", "key")})


def swap():
    weights = np.array([[[0.75, 0.25], [0.375, 0.625]], [[0.5, 0.5], [0.5, 0.5]]])
    arrays = {"prediction": [[0, 2], [2, 0]], "weights": weights, "swapped": [0, 1]}
    axes = {"prediction": ("swap", "sample"), "weights": ("swap", "sample", "key"), "swapped": ("sample",)}
    return Result(arrays, axes)


def tracked():
    """Under softmax BOS leads in both heads from step 10 and both are sinks at 40; under sigmoid neither comes."""
    leads = [[[1, -1], [1, 1], [1, 1], [-1, 1]], [[1, -1], [1, 1], [1, 1], [-1, 1]]]
    scores = [[[0.1, 0.1], [0.5, 0.5], [0.95, 0.95], [0.95, 0.95]], [[0.1, 0.1]] * 4]
    arrays = {"map": ["softmax", "sigmoid"], "step": [0, 10, 40, 90], "lead": np.array(leads, float)}
    axes = {"map": ("map",), "step": ("step",), "lead": ("map", "step", "head"), "sink_score": ("map", "step", "head")}
    return Result(arrays | {"sink_score": np.array(scores)}, axes)


def induction(quantity, values, positions=("additive",), runs=2):
    """Panels, one for each kind of positions, with {map: value} at 4 heads; `runs` runs behind each value."""
    shape = len(positions), len(MAPS), 4
    mean, counts = np.full(shape, NAN), np.zeros(shape, int)
    for panel, given in enumerate(values):
        for name, value in given.items():
            mean[panel, MAPS.index(name), 2], counts[panel, MAPS.index(name), 2] = value, runs
    arrays = {name: counts for name in ("runs", "passed", "scored")} | {quantity: mean}
    axes = {name: ("panel", "map", "heads") for name in arrays} | {name: (name,) for name in ("map", "heads", "panel")}
    panels = [f"{name} positions, t′ = t" for name in positions]
    arrays |= {"map": list(MAPS), "heads": [1, 2, 4, 8], "panel": panels}
    return Result(arrays, axes, notes={"across": 1, "unlike": "no run"})


def flips(panels, mean):
    """Flip rates [panel, map] of softmax and two other maps."""
    arrays = {"panel": panels, "map": ["softmax", "sigmoid", "elu"], "mean": np.array(mean)}
    arrays["runs"] = np.isfinite(arrays["mean"]).astype(int)
    axes = {"panel": ("panel",), "map": ("map",), "mean": ("panel", "map"), "runs": ("panel", "map")}
    return Result(arrays, axes)


SINKS = {"softmax": 0.9, "elu_norm": 0.5, "sigmoid": 0.6, "linear": 0.1}
FOUR = ["MLP, LayerNorm", "MLP, no LayerNorm", "no MLP, LayerNorm", "no MLP, no LayerNorm"]
SIX = [f"H = {heads}, L = {layers}" for heads in (1, 2, 4) for layers in (1, 2)]
FALLING = [[0.9, 0, 0.3], [0.8, 0, 0.4], [0.7, 0, 0.3], [0.6, 0, 0.4], [0.5, 0, 0.3], [0.4, 0, 0.4]]
BY_HAND = {
    fig01.Fig01: patterns,
    fig05.Fig05: shares,
    fig09.Fig09: swap,
    sink_time.SinkTime: tracked,
    fig04.Fig04: lambda: induction("share", [SINKS]),
    fig14.Fig14: lambda: induction("share", [SINKS]),
    fig15.Fig15: lambda: positions((1.0, 0.5), (0.25, 0.5)),
    fig16.Fig16: lambda: induction("accuracy", [SINKS]),
    fig17.Fig17: lambda: induction("accuracy", [SINKS]),
    fig18.Fig18: lambda: flips(FOUR, [[0.9, 0.1, 0.2]] * 4),
    fig21.Fig21: lambda: flips(SIX, FALLING),
}
SMALL = {
    Maps: {"tokens": 5, "maps": ("softmax", "sigmoid", "sparsemax", "relu", "sum")},
    fig02.Fig02: {"p": 3, "t_end": 1e4, "points": 20, "steps": 1000},
    fig07.Fig07: {},
    fig08.Fig08: {},
    phase.Phase: {"starts": 2, "grid": 2, "t_end": 1e4},
    softmax1.Softmax1: {"p": 3, "depths": (2.0, 4.5), "t_end": 1e6, "strength_end": 1e3, "points": 60},
}


@pytest.fixture(scope="module")
def made():
    return {figure: simulate(figure(**fields)) for figure, fields in SMALL.items()} | {
        figure: make() for figure, make in BY_HAND.items()
    }


@pytest.mark.parametrize("figure", [*SMALL, *BY_HAND], ids=lambda figure: figure.id)
def test_a_result_without_numbers_is_told_in_a_sentence_too(made, figure):
    result = made[figure]
    lost = {name: np.full_like(x, NAN) for name, x in result.arrays.items() if x.dtype.kind == "f"}
    none = {name: np.zeros_like(x) for name, x in result.arrays.items() if name in ("runs", "passed", "scored")}
    whole, broken = figure.seen(result), figure.seen(changed(result, **lost, **none))
    assert whole.endswith(".")
    assert broken.endswith(".")
    assert figure is fig08.Fig08 or whole != broken  # which has no numbers but tokens


def test_maps_rows_and_shares(made):
    result = made[Maps]
    names = result["map"].tolist()
    softmax = result["weights"][names.index("softmax"), 0]
    share = np.mean([max(row) / sum(row) for row in softmax[1:]])
    told = Maps.seen(result)
    assert told.startswith("Rows sum to one under 3 of 3 maps that normalise them and 0 of 2 others")
    assert f"{share:.2f} under softmax" in told
    assert "sigmoid concentrates least" in told
    assert f"({np.mean([1 / 2, 1 / 3, 1 / 4, 1 / 5]):.2f} if equal)" in told
    half = np.where(result["map"] == "softmax", 0.5, 1.0)[:, None, None, None]
    halved = changed(result, weights=half * result["weights"])
    assert "2 of 3 maps that normalise" in Maps.seen(halved)
    assert Maps.seen(simulate(Maps(tokens=1, maps=("softmax",)))).endswith("nothing to concentrate on.")


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_maps_of_any_scale(scale):
    assert "of 9 maps that normalise" in Maps.seen(simulate(Maps(scale=scale, tokens=3)))


def test_fig01_counts_sinks_and_names_what_differs(made):
    told = fig01.Fig01.seen(made[fig01.Fig01])
    assert "2 of 2 under softmax, 0 of 2 under sigmoid, 1 of 2 under linear, not as reported under linear;" in told
    assert "0.970" in told
    as_reported = changed(made[fig01.Fig01], sink_score=[[0.95, 0.2], [0.2, 0.2], [0.1, 0.2]])
    assert "not as reported" not in fig01.Fig01.seen(as_reported)
    early = Result({"map": ["softmax"]}, {"map": ("map",)}, Status(sentence="stopped"))
    assert "no sink scores" in fig01.Fig01.seen(early)


def test_fig01_tells_stored_runs_of_ten_epochs_where_fewer_are_drawn(made):
    few = Result(
        {**made[fig01.Fig01].arrays, "sink_score": np.full((3, 4), 0.1)},
        made[fig01.Fig01].axes,
        notes={"epochs": 1, "lr": 1e-3, "vocab": 51, "seed": 0},
    )
    told = fig01.Fig01.seen(few)
    assert "after 10 epochs (stored runs; drawn: 1)" in told
    assert "4 of 4 under softmax, 1 of 4 under sigmoid, 0 of 4 under linear" in told
    unstored = Result(few.arrays, few.axes, notes={**few.notes, "seed": 9})
    assert "0 of 4 under softmax" in fig01.Fig01.seen(unstored)


def test_fig02_order_and_winner(made):
    result = made[fig02.Fig02]
    told = fig02.Fig02.seen(result)
    times = len(result["t"]) + len(result["descent_t"])
    assert f"token 0 has weight {result['weights'][-1, 0]:.4f}" in told
    assert f"kept at {times} of {times} times" in told
    u = result["u"].copy()
    u[-3:] = u[-3:, ::-1]  # the order overturned at three times
    assert f"kept at {times - 3} of {times} times" in fig02.Fig02.seen(changed(result, u=u))
    assert "not one-hot" in fig02.Fig02.seen(changed(result, weights=np.full_like(result["weights"], 1 / 3)))


def test_fig05_largest_shares(made):
    told = fig05.Fig05.seen(made[fig05.Fig05])
    assert "0.980 and 0.700 under softmax, 0.400 and 0.500 under sigmoid" in told  # of sigmoid's last known step
    assert "in 1 of 2 samples" in told
    assert "in 0 of 2 samples" in fig05.Fig05.seen(changed(made[fig05.Fig05], weights=np.ones((2, 3, 2, 3))))


def test_fig07_compares_softmax_with_sigmoid(made):
    result = made[fig07.Fig07]
    model, panel = result["model"].tolist(), result["panel"].tolist()
    mean = {(p, m): np.nanmean(x) for p, m, x in zip(panel, model, result["sparsity"])}
    told = fig07.Fig07.seen(result)
    assert "in 1 of 1 pairs" in told  # the other is an intervention
    assert f"{mean['small', 'softmax']:.2f} against {mean['small', 'sigmoid']:.2f}" in told
    assert f"{mean['smollm2', 'sigmoid:calibrated']:.2f}" not in told
    swapped = changed(result, sparsity=np.where(result["model"] == "softmax", 0.0, 1.0)[:, None] * result["sparsity"])
    assert "in 0 of 1 pairs" in fig07.Fig07.seen(swapped)
    assert "no panel has both" in fig07.Fig07.seen(changed(result, model=["elu", "sigmoid:0", "mlp"] * 2))


def test_fig08_answer(made):
    result = made[fig08.Fig08]
    tokens, vocab = result["tokens"].tolist(), result.notes["vocab"]
    first = tokens.index(tokens[-2] - (vocab - 1))
    told = fig08.Fig08.seen(result)
    assert "10 tokens of which 10 are distinct" in told
    assert f"{tokens[first]}′, and then {tokens[first + 1]}, which is what followed {tokens[first]}" in told
    assert "not what followed" in fig08.Fig08.seen(changed(result, tokens=[*tokens[:-1], tokens[first]]))


def test_fig09_labels(made):
    result = made[fig09.Fig09]
    assert "weight 0.750 and 0.625" in fig09.Fig09.seen(result)
    assert fig09.Fig09.seen(result).endswith("from 0 and 2 to 2 and 0: they are swapped.")
    assert fig09.Fig09.seen(changed(result, prediction=[[0, 2], [2, 2]])).endswith("they are not swapped.")
    assert fig09.Fig09.seen(changed(result, prediction=[[1, 1], [1, 1]])).endswith("they are not swapped.")


def test_fig04_pairs_of_maps(made):
    told = fig04.Fig04.seen(made[fig04.Fig04])
    assert "0.50 to 0.90 under normalised positive maps and 0.10 to 0.60 under" in told
    assert "more in 3 of 4 pairs" in told  # elu_norm is below sigmoid
    assert "more in 0 of 1 pairs" in fig04.Fig04.seen(induction("share", [{"softmax": 0.0, "sigmoid": 1.0}]))
    assert "there are no runs" in fig04.Fig04.seen(induction("share", [{}]))
    assert "not both kinds" in fig04.Fig04.seen(induction("share", [{"softmax": 0.5}]))


def test_fig14_most_heads():
    few, many = (induction("share", [{"softmax": share, "elu": 0.0}]) for share in (0.5, 1.0))
    assert "On average 0.25 of the heads are sinks in the 4 runs" in fig14.Fig14.seen(few)
    assert "most are not;" in fig14.Fig14.seen(few)
    assert "On average 0.50" in fig14.Fig14.seen(many)
    assert "most are;" in fig14.Fig14.seen(induction("share", [{"softmax": 0.75}]))
    assert "there are no runs" in fig14.Fig14.seen(induction("share", [{}]))


def positions(*pairs):
    """A result with pairs of shares of sinks, without positions and with."""
    result = induction("share", [SINKS, SINKS], ("additive", "no"))
    arrays = {**result.arrays, "pair": np.reshape(np.array(pairs, float), (-1, 2))}
    return Result(arrays, {**result.axes, "pair": ("pairs", "side")}, notes=result.notes)


def test_fig15_pairs_of_positions():
    told = fig15.Fig15.seen(positions((1.0, 0.5), (0.25, 0.5), (0.5, 0.5)))
    assert "Of 3 pairs" in told
    assert "more sink heads in 1 and fewer in 1" in told
    assert f"{1.75 / 3:.2f} against 0.50 of the heads: more sinks" in told
    assert ": not more sinks" in fig15.Fig15.seen(positions((0.0, 0.5)))
    assert "no two runs differ" in fig15.Fig15.seen(positions())


@pytest.mark.parametrize("figure", [fig16.Fig16, fig17.Fig17])
def test_fig16_settings_that_learn(figure):
    result = induction("accuracy", [{"softmax": 1.0, "elu": 0.96, "linear": 0.4}], runs=1)
    told = figure.seen(changed(result, passed=result["accuracy"] > 0.95))
    assert told.startswith("2 of 3 runs solve the task, and the mean accuracy is above 0.95 in 2 of 3 settings")
    assert "least (0.400) for linear, 4 heads, additive positions, t′ = t;" in told
    assert f"{4 * len(MAPS) - 3} settings were not run" in told
    assert "least (0.960) for elu" in figure.seen(induction("accuracy", [{"softmax": 1.0, "elu": 0.96}]))
    assert "there are no runs" in figure.seen(induction("accuracy", [{}]))


@pytest.mark.parametrize("figure", [fig06.Fig06, fig18.Fig18, fig19.Fig19, fig20.Fig20])
def test_fig18_softmax_among_maps(figure):
    mean = [[0.9, 0.1, NAN], [NAN] * 3, [0.25, 0.5, 0.1], [NAN, 0.3, 0.2]]
    told = figure.seen(flips(FOUR, mean))
    assert "is 0.90 (MLP, LayerNorm), 0.25 (no MLP, LayerNorm), the largest of all maps in 1 of 2 panels" in told
    assert told.endswith("2 of 4 panels have none.")
    assert "in 2 of 2 panels" in figure.seen(flips(FOUR, [[0.9, 0.1, NAN], [NAN] * 3, [0.6, 0.5, 0.1], [NAN] * 3]))
    assert "none of 0 runs" in figure.seen(flips(FOUR, [[NAN] * 3] * 4))


def test_fig21_steps_to_more_heads_and_layers(made):
    told = fig21.Fig21.seen(made[fig21.Fig21])
    assert "falls in 7 of 7 steps to more heads or layers, between 0.90 and 0.40;" in told
    assert told.endswith("falls in 0 and grows in 3 of 14.")  # elu grows with the second layer, three times
    reverse = changed(made[fig21.Fig21], mean=made[fig21.Fig21]["mean"][::-1])
    assert "falls in 0 of 7 steps" in fig21.Fig21.seen(reverse)
    assert "too few panels" in fig21.Fig21.seen(flips(SIX, [[0.5] * 3, *[[NAN] * 3] * 5]))


def test_sink_time_steps(made):
    result = made[sink_time.SinkTime]
    told = sink_time.SinkTime.seen(result)
    assert "softmax 10 / 40, sigmoid never / never;" in told  # sigmoid's lead is lost at the end
    assert "first in 1 of 1 maps" in told
    late = sink_time.SinkTime.seen(changed(result, lead=-result["lead"]))
    assert "softmax never / 40" in late
    assert "first in 0 of 1 maps" in late
    assert sink_time.SinkTime.seen(changed(result, sink_score=0 * result["sink_score"])).endswith("no map has sinks.")


def test_softmax1_winner_limit_and_openings(made):
    result = made[softmax1.Softmax1]
    told = softmax1.Softmax1.seen(result)
    assert "the same winner" in told
    assert f"{1 - result['weights'][1, -1].max():.1e} (softmax1)" in told
    assert f"come to {result['nowhere_limit'][-1]:.2f}" in told
    assert result["total"][0].min() > 0.5 > result["total"][1].min()  # of the two heads one shuts
    opened = result["shut_t"][np.flatnonzero(result["total"][1] < 0.5)[-1] + 1]
    assert f"1 of 1 shut heads open again within a factor {opened / result['opening'][1]:.2f}" in told
    for_ever = np.where(result["shut_t"] > opened / 2, 0.1, result["total"])
    assert "0 of 2 shut heads open again" in softmax1.Softmax1.seen(changed(result, total=for_ever))
    other = result["weights"].copy()
    other[1] = other[1, :, ::-1]
    assert "no head shuts" in softmax1.Softmax1.seen(changed(result, total=np.ones_like(result["total"])))
    assert "different winners" in softmax1.Softmax1.seen(changed(result, weights=other))


def test_phase_invariant_and_lost_orders(made):
    result = made[phase.Phase]
    separatrix = 2 * np.sinh(1.5)  # |w| from which on the larger u(0) wins from |x| = 3
    two = sum(abs(w) < separatrix for w in result["w"][:, 0])
    three = sum(s[-1].argmax() != 0 for s in result["weights"][1])
    told = phase.Phase.seen(result)
    assert f"kept to {result['drift'].max():.0e} in 4 of 4 runs" in told
    assert f"from {two} of 4 starts with two tokens and {three} of 3 with three" in told
    assert 0 < two < 4
    obeyed = changed(result, x=np.abs(result["x"]) * np.sign(result["w"][:, :1]))
    assert "from 0 of 4 starts" in phase.Phase.seen(obeyed)
    assert "0 of 0 with three" in phase.Phase.seen(simulate(phase.Phase(starts=1, grid=1, lead=0.0, t_end=10.0)))
