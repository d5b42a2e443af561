"""What pages of the specialization paper's figures say they see: numbers of the arrays, and other ones if these break.

Results are made by hand, so that every number can be told without a run; one tiny run of each figure must be told too.
"""

from collections.abc import Mapping

import numpy as np
import pytest

from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.specialization.figures.fig02 import Fig02
from softmaxlab.papers.specialization.figures.fig06 import Fig06
from softmaxlab.papers.specialization.figures.fig08 import Fig08
from softmaxlab.papers.specialization.figures.fig09 import Fig09
from softmaxlab.papers.specialization.figures.fig10 import Fig10
from softmaxlab.papers.specialization.figures.fig11 import Fig11
from softmaxlab.papers.specialization.figures.fig12 import Fig12
from softmaxlab.papers.specialization.figures.fig13 import Fig13
from softmaxlab.papers.specialization.figures.fig14 import Fig14
from softmaxlab.papers.specialization.figures.fig15 import Fig15
from softmaxlab.papers.specialization.figures.fig16 import Fig16
from softmaxlab.papers.specialization.figures.fig17 import Fig17
from softmaxlab.papers.specialization.figures.fig18 import Fig18
from softmaxlab.papers.specialization.figures.fig19 import Fig19
from softmaxlab.papers.specialization.figures.fig20 import Fig20
from softmaxlab.papers.specialization.head_paths import NOTHING
from softmaxlab.papers.specialization.head_planes import ALONE, HeadPlanes

TAU = np.arange(11.0)
WORDS = 45  # a sentence, not a table; signs and numbers between blanks are counted as words
PLANE = {"samples": 64, "tau_end": 5.0, "points": 10}
AGAINST = {"dim": 50, "batch": 50, "lr": 0.1, "tau_end": 2.0, "points": 10, "samples": 64}
RUNS = {"samples": 2**8, "tau_end": 5.0, "points": 10, "runs": 2, "heads": 4, "rest": False}
TINY: dict[type[FigureSpec], FigureSpec] = {
    Fig02: Fig02(heads=(1, 2, 3), **PLANE),
    Fig06: Fig06(tau_end=2.0, samples=2**8, count=2),
    Fig08: Fig08(samples=100, step=0.1, tau_end=1.0, points=5),
    Fig09: Fig09(**AGAINST),
    Fig10: Fig10(**AGAINST),
    Fig11: Fig11(nu1=(1.0, 8.0), nu2=(2.0,), tau_end=2.0, samples=64),
    **{figure: figure(nu1=(8.0, 1.0), nu2=(1.0,), **PLANE) for figure in (Fig12, Fig13, Fig14)},
    Fig15: Fig15(heads=(2, 3), **PLANE),
    **{figure: figure(heads=(1, 2), **PLANE) for figure in (Fig16, Fig17, Fig18)},
    **{figure: figure(**RUNS) for figure in (Fig19, Fig20)},
}


def nothing(figure: type[FigureSpec]) -> str:
    return ALONE if issubclass(figure, HeadPlanes) else NOTHING


def ramp(start: float, end: float) -> np.ndarray:
    """0 until τ = start, 1 from τ = end on."""
    return np.clip((TAU - start) / (end - start), 0.0, 1.0)


def planes(*panels: tuple[np.ndarray, np.ndarray]) -> Result:
    """Panels of m [tau, head, 2] and their signals; missing heads are NaN."""
    most = max(m.shape[1] for m, _ in panels)
    m = np.stack([np.pad(m, ((0, 0), (0, most - m.shape[1]), (0, 0)), constant_values=np.nan) for m, _ in panels])
    arrays = {"tau": TAU, "m": m, "signal": np.stack([signal for _, signal in panels])}
    axes = {"tau": ("tau",), "m": ("panel", "tau", "head", "feature"), "signal": ("panel", "point", "feature")}
    return Result(arrays, axes)


def flipping(nu1: float, nu2: float) -> np.ndarray:
    return np.sqrt([nu1, nu2]) * [[1.0, 1.0], [1.0, -1.0]]


