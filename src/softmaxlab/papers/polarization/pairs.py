"""Pairs of runs that differ in one setting only: their signs, and what these allow to say.

A pair counts for or against a statement by the sign of its difference; equal ones count for neither. There is a verdict
from LEAST_PAIRS pairs that differ, of LEAST_MAPS maps, if the interval of the share of positive signs is on one side of
a half (Wilson's interval, as scipy.stats.binomtest gives it).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.papers.evidence import Verdict
from softmaxlab.papers.polarization.runs import chosen
from softmaxlab.papers.polarization.sink_runs import SETTING

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

LEAST_PAIRS = 12
LEAST_MAPS = 4
CONFIDENCE = 0.95
SHOWN = 24  # signs of a map that are written one by one; more are counted
SIGNS = {1: "+", -1: "−", 0: "="}
LENGTH = ["epochs", "stop", "precision"]  # equal in both runs of a pair, like their settings


@dataclass(frozen=True)
class Pairs:
    """The difference of a quantity in each pair, and what the pair is of: its map, as a rule."""

    name: np.ndarray
    difference: np.ndarray
    of: str = "maps"  # what the names are

    @property
    def maps(self) -> int:
        """The number of maps, or whatever the names are, that have a pair that differs."""
        return len(set(self.name[self.difference != 0].tolist()))

    @property
    def positive(self) -> int:
        return int((self.difference > 0).sum())

    @property
    def unequal(self) -> int:
        return int((self.difference != 0).sum())

    def interval(self) -> tuple[float, float]:
        """The interval of the share of positive signs among the pairs that differ; everything, if there is none."""
        from scipy.stats import binomtest

        if not self.unequal:
            return 0.0, 1.0
        share = binomtest(self.positive, self.unequal).proportion_ci(CONFIDENCE, method="wilson")
        return float(share.low), float(share.high)

    def verdict(self, maps: int = LEAST_MAPS) -> Verdict:
        """Whether the difference is positive in most pairs."""
        if self.unequal < LEAST_PAIRS or self.maps < maps:
            return Verdict.UNDECIDED
        low, high = self.interval()
        return Verdict.HOLDS if low > 0.5 else Verdict.FAILS if high < 0.5 else Verdict.UNDECIDED

    def signs(self) -> dict[str, str]:
        """Map → the signs of all its pairs."""
        return {name: _signs(self.difference[self.name == name]) for name in sorted(set(self.name.tolist()))}

    def __str__(self) -> str:
        low, high = self.interval()
        shown = ", ".join(f"{name} {signs}" for name, signs in self.signs().items())
        return (
            f"{shown}: + in {self.positive} of {self.unequal} that differ, of {self.maps} {self.of}"
            f" ({CONFIDENCE:.0%} interval {low:.2f} to {high:.2f}; {len(self.difference) - self.unequal} equal)"
        )


def lacking(pairs: Pairs, maps: int = LEAST_MAPS) -> str:
    """Say how many pairs there are and how many a verdict needs; nothing if there are enough."""
    if pairs.unequal >= LEAST_PAIRS and pairs.maps >= maps:
        return ""
    equal = len(pairs.difference) - pairs.unequal
    return (
        f"it has {pairs.unequal} pairs of runs that differ, of {pairs.maps} {pairs.of}, and {equal} equal; "
        f"a verdict needs {LEAST_PAIRS} that differ, of {maps}"
    )


def few(pairs: Pairs, maps: int = LEAST_MAPS) -> str:
    """The reason why there is no verdict; empty if nothing is missing."""
    missing = [(pairs.unequal, LEAST_PAIRS, "pairs that differ"), (pairs.maps, maps, "maps")]
    wanted = " and ".join(f"{least} {what}" for number, least, what in missing if number < least)
    return f"; a verdict needs {wanted}" if wanted else ""


def _signs(difference: np.ndarray) -> str:
    marks = [SIGNS[int(sign)] for sign in np.sign(difference)]
    if len(marks) <= SHOWN:
        return "".join(marks)
    return " ".join(f"{marks.count(mark)}{mark}" for mark in SIGNS.values() if mark in marks)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """All pairs together."""
    name, difference = (np.concatenate(each) for each in zip(*((part.name, part.difference) for part in parts)))
    return Pairs(name, difference, parts[0].of)


def differences(one: "Table", other: "Table", column: str, name: str | None = None) -> Pairs:
    """The pairs of two tables of matched runs, called by their map unless by a name."""
    names = one["map"].astype(str).to_numpy() if name is None else np.full(len(one), name)
    return Pairs(names, one[column].to_numpy(dtype=float) - other[column].to_numpy(dtype=float))


def matched(
    runs: "Table", setting: str, one: Any, other: Any, settings: Sequence[str] = SETTING
) -> tuple["Table", "Table"]:
    """Runs with one value of a setting and those with another, row by row alike in all other settings and in length.

    Of several lengths of a pair the longest counts, and a full run rather than one that ended when settled.
    """
    alike = [name for name in settings if name != setting]
    runs = runs.assign(stop=[each or "" for each in runs["stop"]]).sort_values("key")
    runs = runs.sort_values(["epochs", "stop"], ascending=[False, True], kind="stable")
    column = setting.replace(".", "__")
    parts = [chosen(runs, **{column: value}).drop_duplicates([*alike, *LENGTH]) for value in (one, other)]
    first, second = (part.set_index([*alike, *LENGTH], drop=False) for part in parts)
    first = first.loc[first.index.isin(second.index)].drop_duplicates(alike)
    return first.reset_index(drop=True), second.loc[first.index].reset_index(drop=True)
