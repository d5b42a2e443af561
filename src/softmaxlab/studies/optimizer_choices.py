"""Winners under an optimizer: shares of right winners over learning rates, and where they cross one half.

The model and the starts are those of the protocol in docs/studies/optimizers.md: logistic loss, ‖β*‖ = 1, a(0) = 0,
V(0) ~ scale·N. A run is right if the largest weight at its end is on argmax u(0), and on no other token.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from softmaxlab.papers.polarization import problems
from softmaxlab.polarization import Descent, descend_many
from softmaxlab.studies.noise import noisy_ends

HORIZON = 10.0  # lr·steps of Adam: scores move by about lr a step
LEAST_STEPS = 1000
DESCENT_STEPS = 100_000  # of gradient descent and momentum, whose speed is not their lr
HALF = 0.5
LEAD = 1e-9  # of a winner over all others: where weight decay makes all weights equal, rounding picks the largest
HALF_DECADES = tuple((10.0 ** np.arange(-4.0, 0.01, 0.5)).tolist())


@dataclass(frozen=True)
class Setting:
    """Everything of a descent but its learning rate."""

    p: int
    scale: float
    eps: float = 1e-8
    optimizer: str = "adam"
    decay: float = 0.0
    noise: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999


def others(p: int, scale: float) -> dict[Setting, tuple[float, ...]]:
    """Other optimizers, weight decay and noise, each with its learning rates; AdamW without decay is Adam."""
    few: dict[str, tuple[float, ...]] = {"gd": (0.1, 1.0), "momentum": (0.01, 0.1)}
    settings = {Setting(p, scale, optimizer="adamw", decay=decay): HALF_DECADES for decay in (0.01, 0.1)}
    for optimizer in ("gd", "momentum", "adam"):
        lrs = few.get(optimizer, HALF_DECADES)
        settings |= {Setting(p, scale, optimizer=optimizer, decay=decay): lrs for decay in (0.0, 0.01, 0.1)}
        lrs = lrs[-1:] if optimizer in few else lrs
        settings |= {Setting(p, scale, optimizer=optimizer, noise=noise): lrs for noise in (0.1, 1.0)}
    return settings


def share(setting: Setting, lr: float, seeds: Sequence[int]) -> dict[str, Any]:
    """The row of a cell: the share of right runs, and the median of the largest weight; NaN if a run diverged."""
    ends = _ends(setting, lr, seeds)
    return asdict(setting) | {"lr": lr, "right": right_share(ends), "largest": np.median(ends.max(axis=1)),
                              "seeds": len(seeds)}  # fmt: skip


def right_share(ends: np.ndarray) -> float:
    """The share of last weights [seed, token] that are on token 0."""
    won = ends[:, 0] > ends[:, 1:].max(axis=1) + LEAD
    return float(np.where(np.isnan(ends).any(axis=1), np.nan, won).mean())


def _ends(setting: Setting, lr: float, seeds: Sequence[int]) -> np.ndarray:
    """The last weights [seed, token], tokens in the order of u(0)."""
    adaptive = setting.optimizer in ("adam", "adamw")
    steps = max(LEAST_STEPS, round(HORIZON / lr)) if adaptive else DESCENT_STEPS
    specs = [_descent(setting, lr, steps, seed) for seed in seeds]
    if setting.noise:
        return noisy_ends(specs, setting.noise, seeds)
    return np.array([run["weights"][-1] for run in descend_many(specs)])


def _descent(setting: Setting, lr: float, steps: int, seed: int) -> Descent:
    start = problems.classification(setting.p, seed)
    return Descent(
        **(start | {"V": start["V"] * (setting.scale / problems.SMALL)}),
        lr=lr,
        steps=steps,
        optimizer=setting.optimizer,  # type: ignore[arg-type]
        weight_decay=setting.decay,
        betas=(setting.beta1, setting.beta2),
        eps=setting.eps,
        points=2,
    )


def boundaries(lr: np.ndarray, right: np.ndarray) -> tuple[float, float] | None:
    """Return where the share of right runs falls through one half, and where it last rises through it again.

    By straight lines in log lr. NaN for a side on which it is below one half to the end of the grid; None if it nowhere
    is.
    """
    below = np.flatnonzero(right < HALF)
    if not len(below):
        return None
    first, last = below[0], below[-1]
    falls = _crossing(lr, right, first - 1, first) if first else np.nan
    rises = _crossing(lr, right, last, last + 1) if last + 1 < len(lr) else np.nan
    return falls, rises


def _crossing(lr: np.ndarray, right: np.ndarray, i: int, j: int) -> float:
    part = (right[i] - HALF) / (right[i] - right[j])
    return float(lr[i] * (lr[j] / lr[i]) ** part)
