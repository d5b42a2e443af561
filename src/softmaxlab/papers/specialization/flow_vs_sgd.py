"""Flow (lines) against SGD (dots): loss, alignment with two spikes, overlaps.

The flow starts where SGD starts: at its m, r and, with exact p, at its overlaps of the spikes, p_12 ~ D^{−1/2}. It
leaves out the noise of batches, which raises SGD's q by about γD/N_b (flow.py).

    difference = max over τ and entries of |m − m_SGD|, |q − q_SGD|
    separation(τ) = max_h m_h2 − min_h m_h2;   visible from VISIBLE on, half from half of its last value on
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather, status_of
from softmaxlab.papers.specialization.head_paths import NOTHING, kinds_of, listed
from softmaxlab.plotting import specialization as curves
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import CALLED, THREE, MapName
from softmaxlab.specialization import SGD, Flow, Prior, SingleLocation, flow_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VISIBLE = 0.2
DOTS = 41  # at most, of SGD in a panel
GATHERED = ("m", "q", "loss")
Strength = Annotated[float, Field(ge=0, le=1e6)]


class FlowAgainstSGD(FigureSpec):
    """Base of the figures of this kind: a leaf names its prior. `samples` counts the flow's base points."""

    source: ClassVar[str] = "sagitova2026specialization"

    maps: Annotated[tuple[MapName, ...], Field(min_length=1, max_length=3)] = THREE
    nu: tuple[Strength, Strength] = (2.0, 2.0)
    length: Annotated[int, Field(ge=2, le=1000)] = 5
    heads: Annotated[int, Field(ge=1, le=100)] = 2
    eta: Annotated[float, Field(gt=0)] = 1.0
    dim: Annotated[int, Field(ge=10, le=10**12)] = 10_000
    batch: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    lr: Annotated[float, Field(gt=0)] = 0.02
    tau_end: Annotated[float, Field(gt=0)] = 200.0
    points: Annotated[int, Field(ge=10, le=10_000)] = 201
    samples: Annotated[int, Field(ge=64, le=2**20)] = 2**16
    seed: Seed = 1

    def prior(self) -> Prior:
        raise NotImplementedError

    def _run(self, device: str) -> Result:
        specs = [self.sgd(map) for map in self.maps]
        runs = [simulate(spec) for spec in specs]
        flows = flow_many(self.flow(*pair, kind) for kind in ("exact", "orthogonal") for pair in zip(specs, runs))
        kinds = {"sgd": runs, "exact_p": flows[: len(runs)], "orthogonal": flows[len(runs) :]}
        families = {kind: gather(results, self.maps, "map", GATHERED) for kind, results in kinds.items()}
        errors = gather(kinds["exact_p"], self.maps, "map", ("loss_error",))
        arrays: dict[str, Any] = {name: errors[name] for name in ("map", "tau", "loss_error")}
        axes: dict[str, tuple[str, ...]] = {name: errors.axes[name] for name in arrays}
        for kind, family in families.items():
            arrays |= {f"{kind}_{name}": _as_long(family[name], len(arrays["tau"])) for name in GATHERED}
            axes |= {f"{kind}_{name}": family.axes[name] for name in GATHERED}
        numbers = _compared(arrays) | {"certificate": kinds_of(kinds["exact_p"])}
        axes |= {name: ("map",) for name in numbers}
        settings = {"dim": self.dim, "batch": self.batch, "lr": self.lr}
        return Result({**arrays, **numbers, **settings}, axes, status_of(list(families.values()), list(families)))

    def sgd(self, map: MapName) -> SGD:
        model = SingleLocation(prior=self.prior(), length=self.length, heads=self.heads, map=map)
        steps: dict[str, Any] = {"lr": self.lr, "tau_end": self.tau_end, "points": self.points}
        return SGD(model=model, dim=self.dim, batch=self.batch, eta=self.eta, seed=self.seed, **steps)

    def flow(self, sgd: SGD, run: Result, spikes: Literal["exact", "orthogonal"]) -> Flow:
        """The flow from where a run of SGD began, recorded at the same times."""
        times = tuple(step * sgd.lr for step in sgd.recorded_steps())
        settings: dict[str, Any] = {"start": run, "tau_end": times[-1], "record": times}
        return Flow(model=sgd.model, spikes=spikes, samples=self.samples, seed=self.seed, **settings)

    @staticmethod
    def draw(result: Result) -> "Figure":
        return draw_against(result)


def agreement(result: Result) -> str:
    """The distance between flow and SGD in m and q, in parts of SGD's largest m or q: the worse of the two."""
    exact, orthogonal = (
        [_apart(result, kind, i) for i in range(len(result["map"]))] for kind in ("exact_p", "orthogonal")
    )
    if not np.isfinite(exact).any():
        return NOTHING
    rows = zip(result["map"], exact, orthogonal)
    maps = listed(f"{_part(x)} for {CALLED[str(map)]} ({_part(y)})" for map, x, y in rows)
    return f"Flow with exact p (with p = I) and SGD differ at most by {maps}, in parts of SGD's largest m or q."


