"""Our claim that runs in bfloat16 are like those in float32, a condition for drawing them in Figures 4 and 14 to 17."""

from typing import TYPE_CHECKING

from softmaxlab.papers.claim import Claim, Evidence, Finding, Verdict
from softmaxlab.papers.polarization.pairs import LEAST_MAPS, LEAST_PAIRS
from softmaxlab.papers.polarization.precision import HALF, half_is_like_full
from softmaxlab.papers.polarization.runs import COMMITTED, read_runs

if TYPE_CHECKING:
    import pandas


def bfloat16_is_like_float32(other_maps: bool) -> Finding:
    """The committed table, for a control with every run in bfloat16 under the name of another map."""
    table = read_runs(COMMITTED, "induction")
    return half_is_like_full(_renamed(table) if other_maps else table)


def _renamed(table: "pandas.DataFrame") -> "pandas.DataFrame":
    half = table["precision"] == HALF
    maps = sorted(set(table["map"][half]))
    following = dict(zip(maps, [*maps[1:], *maps[:1]]))
    return table.assign(map=[following[m] if h else m for m, h in zip(table["map"], half)])


CLAIMS = (
    Claim(
        id="polarization/bfloat16",
        source="softmaxlab",
        place="Figures 4 and 14 to 17",
        statement="Products in bfloat16 change accuracy and sinks of an induction run no more than another seed does",
        tolerance="root mean square difference at most that between seeds, 0 in the 95 % interval of the mean; "
        f"{LEAST_PAIRS} pairs of {LEAST_MAPS} maps",
        judge=bfloat16_is_like_float32,
        subject=False,
        control=True,
        control_is="runs in bfloat16 under the name of another map",
        expected=Verdict.UNDECIDED,
        evidence=Evidence("own", horizon="10 epochs", runs="pairs of the committed table"),
        grows=True,
    ),
)
