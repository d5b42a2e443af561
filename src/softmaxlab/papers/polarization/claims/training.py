"""What the polarization paper says about trained transformers, judged on the tables of runs.

The controls are the same tables with labels exchanged, on which the same judge must come to another verdict. A judge
compares groups of runs; if the tables have none of a group it raises SpecError, so that nothing is judged on no data.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.attention import MAPS
from softmaxlab.papers.claim import Claim, Finding, Verdict
from softmaxlab.papers.polarization.run_groups import (
    NORMALISED,
    OTHERS,
    Change,
    both,
    flips,
    means,
    of_maps,
    same_settings,
    solved,
    some,
    whole,
)
from softmaxlab.papers.polarization.runs import chosen, mean

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

SOURCE = "varre2026polarization"
FEW = 0.1  # a share of sink heads that is "almost none"
ALIKE = 0.95  # cosine of two heads' mean patterns from which they are duplicates
EASY = 0.85  # a flip rate that is high: over seeds one-head softmax was seen at .84 to 1.00
PAIRS = 12  # matched pairs of runs below which nothing is decided
STEP = 0.05  # flip rates of five runs scatter by less
POSITIVE = tuple(map for map in (*NORMALISED, *OTHERS) if MAPS[map].non_negative)  # scores of others are no shares


def sinks_of_maps(change: Change) -> Finding:
    """Shares of sink heads of all maps; and how the scores of the two groups of maps are ordered."""
    runs = chosen(solved(change), task__aux=0.2, task__shifted=True, positions="additive")
    groups = {"normalised positive": NORMALISED, "other": OTHERS}
    parts = [some("sinks-maps", f"solved runs of {name} maps", of_maps(runs, maps)) for name, maps in groups.items()]
    high, low = (np.concatenate([scores[1] for scores in part["sink_score"]]) for part in parts)
    chance = (high[:, None] > low).mean()
    above, below = (means(part, "sinks", maps) for part, maps in zip(parts, groups.values()))
    told = ", ".join(f"{map} {value:.2f}" for map, value in (above | below).items())
    unsolved = [map for map in (*NORMALISED, *OTHERS) if map not in above | below]
    told += f" (no solved run: {', '.join(unsolved)})" if unsolved else ""
    order = f"P(score of a normalised one is larger) = {chance:.2f}"
    measured = f"share of sink heads over {sum(map(len, parts))} runs: {told}; {order}"
    if min(above.values()) > max(below.values()):
        return Finding(Verdict.HOLDS, measured)
    # a signed row's share of the sink is a ratio to a total near 0, clipped to [0, 1]: it says little
    positive = [value for map, value in below.items() if MAPS[map].non_negative]
    condition = len(positive) > 0 and min(above.values()) > max(positive)
    return Finding(Verdict.CONDITION if condition else Verdict.FAILS, measured)


def flips_of_one_head(change: Change) -> Finding:
    """Softmax against every other map, one layer and one head; over all runs, and with the smallest vocabulary."""
    runs = flips(change, layers=1, heads=1, mlp=True, layernorm=True)
    runs = of_maps(runs, (*NORMALISED, *OTHERS))
    others = tuple(map for map in (*NORMALISED, *OTHERS) if map != "softmax")
    softmax = mean(some("flips-one-head", "runs of softmax", chosen(runs, map="softmax"))["flips"])
    rate = means(some("flips-one-head", "runs of other maps", of_maps(runs, others)), "flips", others)
    next_best = max(rate, key=lambda map: rate[map])
    vocabulary = min(runs["task.vocab"])
    small = mean(chosen(runs, map="softmax", task__vocab=vocabulary)["flips"])
    measured = (
        f"mean flip rate over {len(runs)} runs: softmax {softmax:.2f} ({small:.2f} with {vocabulary:.0f} symbols), "
        f"next of {len(rate)} other maps {next_best} {rate[next_best]:.2f}"
    )
    if softmax <= rate[next_best] or small <= EASY:
        return Finding(Verdict.FAILS, measured)
    return Finding(Verdict.HOLDS if softmax > EASY else Verdict.CONDITION, measured)


def flips_fall(change: Change) -> Finding:
    """Softmax without MLP and LayerNorm: heads 1, 2, 4 by layers 1, 2."""
    runs = flips(change, map="softmax", mlp=False, layernorm=False, task__vocab=41, lr=1e-3)
    heads, layers = (1, 2, 4), (1, 2)
    parts = {(h, n): some("flips-fall", f"runs with H = {h}, L = {n}", chosen(runs, heads=h, layers=n))
             for h in heads for n in layers}  # fmt: skip
    rates = np.array([[mean(parts[h, n]["flips"]) for n in layers] for h in heads])
    falls = (np.diff(rates, axis=0) < STEP).all() and (np.diff(rates, axis=1) < STEP).all()
    vanishes = rates[-1, -1] < rates[0, 0] / 2
    rows = "; ".join(f"H = {h}: {row[0]:.2f}, {row[1]:.2f}" for h, row in zip(heads, rates))
    return Finding(Verdict.HOLDS if falls and vanishes else Verdict.FAILS, f"L = 1, 2: {rows} ({len(runs)} runs)")


def more_sinks(runs: "Table", others: "Table", names: tuple[str, str]) -> Finding:
    """Whether the first have more sink heads: in share, and by the mean score."""
    score = [np.mean([s[1].mean() for s in part["sink_score"]]) for part in (runs, others)]
    share = [mean(part["sinks"]) for part in (runs, others)]
    told = ", ".join(f"{name} {s:.2f} (mean score {m:.2f})" for name, s, m in zip(names, share, score))
    measured = f"share of sink heads over {len(runs)} pairs of runs: {told}"
    if len(runs) < PAIRS:
        return Finding(Verdict.UNDECIDED, f"{measured}; fewer than {PAIRS} pairs")
    if share[0] > share[1] and score[0] > score[1]:
        return Finding(Verdict.HOLDS, measured)
    return Finding(Verdict.CONDITION if share[0] > share[1] or score[0] > score[1] else Verdict.FAILS, measured)


def no_sinks_without_aux(change: Change) -> Finding:
    """λ = 0: sinks, and how alike the heads of the second layer are, against λ = 0.2."""
    zero, usual = same_settings("sinks-aux", whole(solved(change), "similarity"), task__aux=0.0)
    alike = [np.mean([_duplicates(s[1]) for s in part["similarity"]]) for part in (zero, usual)]
    share = mean(zero["sinks"])
    measured = (
        f"λ = 0: share of sink heads {share:.2f}, of pairs of heads with cosine > {ALIKE:g} {alike[0]:.2f}; "
        f"λ = 0.2: {mean(usual['sinks']):.2f}, {alike[1]:.2f} ({len(zero)} pairs of runs)"
    )
    if len(zero) < PAIRS:
        return Finding(Verdict.UNDECIDED, f"{measured}; fewer than {PAIRS} pairs")
    if share > FEW:
        return Finding(Verdict.FAILS, measured)
    return Finding(Verdict.HOLDS if alike[0] > 0.5 else Verdict.CONDITION, measured)


def _duplicates(similarity: np.ndarray) -> float:
    """Share of pairs of heads that are alike."""
    return float((similarity[np.triu_indices(len(similarity), 1)] > ALIKE).mean())


def shifted_fewer(change: Change) -> Finding:
    plain, shifted = same_settings("sinks-shifted", of_maps(solved(change), POSITIVE), task__shifted=False)
    return more_sinks(plain, shifted, ("t′ = t", "t′ ≠ t"))


def no_positions_more(change: Change) -> Finding:
    without, additive = same_settings("sinks-positions", of_maps(solved(change), POSITIVE), positions="none")
    return more_sinks(without, additive, ("no positions", "additive"))


def previous_token(layers: tuple[int, int]) -> Finding:
    """The first layer's weight on the token before, against the second layer's."""
    runs = chosen(solved({}), task__aux=0.2, task__shifted=True, positions="additive")
    runs = whole(of_maps(runs, NORMALISED), "previous_token")
    runs = some("previous-token", "solved runs of normalised positive maps", runs)
    first, second = (np.concatenate([p[layer] for p in runs["previous_token"]]) for layer in layers)
    share = [(layer > 0.5).mean() for layer in (first, second)]
    measured = (
        f"share of heads with more than half of their weight on the previous token: first layer {share[0]:.2f}, "
        f"second {share[1]:.2f} ({len(runs)} runs of normalised maps)"
    )
    if share[0] <= share[1] or share[0] < 0.5:
        return Finding(Verdict.FAILS, measured)
    return Finding(Verdict.HOLDS if share[0] > 0.9 else Verdict.CONDITION, measured)


def _claim(id: str, place: str, statement: str, judge: Callable, tolerance: str, control: Any, control_is: str,
           subject: Any = None, expected: Verdict = Verdict.HOLDS) -> Claim:  # fmt: skip
    checked = (judge, subject or {}, control, control_is, expected)
    return Claim(f"polarization/{id}", SOURCE, place, statement, tolerance, *checked)


CLAIMS = (
    _claim(
        "sinks-maps",
        "Section 4.1, Figure 4",
        "Normalised positive maps have consistently more sink heads than unnormalised or signed ones",
        sinks_of_maps,
        "every normalised positive map above every other one; with condition: above every unnormalised positive one",
        {"map": both("softmax", "linear") | both("elu_norm", "elu") | both("sigmoid_norm", "mlp")},
        "the same runs with the names of three pairs of maps exchanged",
        expected=Verdict.UNDECIDED,
    ),
    _claim(
        "flips-one-head",
        "Section 4.2, Figure 6",
        "With one layer and one head, swapping one token reverses the softmax model's predictions",
        flips_of_one_head,
        f"mean flip rate above {EASY:g} and above every other map's; with condition: with the smallest vocabulary only",
        {"map": both("softmax", "sigmoid")},
        "the same runs with the names of softmax and sigmoid exchanged",
        expected=Verdict.UNDECIDED,
    ),
    _claim(
        "flips-fall",
        "Appendix F.3, Figure 21",
        "More heads or layers lead to a diminishing flip rate",
        flips_fall,
        f"no rise above {STEP:g} along heads or layers, and half the rate or less at the end",
        {"heads": both(1, 4)},
        "the same runs with the labels of 1 and 4 heads exchanged",
    ),
    _claim(
        "sinks-aux",
        "Appendix F.2, Figure 14",
        "With λ = 0 most heads duplicate each other and do not form sinks",
        no_sinks_without_aux,
        f"share of sinks below {FEW:g}; most pairs of heads with cosine above {ALIKE:g}",
        {"task.aux": both(0.0, 0.2)},
        "the same runs with the labels of λ exchanged",
        expected=Verdict.UNDECIDED,
    ),
    _claim(
        "sinks-shifted",
        "Appendix E.1",
        "A query symbol of its own (t′ ≠ t) typically leads to fewer sinks",
        shifted_fewer,
        "positive maps: share of sink heads and mean score both larger for t′ = t; with condition: one of them",
        {"task.shifted": both(True, False)},
        "the same runs with the labels of the two kinds of query exchanged",
        expected=Verdict.UNDECIDED,
    ),
    _claim(
        "sinks-positions",
        "Appendix F.2, Figure 15",
        "No explicit positions lead to more sinks",
        no_positions_more,
        "positive maps: share of sink heads and mean score both larger without positions; with condition: one; "
        "judged on the few pairs that were run here, where the paper's grid has 3,960 runs",
        {"positions": both("none", "additive")},
        "the same runs with the labels of positions exchanged",
        expected=Verdict.UNDECIDED,
    ),
    _claim(
        "previous-token",
        "Appendix E.1",
        "All heads in the first layer typically attend to the previous token",
        previous_token,
        "nine heads of ten with more than half of their weight there; with condition: more than half of the heads",
        (1, 0),
        "the same runs with the layers exchanged",
        subject=(0, 1),
        expected=Verdict.UNDECIDED,
    ),
)
