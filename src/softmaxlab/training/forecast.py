"""Forecast from the beginning of training which token becomes a head's sink, and when (accuracy: docs/studies).

A head is taken for a value-softmax model of its own map σ (polarization paper, Section 3): scores a over the keys,
drive u, weights w = σ(a), and

    ȧ = κ J(a)ᵀu under SGD,   ȧ = κ J(a)ᵀu · |J(a₀)ᵀu|/|J(a)ᵀu| under Adam, whose steps keep their size

from the a₀ whose weights are the measured ones, with the measured u, both averaged over the second half of what is
known, and the drive held there. Drive, speed and size |·| (root mean square) are those of the whole layer: its heads
answer to one loss, and the drive of a single one is mostly noise. The speed κ ≥ 0 stands for the optimizer. It fits, by
the first equation, the way of all scores in the first COHERENT steps, while the batches' gradients still point one way;
later, until a sink forms, scores wander more than they move.
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

POINTS = 500  # steps of Heun's method, at equal ratios of times
COHERENT = 20  # steps; twice the memory 1/(1 − β₁) of Adam's momentum
STUCK = 0.01  # the error of a weight from which on scores of 0 are not its scores
FLOOR = 1e-3  # of the first pull: the size below which steps shrink, as Adam's do at its ε
LEAST = 3  # recorded steps to fit the speed to
Track = dict[str, np.ndarray]  # step, and weight and drive [step, layer, head, key]


def forecast(run: Run | Result, at: float = 0.02) -> "pandas.DataFrame":
    """Forecast for each head the key with the largest share at the end, that share, the step it passes 0.9 at, and κ.

    `run` is a result with `track=("heads",)`, or a spec, whose first steps are then made. The step is infinite if the
    share does not pass 0.9 before the run would end. A head that gave no weight at a recorded step has token −1 and no
    share. Only what was recorded up to the fraction `at` of the steps is read.
    """
    import pandas

    spec = run if isinstance(run, Run) else getattr(run, "spec", None)
    if not isinstance(spec, Run):
        raise SpecError('forecast takes a Run, or the result of one with track=("heads",)')
    check_map(spec.map)
    if not 0 < at <= 1:
        raise SpecError(f"at must be above 0 and at most 1, got {at!r}")
    track = _beginning(run, int(at * spec.steps())) if isinstance(run, Run) else _recorded(run, at * spec.steps())
    if len(track["step"]) < LEAST:
        raise SpecError(f"at={at:g} leaves {len(track['step'])} recorded steps, at least {LEAST} are needed: raise at")
    layers = track["drive"].shape[1]
    return pandas.concat([_layer_forecast(track, spec, layer) for layer in range(layers)], ignore_index=True)


def check_map(name: str) -> None:
    """Refuse maps whose heads have no flow of their own that could be followed."""
    map = MAPS[name]
    if map.features is not None or map.joint or name == "uniform":
        raise SpecError(f"forecast needs a map of scores that heads do not share, got {name!r}")
    if not map.non_negative:
        raise SpecError(f"forecast needs weights that are not negative, of which there are shares, got {name!r}")


def _recorded(result: Result, last: float) -> Track:
    """The track of a result up to a step."""
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
    track = {name.removeprefix("track_"): np.asarray(values) for name, values, _ in heads.arrays()}
    return {name: track[name] for name in ("step", "weight", "drive")}


def _layer_forecast(track: Track, spec: Run, layer: int) -> "pandas.DataFrame":
    import pandas

    seen = spec.task.seen().any(axis=0)
    w, u = (track[name][:, layer][:, :, seen] for name in ("weight", "drive"))
    if not (np.isfinite(w).all() and np.isfinite(u).all()):
        raise SpecError(f"forecast needs finite weights and drives, layer {layer} has others")
    rows: list[dict] = [
        {"layer": layer, "head": head, "token": -1, "share": np.nan, "step": np.inf, "kappa": np.nan}
        for head in range(w.shape[1])
    ]
    alive = np.flatnonzero(w.sum(axis=-1).all(axis=0))
    if len(alive):
        step, w, u = track["step"].astype(float), w[:, alive], u[:, alive]
        a = np.reshape([_scores(spec.map, row) for row in w.reshape(-1, w.shape[-1])], w.shape)
        u = np.broadcast_to(u.mean(axis=1, keepdims=True), a.shape)
        first = step <= max(COHERENT, step[LEAST - 1])
        kappa = _speed(step[first], a[first], np.stack([_pull(spec.map, *now) for now in zip(a[first], u[first])]))
        late, passed = step >= step[-1] / 2, np.gradient(step)
        start, drive = (np.average(path[late], axis=0, weights=passed[late]) for path in (a, u))
        for head, (token, share, time) in zip(alive, _followed(spec, start, kappa * drive, step[-1])):
            token = int(np.flatnonzero(seen)[token]) if token >= 0 else -1
            rows[head] |= {"token": token, "share": share, "step": time, "kappa": kappa}
    return pandas.DataFrame(rows)


def _followed(spec: Run, a: np.ndarray, u: np.ndarray, since: float) -> list[tuple[int, float, float]]:
    """Return where the flow leads scores a [head, key] from a step to the end of the run, with drive κu.

    Of each head the token, its share, and the step of passing 0.9.
    """
    size = np.sqrt(np.mean(_pull(spec.map, a, u) ** 2))

    def velocity(a: np.ndarray) -> np.ndarray:
        pull = _pull(spec.map, a, u)
        return pull if spec.optimizer == "sgd" or size == 0 else pull / max(np.sqrt(np.mean(pull**2)) / size, FLOOR)

    times = np.geomspace(max(since, 1.0), spec.steps(), POINTS)
    path = [_weights(spec.map, a)]
    for passed in np.diff(times):
        ahead = velocity(a)
        a = a + passed * (ahead + velocity(a + passed * ahead)) / 2  # Heun: adaptive steps stall at the kinks of relu
        path.append(_weights(spec.map, a))
    return [_ending(times, share) for share in np.stack(path, axis=1)]


def _ending(times: np.ndarray, w: np.ndarray) -> tuple[int, float, float]:
    """The last token, share and step of the weights [time, key] of a head; token −1 if they end at 0."""
    total = w.sum(axis=1, keepdims=True)
    if not total[-1]:
        return -1, np.nan, np.inf
    share = np.divide(w, total, out=np.zeros_like(w), where=total != 0)
    token = int(share[-1].argmax())
    above = np.flatnonzero(share[:, token] > SINK)
    return token, float(share[-1, token]), float(times[above[0]]) if len(above) else np.inf


def _speed(step: np.ndarray, path: np.ndarray, velocity: np.ndarray) -> float:
    """The κ ≥ 0 for which κ∫velocity dt is nearest to the path's way from its start, in least squares."""
    middle = (velocity[1:] + velocity[:-1]) / 2 * np.diff(step)[:, None, None]
    way, moved = np.cumsum(middle, axis=0), path[1:] - path[0]
    return max(float((way * moved).sum() / (way**2).sum()), 0.0) if way.any() else 0.0


def _weights(map: str, a: np.ndarray) -> np.ndarray:
    """The weights of scores [..., key]."""
    import torch

    return weights(map, torch.from_numpy(a.reshape(-1, 1, a.shape[-1]))).numpy().reshape(a.shape)


def _pull(map: str, a: np.ndarray, u: np.ndarray) -> np.ndarray:
    """J(a)ᵀu of each head, [head, key]."""
    import torch

    scores = torch.from_numpy(a[:, None]).requires_grad_()
    return torch.autograd.grad(weights(map, scores), scores, torch.from_numpy(u[:, None]))[0][:, 0].numpy()


def _scores(map: str, w: np.ndarray) -> np.ndarray:
    """Scores whose weights are w, or nearest to w: an average over queries may have a total that no query has."""
    from scipy.optimize import least_squares

    if MAPS[map].row_stochastic:
        w = w / w.sum()  # an average over queries of different lengths
    fit = least_squares(lambda a: _weights(map, a) - w, np.zeros_like(w))
    if not fit.x.any() and np.abs(fit.fun).max() > STUCK:
        raise SpecError(f"forecast finds no scores for the weights of map {map!r}, whose slope at 0 is 0")
    return fit.x