def of_heads(ends, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Heads that go to `ends` along two directions, at two paces."""
    return np.stack([first, second], axis=1)[:, None] * np.asarray(ends, dtype=float)


def changed(result: Result, **arrays: np.ndarray) -> Result:
    return Result({**result.arrays, **arrays}, result.axes, Status(Outcome.DIVERGED, "broken by hand"))


def without_records(result: Result) -> Result:
    """Every number NaN, as if no run had a record."""
    floats = {name: np.full_like(a, np.nan) for name, a in result.arrays.items() if a.dtype.kind == "f"}
    return changed(result, **floats)


def without_runs(result: Result, axis: str) -> Result:
    """No entry at all along an axis."""
    arrays: Mapping[str, np.ndarray] = {
        name: a.take([], axis=result.axes[name].index(axis)) if axis in result.axes[name] else a
        for name, a in result.arrays.items()
    }
    return Result(arrays, result.axes)


def time_axes(result: Result) -> tuple[str, ...]:
    """The axis of the times, if it has one: "time" where runs have times of their own."""
    return tuple(result.axes["tau"][-1:]) if "tau" in result else ()


@pytest.fixture(scope="module")
def tiny():
    return {figure: simulate(spec) for figure, spec in TINY.items()}


@pytest.mark.parametrize("figure", TINY, ids=lambda figure: figure.__name__)
def test_a_run_is_told_in_a_sentence(tiny, figure):
    told = figure.seen(tiny[figure])
    assert told.endswith(".")
    assert "\n" not in told
    assert 10 < len(told.split()) <= WORDS
    assert "nan" not in told
    assert "inf" not in told.replace("finite", "")


@pytest.mark.parametrize("figure", TINY, ids=lambda figure: figure.__name__)
def test_nothing_is_told_of_nothing(tiny, figure):
    result = tiny[figure]
    assert figure.seen(without_records(result)) == nothing(figure)
    axes = [axis for axis in ("panel", "map", "run", "sequence", "nu1") if any(axis in a for a in result.axes.values())]
    assert axes
    for axis in (*axes, *(time_axes(result) if "m" in result else ())):
        assert figure.seen(without_runs(result, axis)) == nothing(figure)


@pytest.mark.parametrize("figure", TINY, ids=lambda figure: figure.__name__)
def test_runs_that_end_early_are_told(tiny, figure):
    """NaN after half of the records, in the first run only."""
    result = tiny[figure]
    (time,) = time_axes(result) or ("tau",)
    arrays = {name: a.copy() for name, a in result.arrays.items() if time in result.axes[name] and a.ndim > 2}
    for name, a in arrays.items():
        at = result.axes[name].index(time)
        a[(0,) * at + (slice(a.shape[at] // 2, None),)] = np.nan
    told = figure.seen(changed(result, **arrays))
    assert told.endswith(".")
    assert told != nothing(figure)
    assert "nan" not in told


def test_fig02_compares_the_two_times():
    ends = [(2.0, 1.0), (2.0, -1.0)]
    kept = (of_heads(ends, ramp(0, 4), ramp(4, 10)), flipping(2, 2))  # half at τ = 2 and 7
    turned = (of_heads(ends, ramp(4, 10), ramp(0, 4)), flipping(2, 2))
    together = (of_heads([(2.0, 0.0)] * 2, ramp(0, 4), TAU), flipping(2, 2))
    alone = (of_heads(ends[:1], ramp(0, 4), ramp(4, 10)), flipping(2, 2))
    told = Fig02.seen(planes(kept, kept, alone))
    assert "(τ = 2)" in told
    assert "(τ = 7)" in told
    assert "in 2 of 2 panels" in told
    assert "in 1 of 2 panels" in Fig02.seen(planes(kept, turned))
    assert "(τ = never) in 0 of 1 panels" in Fig02.seen(planes(together))
    assert Fig02.seen(planes(alone)) == ALONE


def test_fig15_follows_the_farthest_head():
    two, four = (
        of_heads([(1.0, x), (1.0, -0.2), *[(1.0, 0.1)] * n], TAU / 10, TAU / 10) for x, n in ((0.5, 0), (-1, 2))
    )
    told = Fig15.seen(planes((four, flipping(2, 2)), (two, flipping(2, 2))))
    assert "0.50 and 1.00 for H = 2 and 4" in told
    assert "grows in 1 of 1 steps" in told
    assert "grows in 0 of 1 steps" in Fig15.seen(planes((four / 4, flipping(2, 2)), (two, flipping(2, 2))))
    assert "grows in 0 of 1 steps" in Fig15.seen(
        planes((four / 20, flipping(2, 2)), (two / 20, flipping(2, 2)))
    )  # noise


@pytest.mark.parametrize("figure", [Fig16, Fig17, Fig18])
def test_fig16_counts_splits_and_orders(figure):
    circle = np.array([[1.0, 0.0], [0.0, 1.0]])
    even = of_heads([(1, 1), (1, -1), (-1, 1), (-1, -1)], ramp(0, 4), ramp(4, 10))
    odd = of_heads([(1, 1), (1, -1), (1, 1), (-1, -1)], ramp(0, 4), ramp(4, 10))  # 3 to 1 along the first
    told = figure.seen(planes((even, circle), (even, circle * [2, 1]), (odd, circle * [1, 2])))
    assert "first direction in 2 of 3" in told
    assert "second in 3 of 3" in told
    assert told.endswith("in 1 of 2.")  # of the two uneven signals the second has its stronger feature last


@pytest.mark.parametrize(
    ("figure", "told", "broken"),
    [
        (Fig12, "in 1 of 1 steps at equal ν2; its mean is 4.00 at ν1 = 1 and 1.00 at ν1 = 9", "in 0 of 1 steps"),
        (Fig13, "in 1 of 2 panels, 1 of 1 with ν1 = 1 and 0 of 1 with ν1 = 9", "in 0 of 2 panels"),
        (Fig14, "in 1 of 2 panels, in 0 of 1 with ν2 < ν1; the farthest is 42% off, at ν = (9, 4)", "in 0 of 2 panels"),
    ],
)
def test_flipping_planes_tell_distances(figure, told, broken):
    there = of_heads([(1.0, 2.0), (1.0, -2.0)], TAU / 10, TAU / 10)
    short = of_heads([(3.0, 0.5), (3.0, -0.5)], TAU / 10, TAU / 10)
    assert np.isclose(1.5 / np.hypot(3, 2), 0.416, atol=1e-3)  # of short's heads to θ = (3, ±2)
    right = [(short, flipping(9, 4)), (there, flipping(1, 4))]
    assert told in figure.seen(planes(*right))
    assert broken in figure.seen(planes((short, flipping(9, 4)), (there / 10, flipping(1, 4))))


def test_fig06_weighs_what_is_misplaced():
    on, off = np.array([0.8, 0.2]), np.array([0.1, 0.3])  # of a head that finds the token, and of one that does not
    sigma = np.stack([np.stack([on, scale * off])[None] for scale in (2.0, 1.0, 0.5)])  # [map, sequence, head, token]
    parts = [0.3 * scale / (1.0 + 0.4 * scale) for scale in (2.0, 1.0, 0.5)]
    arrays = {"sigma": sigma, "relevant": np.array([0]), "map": np.array(["softmax", "softmax1", "bayes_softmax"])}
    axes = {"sigma": ("map", "sequence", "head", "token"), "relevant": ("sequence",), "map": ("map",)}
    result = Result(arrays, axes)
    assert "{:.0%} with softmax, {:.0%} with softmax-1 and {:.0%} with Bayes-softmax: less".format(
        *parts
    ) in Fig06.seen(result)
    assert ": not less with each map" in Fig06.seen(changed(result, sigma=sigma[::-1]))
    lost = np.where(np.arange(3)[:, None, None, None] == 1, np.nan, sigma)
    assert "left out" in Fig06.seen(changed(result, sigma=lost))


def test_fig08_tells_the_difference_and_the_side():
    m = of_heads([(1.0, 0.5), (1.0, -0.5)], TAU / 10, TAU / 10)[None]
    axes = {name: ("run", "tau", "head", "feature") for name in ("m_new", "m_same")}
    shifted = Result({"m_new": m, "m_same": m + np.array([0.03, 0.0])}, axes)
    told = Fig08.seen(shifted)
    assert "rms of 0.03 (largest 1)" in told
    assert "m_12 by 0 (largest 0.5)" in told
    assert "side in 1 of 1 runs" in told
    assert "side in 0 of 1 runs" in Fig08.seen(changed(shifted, m_same=m[:, :, ::-1]))
    assert "no run has |m_12| > 0.1 yet" in Fig08.seen(changed(shifted, m_new=m / 10, m_same=m / 10))


@pytest.mark.parametrize("figure", [Fig09, Fig10])
def test_fig09_tells_the_worse_part(tiny, figure):
    result = tiny[figure]
    m, q = result["sgd_m"], result["sgd_q"]
    off = 0.05 * np.abs(m).max(axis=(1, 2, 3), keepdims=True)
    same = {f"{kind}_{name}": result[f"sgd_{name}"] for kind in ("exact_p", "orthogonal") for name in "mq"}
    told = figure.seen(changed(result, **{**same, "exact_p_m": m + off, "orthogonal_q": 1.2 * q}))
    assert told.count("5.0% for") == 3
    assert told.count("(20.0%)") == 3
    assert figure.seen(changed(result, **same)).count("0.0%") == 6


def test_fig11_counts_steps_of_the_cosine():
    cosines = np.array([[0.9, 0.8], [0.1, -0.3]])  # ν1 falls along the rows, ν2 grows
    arrays = {"nu1": np.array([8.0, 1.0]), "nu2": np.array([1.0, 2.0]), "cosine": cosines}
    result = Result(arrays, {"nu1": ("nu1",), "nu2": ("nu2",), "cosine": ("nu1", "nu2")})
    told = Fig11.seen(result)
    assert "with ν1 in 0 of 2 steps and falls with ν2 in 0 of 2" in told
    assert "-0.10 at ν1 = 1 and 0.85 at ν1 = 8" in told
    assert "with ν1 in 2 of 2 steps and falls with ν2 in 2 of 2" in Fig11.seen(changed(result, cosine=-cosines))


def sequential(*paths: np.ndarray) -> Result:
    m = np.stack(paths)[None]
    loss = np.linspace(0.5, 0.6, len(paths))[None, :, None] * np.ones(len(TAU))
    tau = np.tile(TAU, (1, len(paths), 1))
    arrays = {"map": ["softmax"], "tau": tau, "m": m, "loss": loss, "nu": np.array([20.0, 1.0])}
    times = ("map", "run", "time")
    axes = {"map": ("map",), "tau": times, "nu": ("feature",), "loss": times}
    return Result(arrays, {**axes, "m": (*times, "head", "feature")})


SIGNS = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])


def test_fig19_counts_combinations():
    all_four, weak = (of_heads(SIGNS * [1.0, x], ramp(0, 4), ramp(4, 10)) for x in (0.5, 0.05))
    told = Fig19.seen(sequential(all_four, weak))
    assert "All 4 combinations" in told
    assert "in 1 of 2 runs, which have 0 to 4" in told
    assert "is 0.05 to 0.50, losses are 0.500 to 0.600" in told
    three = all_four.copy()
    three[:, 0] = three[:, 1]
    assert "in 0 of 2 runs, which have 3;" in Fig19.seen(sequential(three, three))


def test_fig20_tells_order_and_splits():
    kept, turned = of_heads(SIGNS, ramp(0, 4), ramp(4, 10)), of_heads(SIGNS, ramp(4, 10), ramp(0, 4))
    uneven = of_heads(SIGNS * [1, 0] + [0, 1], ramp(0, 4), ramp(4, 10))  # all on one side of the second
    weak = of_heads(SIGNS * [1.0, 0.05], ramp(0, 4), ramp(4, 10))
    told = Fig20.seen(sequential(kept, uneven, weak))
    assert "Features 1 and 2" in told
    assert "in 3 and 2 of 3 runs" in told
    assert "stronger first in 2 of 3, and split the heads evenly in 3 and 1." in told
    assert "stronger first in 0 of 1" in Fig20.seen(sequential(turned))
