"""The time at which the sink forms, for every head of the second layer through training."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization.figures.fig01 import MapName
from softmaxlab.plotting.lines import draw_lines, label
from softmaxlab.training import Induction, Run

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

# array, what is shown of it, its label
ROWS = (
    ("sink_score", "sink score"),
    ("entropy", "entropy [nats]"),
    ("lead", "$u_0$ − mean of other $u_j$"),
    ("rate", "$s_0(u_0 − m)$"),
)


class SinkTime(FigureSpec):
    """Sink score, entropy, the drive's preference for BOS and the flow's rate, at log-spaced steps."""

    id: ClassVar[str] = "polarization/sinktime"
    title: ClassVar[str] = "When the sink forms: heads of the second layer through training"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "ours"
    reports: ClassVar[str] = "The values choose the token within some steps; with a normaliser it then becomes a sink"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"epochs": 1, "maps": ("softmax", "sigmoid")}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "40 s", "paper": "10 min"}

    maps: Annotated[tuple[MapName, ...], Field(min_length=1, max_length=6)] = (
        "softmax",
        "sigmoid_norm",
        "sigmoid",
        "softmax1",
    )
    heads: Annotated[int, Field(ge=1, le=8)] = 4
    lr: Annotated[float, Field(gt=0)] = 1e-3
    epochs: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        base = Run(task=Induction(), track=("heads",), **self._fields())
        runs = [simulate(base.replace(map=map), device=device) for map in self.maps]
        status = status_of(runs, self.maps)
        steps = min((run["track_step"] for run in runs), key=len)  # a run that diverged is shorter
        parts = [_second_layer(run, len(steps)) for run in runs]
        arrays: dict[str, Any] = {name: np.stack([part[name] for part in parts]) for name, _ in ROWS}
        axes = {name: ("map", "step", "head") for name in arrays}
        arrays |= {"map": list(self.maps), "step": steps}
        return Result(arrays, axes | {"map": ("map",), "step": ("step",)}, status, self._fields())

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("heads", "lr", "epochs", "seed")}

    @staticmethod
    def seen(result: Result) -> str:
        """Say for each map from which step on the values of all heads prefer BOS, and half of the heads are sinks."""
        steps, formed = result["step"], np.median(result["sink_score"], axis=2) > SINK
        times = [
            (str(name), *_formation((lead > 0).all(axis=1), above))
            for name, lead, above in zip(result["map"], result["lead"], formed)
        ]
        told = ", ".join(f"{name} {_step(steps, led)} / {_step(steps, sink)}" for name, led, sink in times)
        sinks = [(led, sink) for _, led, sink in times if sink is not None]
        later = sum(led is not None and led < sink for led, sink in sinks)
        verdict = f"the values come first in {later} of {len(sinks)} maps with sinks" if sinks else "no map has sinks"
        return f"Steps from which the values of all heads prefer BOS / half of the heads are sinks: {told}; {verdict}."

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        columns = len(result["map"])
        picture = Figure(figsize=(3.7 * columns + 0.4, 8.2), layout="constrained")
        grid = picture.subplots(len(ROWS), columns, sharex=True, sharey="row", squeeze=False)
        heads = [f"head {h}" for h in range(result["rate"].shape[2])]
        for i, map in enumerate(result["map"]):
            for ax, (name, words) in zip(grid[:, i], ROWS):
                draw_lines(ax, result["step"], result[name][i].T, heads)
                label(ax, "", words if i == 0 else "", str(map) if name == ROWS[0][0] else "")
                ax.set_xscale("symlog", linthresh=1)
            _mark_formation(grid[0, i], result["step"], result["sink_score"][i])
            grid[-1, i].set_xlabel("step", fontsize=9)
        grid[0, 0].legend(fontsize=7, frameon=False)
        lr, epochs = result.notes["lr"], result.notes["epochs"]
        picture.suptitle(f"{SinkTime.title}\n(induction, λ = 0.2, lr {lr:g}, {epochs} epochs at most)", fontsize=10)
        return picture


def _formation(leads: np.ndarray, formed: np.ndarray) -> tuple[int | None, int | None]:
    """Return the steps between which BOS leads and no sink has formed, and the step at which it forms."""
    sink = int(formed.argmax()) if formed.any() else None
    before = leads[: len(leads) if sink is None else sink + 1]
    wrong = np.flatnonzero(~before)
    led = int(wrong[-1]) + 1 if len(wrong) else 0
    return (led if led < len(before) else None), sink


def _step(steps: np.ndarray, at: int | None) -> str:
    return "never" if at is None else str(steps[at])


def _second_layer(run: Result, length: int) -> dict[str, np.ndarray]:
    """[step, head] of the second layer; the drive's lead is that of BOS over the other keys that are seen."""
    drive = run["track_drive"][:length, 1]
    seen = Induction().seen().any(axis=0)
    return {
        "sink_score": run["track_sink_score"][:length, 1],
        "entropy": run["track_entropy"][:length, 1],
        "lead": drive[..., 0] - drive[..., seen][..., 1:].mean(axis=-1),
        "rate": run["track_rate"][:length, 1, :, 0],
    }


def _mark_formation(ax: "Axes", step: np.ndarray, score: np.ndarray) -> None:
    """The threshold, and the step at which the median head passes it, if it does."""
    ax.axhline(SINK, color="0.4", lw=0.8, ls="--")
    ax.set_ylim(-0.03, 1.05)
    above = np.flatnonzero(np.median(score, axis=1) > SINK)
    if len(above):
        ax.annotate(f"half of the heads\nfrom step {step[above[0]]}", (step[above[0]], SINK), (-6, -8), ha="right",
                    va="top", textcoords="offset points", fontsize=7)  # fmt: skip
