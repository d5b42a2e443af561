"""Several runs of one kind as one result."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from softmaxlab.core.result import Result, Status


def gather(results: Sequence[Result], labels: Sequence[Any], axis: str, names: Sequence[str]) -> Result:
    """The arrays `names` of runs on one grid of times, along a new first axis.

    A run that ended early is NaN from there on, and its status becomes the status of all, with its label.
    """
    longest = max(results, key=lambda result: len(result["loss"]))
    shared = {name: longest[name] for name in ("step", longest.axes["loss"][0]) if name in longest}
    stacked = {name: np.stack([padded(r[name], len(longest["loss"])) for r in results]) for name in names}
    axes = {name: longest.axes[name] for name in (*shared, *names)} | {axis: (axis,)}
    axes |= {name: (axis, *longest.axes[name]) for name in names}
    return Result(
        {axis: list(labels), **shared, **stacked}, axes, status_of(results, [f"{axis} {label}" for label in labels])
    )


def status_of(results: Sequence[Result], labels: Sequence[Any]) -> Status:
    """The first bad status, with its label; a good one if there is none."""
    for result, label in zip(results, labels):
        if not result.status.ok:
            return Status(result.status.outcome, f"{label}: {result.status.sentence}")
    return Status()


def padded(array: np.ndarray, length: int) -> np.ndarray:
    """Return an array of floats with NaN after its end, up to a length of the first axis."""
    missing = np.full((length - len(array), *array.shape[1:]), np.nan)
    return np.concatenate([array, missing])
