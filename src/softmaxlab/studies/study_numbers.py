"""The numbers that a study reports, with 95 % intervals, and whether those of new rows agree with committed ones."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from softmaxlab.errors import SpecError

LEVEL = 0.975  # of two-sided 95 % intervals


@dataclass(frozen=True)
class Number:
    """A value and its interval; low and high are the value where there is none."""

    name: str
    value: float
    low: float
    high: float

    def agrees(self, other: "Number") -> bool:
        """Whether the intervals have a number in common."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        return f"{self.value:.4g}" + (f" [{self.low:.4g}, {self.high:.4g}]" if self.low < self.high else "")


def interval(x: np.ndarray) -> tuple[float, float, float]:
    """Mean and Student's 95 % interval of it."""
    from scipy.stats import t

    half = t.ppf(LEVEL, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), float(x.mean() - half), float(x.mean() + half)


def range_of(n: int, x: np.ndarray) -> tuple[float, float, float]:
    """Mean and the interval that holds 95 % of means of n further values; of a single value that value."""
    if len(x) == 1:
        return float(x[0]), float(x[0]), float(x[0])
    mean, low, high = interval(x)
    wider = np.sqrt(1 + len(x) / n)
    return mean, float(mean + wider * (low - mean)), float(mean + wider * (high - mean))


def wilson(right: np.ndarray | float, n: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval of a share of n; NaN of a share that is NaN."""
    from scipy.stats import binomtest

    def bounds(share: float, number: int) -> tuple[float, float]:
        if np.isnan(share):
            return np.nan, np.nan
        return binomtest(round(share * number), int(number)).proportion_ci(2 * LEVEL - 1, method="wilson")

    low, high = np.vectorize(bounds, otypes=[float, float])(right, n)
    return low, high


def counted(name: str, right: np.ndarray) -> Number:
    """The share of those that are right."""
    if not len(right):
        raise SpecError(f"there is nothing to count for {name!r}")
    low, high = wilson(float(right.mean()), len(right))
    return Number(name, float(right.mean()), float(low), float(high))


def wider(number: Number, low: float | np.ndarray, high: float | np.ndarray) -> Number:
    """A number whose interval holds another one as well."""
    return replace(number, low=min(number.low, float(low)), high=max(number.high, float(high)))


def listed(numbers: Iterable[Number]) -> str:
    return ";\n".join(f"{number.name}: {number}" for number in numbers) + "."


def compared(made: Iterable[Number], committed: Iterable[Number]) -> str:
    """Each number, and whether it agrees with the committed one: those that do not first, those that have none last."""
    made, known = list(made), {number.name: number for number in committed}
    pairs = [(number, known[number.name]) for number in made if number.name in known]
    if not pairs:
        return listed(made)
    lines: dict[str, list[str]] = {"DIFFERS": [], "agrees": [], "cannot be compared": []}
    for a, b in pairs:
        verdict = "cannot be compared" if np.isnan([a.value, b.value]).any() else "agrees" if a.agrees(b) else "DIFFERS"
        lines[verdict].append(f"{a.name}: {a}, committed {b}: {verdict}")
    differ, agree, neither = (len(said) for said in lines.values())
    head = f"{agree} of {differ + agree} numbers agree with the committed ones (95 % intervals meet)"
    head += f", {neither} cannot be compared" if neither else ""
    alone = [f"{a.name}: {a}, not compared" for a in made if a.name not in known]
    return ";\n".join([head, *(line for said in lines.values() for line in said), *alone]) + "."
