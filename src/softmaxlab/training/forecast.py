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
from softmaxlab.errors import SpecError
from softmaxlab.measure.sinks import SINK
from softmaxlab.training.run import Run

if TYPE_CHECKING:
    import pandas

POINTS = 200  # times at which the forecast is looked at
LEAST = 3  # recorded steps to fit the speeds to
Track = dict[str, np.ndarray]  # step, and weight and drive [step, layer, head, key]


def forecast(run: Run | Result, at: float = 0.02) -> "pandas.DataFrame":
    """Of each head: the key with the largest share at the end, that share, and the step at which it passes 0.9.

    `run` is a result with `track=("heads",)`, or a spec, whose first steps are then made. The step is infinite if the
    share does not pass 0.9 before the run would end. A head that gave no weight at a recorded step has token −1 and no
    share. Only what was recorded up to the fraction `at` of the steps is read. An experiment: see docs/training.md for
    how often it is right.
    """
    import pandas

    spec = run if isinstance(run, Run) else getattr(run, "spec", None)
    if not isinstance(spec, Run):
        raise SpecError('forecast takes a Run, or the result of one with track=("heads",)')
    if MAPS[spec.map].features is not None or MAPS[spec.map].joint or spec.map == "uniform":
        raise SpecError(f"forecast needs a map of scores that heads do not share, got {spec.map!r}")
    if not 0 < at <= 1:
        raise SpecError(f"at must be above 0 and at most 1, got {at!r}")
    track = _beginning(run, int(at * spec.steps())) if isinstance(run, Run) else _recorded(run, at * spec.steps())
    if len(track["step"]) < LEAST:
        raise SpecError(f"at={at:g} leaves {len(track['step'])} recorded steps, at least {LEAST} are needed")
    layers, heads = track["drive"].shape[1:3]
    rows = [
        {"layer": layer, "head": head} | _head_forecast(track, spec, layer, head)
        for layer in range(layers)
        for head in range(heads)
    ]
    return pandas.DataFrame(rows)


def _recorded(result: Result, last: float) -> Track:
    """What a result has up to a step."""
    if "track_drive" not in result:
        raise SpecError('forecast takes a Run, or the result of one with track=("heads",)')
    known = result["track_step"] <= last
    return {name: result[f"track_{name}"][known] for name in ("step", "weight", "drive")}


def _beginning(spec: Run, last: int) -> Track:
    """The first steps of a run, made now."""
    from itertools import islice

    from softmaxlab.training import loop
    from softmaxlab.training.run import build, optimizer_of
    from softmaxlab.training.tracking import HeadTrack

    model, data = build(spec), spec.task.data(spec.seed, "train")
    heads = HeadTrack(spec.task, model, spec.task.data(spec.seed, "evaluate"), spec.steps())
    heads.after(0)
    order = loop.batches(len(data.tokens), spec.batch, spec.epochs, spec.seed, "cpu")
    steps = loop.train(model, data, optimizer_of(spec, model), order, spec.task.weight_elsewhere())
    for step in islice(steps, last):
        heads.after(step.number)
    found = {name.removeprefix("track_"): np.asarray(values) for name, values, _ in heads.arrays()}
    return {name: found[name] for name in ("step", "weight", "drive")}


def _head_forecast(track: Track, spec: Run, layer: int, head: int) -> dict:
    from scipy.integrate import solve_ivp

    seen = spec.task.seen().any(axis=0)
    w, u = (track[name][:, layer, head][:, seen] for name in ("weight", "drive"))
    if not (np.isfinite(w).all() and np.isfinite(u).all()):
        raise SpecError(f"forecast needs finite weights and drives, head {head} of layer {layer} has others")
    if (w.sum(axis=1) == 0).any():
        return {"token": -1, "share": np.nan, "step": np.inf, "kappa_a": np.nan, "kappa_u": np.nan}
    step, map, total = track["step"].astype(float), spec.map, spec.steps()
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
    if not flow.success:
        raise SpecError(f"the flow of head {head} of layer {layer} cannot be followed: {flow.message}")
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
    """The κ for which κ∫velocity dt is nearest to the path's way from its start, in least squares; 0 without a pull."""
    middle = (velocity[1:] + velocity[:-1]) / 2 * np.diff(step)[:, None]
    way, moved = np.cumsum(middle, axis=0), path[1:] - path[0]
    return float((way * moved).sum() / (way**2).sum()) if way.any() else 0.0


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
