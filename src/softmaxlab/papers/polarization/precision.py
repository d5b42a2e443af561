"""Induction runs in bfloat16 beside runs of the same settings in float32: whether they may be drawn and judged.

    softmaxlab check polarization/bfloat16    compares those of the tables that come with softmaxlab
    precision_pairs(read_runs(PATH, "induction")).validated                 those of any table of a sweep

A run in bfloat16 takes another path than one in float32, as a run of another seed does. It is validated if it moves
accuracy, mean sink score and share of sink heads by no more than another seed moves them in float32 (root mean square),
and to neither side (the 95 % interval of the mean difference holds 0), in LEAST_PAIRS pairs of LEAST_MAPS maps.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.papers.evidence import Finding, Verdict
from softmaxlab.papers.polarization.pairs import CONFIDENCE, LEAST_MAPS, LEAST_PAIRS
from softmaxlab.papers.polarization.run_table_schema import PRECISION
from softmaxlab.papers.polarization.runs import COMMITTED, read_runs, where
from softmaxlab.papers.polarization.sink_runs import SETTING, of_usual_model, shares_of

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

QUANTITIES = {"accuracy": "induction accuracy", "score": "mean sink score", "sinks": "share of sink heads"}
LEAST_SEEDS = 6  # pairs of seeds from which their spread is known
HALF = "bfloat16"


@dataclass(frozen=True)
class Difference:
    """One quantity: bfloat16 less float32 in each pair, and one seed less another in float32."""

    name: str
    precision: np.ndarray
    seeds: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean difference between precisions."""
        from scipy.stats import ttest_1samp

        if np.ptp(self.precision) == 0:
            return float(self.precision[0]), float(self.precision[0])
        interval = ttest_1samp(self.precision, 0.0).confidence_interval(CONFIDENCE)
        return float(interval.low), float(interval.high)

    @property
    def small(self) -> bool:
        low, high = self.interval
        return _size(self.precision) <= _size(self.seeds) and low <= 0.0 <= high

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.name}: {_size(self.precision):.3f} between precisions (mean {self.precision.mean():+.3f}, "
            f"{low:+.3f} to {high:+.3f}), {_size(self.seeds):.3f} between seeds"
        )


@dataclass(frozen=True)
class PrecisionPairs:
    """The pairs of a table: of which maps, how many, and the differences if there are enough to tell."""

    maps: tuple[str, ...]
    pairs: int
    seed_pairs: int
    differences: tuple[Difference, ...]

    @property
    def lacking(self) -> str:
        if self.pairs >= LEAST_PAIRS and len(self.maps) >= LEAST_MAPS and self.seed_pairs >= LEAST_SEEDS:
            return ""
        return (
            f"it has {self.pairs} pairs in both precisions, of {len(self.maps)} maps, and {self.seed_pairs} pairs of "
            f"seeds; a verdict needs {LEAST_PAIRS} of {LEAST_MAPS}, and {LEAST_SEEDS}"
        )

    @property
    def validated(self) -> bool:
        return not self.lacking and all(each.small for each in self.differences)


def precision_pairs(table: "Table") -> PrecisionPairs:
    """Compare induction runs of a table that differ in precision alone, and those that differ in the seed alone."""
    runs = of_usual_model(table)
    runs = where(runs, (runs["status"] == "done") & runs["sink_score"].notna() & runs["induction_accuracy"].notna())
    runs = runs.assign(sinks=shares_of(runs)).dropna(subset=["sinks"])
    runs = runs.assign(
        score=[scores[1].mean() for scores in runs["sink_score"]],
        accuracy=runs["induction_accuracy"],
        stop=[each or "" for each in runs["stop"]],
    )
    half, full = (where(runs, runs["precision"] == precision) for precision in (HALF, PRECISION))
    alike = [*SETTING, "epochs", "stop"]
    both = half.merge(full, on=alike)
    two = full.merge(full, on=[name for name in alike if name != "seed"])
    two = where(two, two["seed_x"] < two["seed_y"])
    differences = tuple(
        Difference(words, *(np.asarray(part[f"{name}_x"] - part[f"{name}_y"], dtype=float) for part in (both, two)))
        for name, words in QUANTITIES.items()
    )
    return PrecisionPairs(tuple(sorted(set(both["map"]))), len(both), len(two), differences if len(both) else ())


def without_unvalidated(table: "Table") -> tuple["Table", int]:
    """Return the rows that may be drawn and judged, and how many in bfloat16 were left out for want of validation.

    The pairs are those of the table and of the tables that come with softmaxlab.
    """
    import pandas

    half = table["precision"] == HALF
    if not half.any():  # pyright: ignore[reportGeneralTypeIssues]
        return table, 0
    pairs = precision_pairs(pandas.concat([table, read_runs(COMMITTED, "induction")]).drop_duplicates("key"))
    return (table, 0) if pairs.validated else (where(table, ~half), int(half.sum()))  # pyright: ignore[reportArgumentType]


def half_is_like_full(table: "Table") -> Finding:
    """Whether runs in bfloat16 are validated."""
    pairs = precision_pairs(table)
    measured = f"root mean squares of {pairs.pairs} pairs of {len(pairs.maps)} maps: " if pairs.pairs else "no pairs"
    measured += "; ".join(map(str, pairs.differences))
    if pairs.lacking:
        return Finding(Verdict.UNDECIDED, measured, pairs.lacking)
    return Finding(Verdict.HOLDS if pairs.validated else Verdict.FAILS, measured)


def _size(differences: np.ndarray) -> float:
    """The root mean square."""
    return float(np.sqrt(np.square(differences).mean()))