def _apart(result: Result, kind: str, i: int) -> float:
    parts = []
    for name in ("m", "q"):
        flow, sgd = result[f"{kind}_{name}"][i], result[f"sgd_{name}"][i]
        known = np.isfinite(flow) & np.isfinite(sgd)
        scale = float(np.abs(sgd[known]).max(initial=0.0))
        parts.append(float(np.abs(flow[known] - sgd[known]).max()) / scale if scale > 0 else np.nan)
    return float(np.max(parts))


def _part(value: float) -> str:
    return f"{value:.1%}" if np.isfinite(value) else "nothing finite"


def separation(m: np.ndarray) -> np.ndarray:
    """The distance of the heads along the second spike, from m [..., head, feature]."""
    return np.ptp(m[..., 1], axis=-1)


def first_time(tau: np.ndarray, values: np.ndarray, level: float) -> float:
    """Return when `values` first reach a level; NaN if they never do."""
    return float(tau[np.argmax(values >= level)]) if (values >= level).any() else np.nan


def _compared(arrays: dict[str, Any]) -> dict[str, list[float]]:
    """Differences of SGD and flow for each map, and when the heads of SGD separate."""

    def largest(kind: str, names: tuple[str, ...], i: int) -> float:
        return max(float(np.nanmax(np.abs(arrays[f"{kind}_{name}"][i] - arrays[f"sgd_{name}"][i]))) for name in names)

    maps, tau = range(len(arrays["map"])), arrays["tau"]
    apart = [separation(m) for m in arrays["sgd_m"]]
    return {
        "difference": [largest("orthogonal", ("m", "q"), i) for i in maps],
        "difference_exact_p": [largest("exact_p", ("m", "q"), i) for i in maps],
        "difference_loss": [largest("exact_p", ("loss",), i) for i in maps],
        "visible": [first_time(tau, values, VISIBLE) for values in apart],
        "half": [first_time(tau, values, np.nanmax(values) / 2) for values in apart],
    }


def _as_long(array: np.ndarray, length: int) -> np.ndarray:
    """NaN after the end of runs that have all ended early."""
    missing = length - array.shape[1]
    return np.pad(array, [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)], constant_values=np.nan)


def draw_against(result: Result) -> "Figure":
    """A row for each map: loss, m_h1, m_h2, q."""
    from matplotlib.figure import Figure

    rows = len(result["map"])
    figure = Figure(figsize=(14, 2.9 * rows + 1.1), layout="constrained")
    grid = figure.subplots(rows, 4, squeeze=False, sharex=True)
    for i, row in enumerate(grid):
        _draw_row(row, result, i)
    for ax in grid[-1]:
        ax.set_xlabel("τ", fontsize=9)
    handles, names = grid[0, -1].get_legend_handles_labels()
    keys = dict(zip(names, handles))
    figure.legend(
        list(keys.values()), list(keys), loc="outside lower center", ncols=len(keys), fontsize=8, frameon=False
    )
    spec = result.spec
    title = spec.title if isinstance(spec, FigureSpec) else "Flow against SGD"
    noise = f"γD/$N_b$ = {result['lr'] * result['dim'] / result['batch']:g}"
    how = f"SGD: D = {result['dim']:g}, batch {result['batch']:g}, learning rate {result['lr']:g}, {noise}"
    end = "" if result.status.ok else f"\n{result.status}"
    figure.suptitle(f"{title}\n{how}{end}", fontsize=11)
    return figure


def _draw_row(row: Any, result: Result, i: int) -> None:
    loss, first, second, overlaps = row
    tau, every = result["tau"], -(-len(result["tau"]) // DOTS)
    looks = {
        "orthogonal": {"ls": ":", "lw": 1.0, "label": "flow, p = I"},
        "exact_p": {"ls": "-", "lw": 1.6, "label": "flow, exact p"},
        "sgd": {"ls": "none", "marker": "o", "ms": 3, "mfc": "none", "mew": 0.8, "label": "SGD"},
    }
    for kind, look in looks.items():
        dots = slice(None, None, every if kind == "sgd" else 1)
        m, q = (result[f"{kind}_{name}"][i, dots] for name in ("m", "q"))
        error = result["loss_error"][i] if kind == "exact_p" else None
        curves.draw_loss(loss, tau[dots], result[f"{kind}_loss"][i, dots], error, **look)
        for f, ax in enumerate((first, second)):
            curves.draw_of_heads(ax, tau[dots], m[:, :, f], **look)
        curves.draw_overlaps(overlaps, tau[dots], q, **look)
    within = f"flow within {result['difference_exact_p'][i]:.3f} of SGD (p = I: {result['difference'][i]:.3f})"
    visible, half = result["visible"][i], result["half"][i]
    apart = f"heads separate: visible at τ = {visible:.0f}"
    if half > visible:  # else they have only begun to, and half of that means nothing
        apart += f", half at {half:.0f}"
    apart = apart if np.isfinite(visible) else f"no separation along this one by τ = {tau[-1]:.0f}"
    label(loss, "", "loss", f"{CALLED[str(result['map'][i])]}: {result['certificate'][i]} at τ = {tau[-1]:.3g}")
    label(first, "", curves.feature_name(0))
    label(second, "", curves.feature_name(1), apart)
    label(overlaps, "", "$q_{hh'}$", within)
