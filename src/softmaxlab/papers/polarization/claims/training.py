"""Claims of the polarization paper about transformers trained on the induction task, judged on the table of runs.

The table grows: a claim says how many pairs it has and how many it needs, and comes to a verdict when they are there.
Its own level is the paper's protocol, all runs of the table. Refined it is judged on the runs of other seeds than the
first, alone. Both must agree for a verdict against the paper.

Runs are compared in pairs that differ in one setting only (pairs.py), both with an accuracy that counts; the sign of
every pair is part of what is measured. The controls are the same runs with labels exchanged, on which the same judge
must come to another verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.attention import MAPS
from softmaxlab.papers.claim import Claim, Evidence, Finding, Verdict
from softmaxlab.papers.polarization.pairs import LEAST_MAPS, LEAST_PAIRS, Pairs, differences, joined, lacking, matched
from softmaxlab.papers.polarization.run_groups import (
    NORMALISED,
    OTHERS,
    Change,
    both,
    interval_of_mean,
    of_maps,
    once,
    solved,
    whole,
)
from softmaxlab.papers.polarization.runs import chosen, mean, where
from softmaxlab.training.presets import SEEDS

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

SOURCE = "varre2026polarization"
FIGURE_4 = {"task__aux": 0.2, "task__shifted": True, "positions": "additive"}
FEW = 0.1  # a share of sink heads that is "almost none"
ALIKE = 0.95  # cosine of two heads' mean patterns from which they are duplicates
POSITIVE = tuple(map for map in (*NORMALISED, *OTHERS) if MAPS[map].non_negative)  # scores of others are no shares
UNNORMALISED = tuple(map for map in OTHERS if MAPS[map].non_negative)
SIGNED = tuple(map for map in OTHERS if not MAPS[map].non_negative)
COUNTERPARTS = tuple((f"{map}_norm", map) for map in UNNORMALISED)
EXCHANGED = {name: other for pair in (*COUNTERPARTS, ("softmax", "linear")) for name, other in both(*pair).items()}


@dataclass(frozen=True)
class TableRuns:
    """The solved runs of the table, with labels exchanged for a control; `other_seeds` leaves the first seed out."""

    exchanged: Change = field(default_factory=dict)
    other_seeds: bool = False
    layers: tuple[int, int] = (0, 1)  # those that `previous_token` compares

    def solved(self) -> "Table":
        runs = solved(self.exchanged)
        return where(runs, runs["seed"] != SEEDS[0]) if self.other_seeds else runs


def sinks_of_maps(subject: TableRuns) -> Finding:
    """Normalised maps against their unnormalised counterparts and softmax against the other maps, at equal settings."""
    runs = chosen(subject.solved(), **FIGURE_4)
    positive = _pairs_of_maps(runs, [*COUNTERPARTS, *(("softmax", map) for map in UNNORMALISED)])
    signed = _pairs_of_maps(runs, [("softmax", map) for map in SIGNED])
    measured = (
        f"share of sink heads, signs of pairs of runs: normalised less unnormalised positive maps {positive}"
        f"; softmax less signed maps {signed}"
    )
    verdicts = positive.verdict(), signed.verdict()
    for kind, pairs in (("unnormalised positive", positive), ("signed", signed)):
        if missing := lacking(pairs):
            return Finding(Verdict.UNDECIDED, measured, f"against {kind} maps {missing}")
    if verdicts[0] is not Verdict.HOLDS:
        return Finding(verdicts[0], measured)
    # a signed row's share of the sink is a ratio to a total near 0, clipped to [0, 1]: it says little
    return Finding(Verdict.CONDITION if verdicts[1] is Verdict.FAILS else verdicts[1], measured)


def _pairs_of_maps(runs: "Table", maps: list[tuple[str, str]]) -> Pairs:
    """The difference in the share of sinks, by the two maps."""
    return joined(
        [differences(*matched(runs, "map", one, other), "sinks", f"{one}/{other}") for one, other in maps],
    )


def more_sinks(what: str, parts: list[tuple["Table", "Table"]]) -> Finding:
    """Whether the first of two matched tables have more sink heads; the mean score must not say the opposite."""
    import pandas

    share, score = (joined([differences(*part, column) for part in parts]) for column in ("sinks", "score"))
    means = [mean(pandas.concat([part[side]["sinks"] for part in parts])) for side in (0, 1)]
    measured = (
        f"{what}: share of sink heads {means[0]:.2f} and {means[1]:.2f} over {len(share.name)} pairs of runs, signs "
        f"{share}; mean score {score}"
    )
    if missing := lacking(share):
        return Finding(Verdict.UNDECIDED, measured, missing)
    opposed = {share.verdict(), score.verdict()} == {Verdict.HOLDS, Verdict.FAILS}
    return Finding(Verdict.UNDECIDED if opposed else share.verdict(), measured)


def no_sinks_without_aux(subject: TableRuns) -> Finding:
    """λ = 0: sinks, and how alike the heads of the second layer are, against λ = 0.2."""
    runs = whole(of_maps(subject.solved(), POSITIVE), "similarity")
    zero, usual = matched(where(runs, runs["heads"] > 1), "task.aux", 0.0, 0.2)
    if not len(zero):
        return Finding(
            Verdict.UNDECIDED, "no pair of solved runs at both λ", f"it has no pairs, and needs {LEAST_PAIRS}"
        )
    fewer = differences(usual, zero, "sinks")
    alike = [np.array([_duplicates(s[1]) for s in part["similarity"]]) for part in (zero, usual)]
    share, duplicates = (interval_of_mean(np.asarray(each, float)) for each in (zero["sinks"], alike[0]))
    measured = (
        f"λ = 0: share of sink heads {mean(zero['sinks']):.2f} ({share[0]:.2f} to {share[1]:.2f}), of pairs of heads "
        f"with cosine > {ALIKE:g} {alike[0].mean():.2f} ({duplicates[0]:.2f} to {duplicates[1]:.2f}); λ = 0.2: "
        f"{mean(usual['sinks']):.2f}, {alike[1].mean():.2f}; share of sinks at λ = 0.2 less that at 0, signs {fewer}"
    )
    if missing := lacking(fewer):
        return Finding(Verdict.UNDECIDED, measured, missing)
    if fewer.verdict() is not Verdict.HOLDS or share[0] <= FEW < share[1]:
        return Finding(Verdict.FAILS if fewer.verdict() is Verdict.FAILS else Verdict.UNDECIDED, measured)
    if share[0] > FEW:
        return Finding(Verdict.FAILS, measured)
    if duplicates[0] <= 0.5 < duplicates[1]:
        return Finding(Verdict.UNDECIDED, measured)
    return Finding(Verdict.HOLDS if duplicates[0] > 0.5 else Verdict.CONDITION, measured)


def _duplicates(similarity: np.ndarray) -> float:
    """Share of pairs of heads that are alike."""
    return float((similarity[np.triu_indices(len(similarity), 1)] > ALIKE).mean())


def shifted_fewer(subject: TableRuns) -> Finding:
    runs = of_maps(subject.solved(), POSITIVE)
    return more_sinks("t′ = t and t′ ≠ t", [matched(runs, "task.shifted", False, True)])


def no_positions_more(subject: TableRuns) -> Finding:
    runs = chosen(of_maps(subject.solved(), POSITIVE), task__aux=0.2)  # Figure 15's
    parts = [matched(runs, "positions", "none", explicit) for explicit in ("additive", "concat")]
    return more_sinks("no positions and explicit ones", parts)


def previous_token(subject: TableRuns) -> Finding:
    """The first layer's weight on the token before, against the second layer's."""
    runs = whole(of_maps(chosen(once(subject.solved()), **FIGURE_4), NORMALISED), "previous_token")
    few = f"it has {len(runs)} runs of {runs['map'].nunique()} maps; a verdict needs {LEAST_PAIRS} of {LEAST_MAPS}"
    if not len(runs):
        return Finding(Verdict.UNDECIDED, "no solved run of a normalised positive map", few)
    first, second = (np.concatenate([p[layer] for p in runs["previous_token"]]) for layer in subject.layers)
    share = [(layer > 0.5).mean() for layer in (first, second)]
    measured = (
        f"share of heads with more than half of their weight on the previous token: first layer {share[0]:.2f}, "
        f"second {share[1]:.2f} ({len(runs)} runs of {runs['map'].nunique()} normalised maps)"
    )
    if len(runs) < LEAST_PAIRS or runs["map"].nunique() < LEAST_MAPS:  # pyright: ignore[reportGeneralTypeIssues]
        return Finding(Verdict.UNDECIDED, measured, few)
    if share[0] <= share[1] or share[0] < 0.5:
        return Finding(Verdict.FAILS, measured)
    return Finding(Verdict.HOLDS if share[0] > 0.9 else Verdict.CONDITION, measured)


TABLE = Evidence("paper protocol", horizon="10 epochs", runs="the committed table, as far as it goes")
OTHER_SEEDS = Evidence("refined", horizon="10 epochs", runs="those of the table with other seeds than the first")
MOST = f"95 % interval of the share of pairs above a half, from {LEAST_PAIRS} pairs that differ of {LEAST_MAPS} maps"


def _claim(id: str, place: str, statement: str, judge: Callable, tolerance: str, control: TableRuns, control_is: str,
           expected: Verdict = Verdict.HOLDS, erratum: tuple[str, ...] = (), figures: tuple[str, ...] = ()
           ) -> Claim:  # fmt: skip
    levels = {"evidence": TABLE, "refined": TableRuns(other_seeds=True), "refined_evidence": OTHER_SEEDS}
    checked = (judge, TableRuns(), control, control_is, expected)
    return Claim(
        f"polarization/{id}",
        SOURCE,
        place,
        statement,
        tolerance,
        *checked,
        **levels,
        erratum=erratum,
        figures=figures,
        live=True,
        grows=True,
    )


CLAIMS = (
    _claim(
        "sinks-maps",
        "Section 4.1, Figure 4",
        "Normalised positive maps have consistently more sink heads than unnormalised or signed ones",
        sinks_of_maps,
        f"{MOST}, against unnormalised positive maps and against signed ones; with condition: the former only",
        TableRuns({"map": EXCHANGED}),
        "the same runs with the names of each normalised map and its counterpart, and of softmax and linear, exchanged",
        expected=Verdict.UNDECIDED,
        figures=("polarization/fig04",),
        erratum=("polarization/22",),
    ),
    _claim(
        "sinks-aux",
        "Appendix F.2, Figure 14",
        "With λ = 0 most heads duplicate each other and do not form sinks",
        no_sinks_without_aux,
        f"positive maps: fewer sinks than with λ = 0.2 ({MOST}), their share below {FEW:g} and most pairs of heads "
        f"with cosine above {ALIKE:g}, each with its whole 95 % interval; with condition: only the sinks",
        TableRuns({"task.aux": both(0.0, 0.2)}),
        "the same runs with the labels of λ exchanged",
        expected=Verdict.UNDECIDED,
        figures=("polarization/fig14",),
    ),
    _claim(
        "sinks-shifted",
        "Appendix E.1",
        "A query symbol of its own (t′ ≠ t) typically leads to fewer sinks",
        shifted_fewer,
        f"positive maps: {MOST}; the mean score must not say the opposite",
        TableRuns({"task.shifted": both(True, False)}),
        "the same runs with the labels of the two kinds of query exchanged",
        expected=Verdict.UNDECIDED,
        figures=("polarization/fig04",),
    ),
    _claim(
        "sinks-positions",
        "Appendix F.2, Figure 15",
        "No explicit positions lead to more sinks",
        no_positions_more,
        f"positive maps: {MOST}, against additive and concatenated positions; the mean score must not say the opposite",
        TableRuns({"positions": both("none", "additive")}),
        "the same runs with the labels of no positions and additive ones exchanged",
        expected=Verdict.UNDECIDED,
        figures=("polarization/fig15",),
    ),
    _claim(
        "previous-token",
        "Appendix E.1",
        "All heads in the first layer typically attend to the previous token",
        previous_token,
        "nine heads of ten with more than half of their weight there; with condition: more than half of the heads",
        TableRuns(layers=(1, 0)),
        "the same runs with the layers exchanged",
        expected=Verdict.UNDECIDED,
    ),
)
