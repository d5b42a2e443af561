"""Paths m [tau, head, feature] of heads: when they learn a direction, how they split along it, and words for both."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from softmaxlab.core.result import Result

LEARNT = 0.1  # mean over heads of |m_hf|: ten times the noise of the start
PART = 0.1  # of the largest |m_hf|: a head with less has no sign along f
NOTHING = "There is nothing to see: no run has finite records to compare."


def kinds_of(runs: Sequence[Result]) -> np.ndarray:
    """The kinds that the certificates of flows give: minimum, saddle, moving or undersampled."""
    return np.array([run.notes["certificate"]["kind"] for run in runs])


def finite_path(m: np.ndarray) -> np.ndarray:
    """The heads that are there, until the first record that is not finite."""
    here = m[:, np.isfinite(m[:1]).all(axis=(0, 2))]
    return here[np.logical_and.accumulate(np.isfinite(here).all(axis=(1, 2)))]


def finite_times(tau: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """`tau` and arrays [time, ...] until the first time that is not finite: runs that ended earlier are padded."""
    end = int(np.isfinite(tau).cumprod().sum())
    return tau[:end], *(array[:end] for array in arrays)


def learnt_at(tau: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Return when mean_h |m_hf| first exceeds `LEARNT`, for each f; infinity if never."""
    learnt = np.abs(path).mean(axis=1) > LEARNT
    return np.where(learnt.any(axis=0), tau[learnt.argmax(axis=0)], np.inf)


def split_evenly(end: np.ndarray) -> np.ndarray:
    """Whether the heads m [head, feature] have learnt f and are on both its sides, as many as can be, for each f."""
    size = np.abs(end)
    sides = np.where(size > PART * size.max(axis=0), np.sign(end), 0.0)
    both = (sides > 0).any(axis=0) & (sides < 0).any(axis=0)
    return both & (np.abs(sides.sum(axis=0)) <= 1) & (size.mean(axis=0) > LEARNT)


def sign_patterns(end: np.ndarray) -> int:
    """Count the sign combinations of heads m [head, feature] that have a part in every feature, all learnt."""
    size = np.abs(end)
    whole = ((size > PART * size.max(axis=0)) & (size.mean(axis=0) > LEARNT)).all(axis=1)
    return len({tuple(head) for head in end[whole] > 0})


def steps(x: Iterable[float], values: Iterable[float]) -> list[float]:
    """Changes of finite values from one x to the next larger one."""
    pairs = sorted((float(a), float(b)) for a, b in zip(x, values) if np.isfinite(b))
    return [after - before for (x0, before), (x1, after) in pairwise(pairs) if x1 > x0]


def above_noise(values: Iterable[float]) -> list[float]:
    """Values within the noise of the start as 0, so that a step between two of them is none."""
    return [float(value) if value > LEARNT else 0.0 for value in values]


def count(flags: Iterable[object]) -> str:
    """Count those that hold, in words: "3 of 4"."""
    held = [bool(flag) for flag in flags]
    return f"{sum(held)} of {len(held)}"


def span(values: Iterable[float], form: str = "g") -> str:
    """Return the least and the largest finite value as "a to b"; "never" if there is none."""
    finite = [float(value) for value in values if np.isfinite(value)]
    ends = [format(value, form) for value in (min(finite), max(finite))] if finite else ["never"]
    return " to ".join(dict.fromkeys(ends))


def listed(words: Iterable[object]) -> str:
    """ "a, b and c"."""
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last
