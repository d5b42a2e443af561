"""Random small problems over all losses, maps and models."""

from typing import Any

import numpy as np

from softmaxlab.attention import MAPS
from softmaxlab.attention.compare import score_maps
from softmaxlab.polarization import Flow, Problem, names

MODELS = ("value", "tied", "matrix")
BUILT_IN = [name for name in score_maps() if not MAPS.fingerprint(name)]
# maps whose velocity jumps, so that the flow has events
KINKED = ("relu", "relu_norm", "abs", "abs_norm", "sparsemax", "linear_norm")
# maps with kinks that the flow knows no events for: it steps over them, slowly, or stops where a score sticks
STEPPED_OVER = ("softpick", "clipped_softmax")
FLOWING = [name for name in BUILT_IN if name not in STEPPED_OVER]
SMOOTH = [name for name in FLOWING if name not in KINKED]


def fields(loss: str, map: str, model: str, seed: int, p: int = 4, d: int = 3) -> dict[str, Any]:
    """The fields of a problem with p tokens and d features (d = p if tied)."""
    rng = np.random.default_rng(seed)
    d = p if model == "tied" else d
    given: dict[str, Any] = {"loss": loss, "map": map, "model": model} | _loss_data(loss, d, rng)
    positive = loss == "kl"  # which needs V s > 0 at the start
    scores = (p, p) if model == "matrix" else (p,)
    given["A" if model == "matrix" else "a"] = 1.0 + 0.3 * rng.standard_normal(scores)
    if model == "tied":
        given["U"] = 0.2 + rng.random((d, d)) if positive else np.eye(d) + 0.1 * rng.standard_normal((d, d))
    else:
        V = 0.2 + rng.random((d, p)) if positive else 0.5 * rng.standard_normal((d, p))
        given["V"] = V.T if model == "matrix" else V
    return given


def _loss_data(loss: str, d: int, rng: np.random.Generator) -> dict[str, Any]:
    if loss in ("logistic", "square"):
        return {"beta": rng.standard_normal(d)}
    if loss == "regression":
        return {"X": 0.7 * rng.standard_normal((5, d)), "beta": rng.standard_normal(5)}
    if loss == "dataset":
        return {"X": rng.standard_normal((5, d)), "target": rng.choice([-1.0, 1.0], size=5)}
    target = rng.random(d)
    return {"target": target / target.sum()}


def flow(loss: str, map: str, model: str, seed: int, t_end: float, **more: Any) -> Flow:
    shape = {name: more.pop(name) for name in ("p", "d") if name in more}
    return Flow(**fields(loss, map, model, seed, **shape), t_end=t_end, **more)


def problem(loss: str, map: str, model: str, seed: int) -> Problem:
    return Problem(**fields(loss, map, model, seed))


LOSSES = [name for name in names() if name in ("logistic", "square", "regression", "cross_entropy", "kl", "dataset")]


def figure_two(p: int = 8, b: float = 1.0, seed: int = 123, scale: float = 0.1) -> dict[str, Any]:
    """Fields like those of the paper's Figure 2: logistic, V ~ scale·N, a = 0, ‖β*‖² = b."""
    rng = np.random.default_rng(seed)
    beta = rng.standard_normal(p)
    beta *= np.sqrt(b) / np.linalg.norm(beta)
    return {"loss": "logistic", "beta": beta, "V": scale * rng.standard_normal((p, p)), "a": np.zeros(p)}
