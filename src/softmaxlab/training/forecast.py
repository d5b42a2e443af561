"""Which token becomes a head's sink, and when, from the beginning of training.

A head is taken for a value-softmax model of its own map σ (polarization paper, Section 3): scores a over the keys,
drive u, weights w = σ(a), shares s = w/Σw, and

    ȧ = κ_a J(a)ᵀu,   u̇ = κ_u s

The state at a fraction `at` of training is measured: u, and the a whose weights are the measured ones. So are the two
speeds, which hold all that the model leaves out (the optimizer, other layers): κ_a fits the way of the scores so far,
κ_u that of the drive. The flow is then followed to the end of the run.
"""

from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.attention import MAPS, weights
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SpecError
from softmaxlab.measure.sinks import SINK
from softmaxlab.training.run import Run

if TYPE_CHECKING:
    import pandas

POINTS = 200  # times at which the forecast is looked at


def forecast(run: Run | Result, at: float = 0.02) -> "pandas.DataFrame":
    """Of each head: the key with the largest share at the end, that share, and the step at which it passes 0.9.

    `run` is a result with `track=("heads",)`, or a spec, which is then trained. The step is infinite if the share does
    not pass 0.9 before the run would end. Only what was recorded up to the fraction `at` of the steps is read.
    """
    import pandas

    result = _tracked(run)
    spec, steps = result.spec, result["track_step"]
    if not isinstance(spec, Run) or MAPS[spec.map].features is not None or MAPS[spec.map].joint:
        raise SpecError(f"forecast needs a map of scores that heads do not share, got {getattr(spec, 'map', spec)!r}")
    if not 0 < at <= 1:
        raise SpecError(f"at must be above 0 and at most 1, got {at!r}")
    total = spec.epochs * -(-spec.task.train // spec.batch)
    known = np.flatnonzero(steps <= at * total)
    if len(known) < 3:
        raise SpecError(f"at={at:g} of {total} steps leaves {len(known)} recorded ones, at least 3 are needed")
    layers, heads = result["track_share"].shape[1:3]
    rows = [
        {"layer": layer, "head": head} | _head_forecast(result, spec.map, layer, head, known, total)
        for layer in range(layers)
        for head in range(heads)
    ]
    return pandas.DataFrame(rows)


def _tracked(run: Run | Result) -> Result:
    result = simulate(run.replace(track=("heads",))) if isinstance(run, Run) else run
    if not isinstance(result, Result) or "track_drive" not in result:
        raise SpecError('forecast takes a Run, or the result of one with track=("heads",)')
    return result


def _head_forecast(result: Result, map: str, layer: int, head: int, known: np.ndarray, total: int) -> dict:
    from scipy.integrate import solve_ivp

    seen = result["track_share"][0, layer, head] != 0  # keys that some query which counts can see
    w, u = (result[f"track_{name}"][known, layer, head][:, seen] for name in ("weight", "drive"))
    step = result["track_step"][known].astype(float)
    a = np.stack([_scores(map, row) for row in w])
    pull = np.stack([_pull(map, *pair) for pair in zip(a, u)])
    share = w / w.sum(axis=1, keepdims=True)
    kappa_a, kappa_u = _speed(step, a, pull), _speed(step, u, share)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        a, u = np.split(state, 2)
        s = _weights(map, a)
        return np.concatenate([kappa_a * _pull(map, a, u), kappa_u * s / s.sum()])

    times = np.geomspace(max(step[-1], 1.0), total, POINTS)
    flow = solve_ivp(velocity, (times[0], total), np.concatenate([a[-1], u[-1]]), t_eval=times, method="LSODA")
    path = np.stack([_weights(map, state[: len(a[-1])]) for state in flow.y.T])
    path = path / path.sum(axis=1, keepdims=True)
    token = int(path[-1].argmax())
    above = np.flatnonzero(path[:, token] > SINK)
    return {
        "token": int(np.flatnonzero(seen)[token]),
        "share": float(path[-1, token]),
        "step": float(times[above[0]]) if len(above) else np.inf,
        "kappa_a": kappa_a,
        "kappa_u": kappa_u,
    }


def _speed(step: np.ndarray, path: np.ndarray, velocity: np.ndarray) -> float:
    """The κ for which κ∫velocity dt is nearest to the path's way from its start, in least squares."""
    middle = (velocity[1:] + velocity[:-1]) / 2 * np.diff(step)[:, None]
    way, moved = np.cumsum(middle, axis=0), path[1:] - path[0]
    return float((way * moved).sum() / (way**2).sum())


def _weights(map: str, a: np.ndarray) -> np.ndarray:
    import torch

    return weights(map, torch.from_numpy(a).view(1, 1, -1)).view(-1).numpy()


def _pull(map: str, a: np.ndarray, u: np.ndarray) -> np.ndarray:
    """J(a)ᵀu."""
    import torch

    scores = torch.from_numpy(a).requires_grad_()
    w = weights(map, scores.view(1, 1, -1)).view(-1)
    return torch.autograd.grad(w, scores, torch.from_numpy(u))[0].numpy()


def _scores(map: str, w: np.ndarray) -> np.ndarray:
    """Scores whose weights are w, those nearest to 0 where there are many."""
    from scipy.optimize import least_squares

    if MAPS[map].row_stochastic:
        w = w / w.sum()  # an average over queries of different lengths
    return least_squares(lambda a: _weights(map, a) - w, np.zeros_like(w)).x
