"""Figure 7: how sparse the heads of language models are, by attention map.

The paper compares two models of 7 billion parameters, trained alike with softmax and with sigmoid, on the Pile; neither
can be had here. Drawn instead, and not the same: (a) an intervention, one pretrained model (SmolLM2, 135 million
parameters) with its softmax and with other maps put in its place, with which it was not trained: no evidence for or
against the paper's claim; (b) small models that we train on the same text, equal but for the map and the seed.
`heads` may name any heads.csv that `softmaxlab probe MODEL --out FOLDER` wrote, of one model, of a model and its swaps,
or of models that were compared: each table is a panel. A column `seed` tells runs of one map apart, which are paired.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.attention import MAPS
from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization.runs import TABLES
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

PANELS = {
    "smollm2": "(a) intervention, no evidence: SmolLM2-135M,\nuntrained maps put in place of its softmax",
    "small": "(b) small models, each trained with its map",
}
INTERVENTIONS = ("smollm2",)  # panels of maps that a model was not trained with
COLUMNS = ["layer", "head", "sparsity", "sink"]
BINS = 25


class Fig07(FigureSpec):
    """Distribution of the heads' sparsity, the largest weight of a row over the row's total."""

    id: ClassVar[str] = "polarization/fig07"
    title: ClassVar[str] = "How sparse heads are: softmax against sigmoid"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 7"
    reports: ClassVar[str] = "Softmax models have sparser heads than sigmoid models"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s"}

    heads: Annotated[tuple[str, ...], Field(min_length=1, max_length=4)] = tuple(PANELS)
    digest: str = ""

    @model_validator(mode="before")
    @classmethod
    def _fill_digest(cls, fields: Any) -> Any:
        """Add the digest of the tables as they are now, unless the spec has one."""
        names = fields.get("heads", tuple(PANELS)) if isinstance(fields, dict) else ()
        if not names or fields.get("digest") or not all(isinstance(name, str) for name in names):
            return fields
        return fields | {"digest": _digest([_read(name) for name in names])}

    def replace(self, /, **changes: Any) -> "Fig07":
        """Return a copy with some fields changed; other tables have another digest."""
        return super().replace(**({"digest": ""} | changes if "heads" in changes else changes))

    def _run(self, device: str) -> Result:
        tables = [_read(name) for name in self.heads]
        if _digest(tables) != self.digest:
            raise SpecError("the tables of heads have changed since this spec was made: leave its digest out")
        models = [
            (i, str(name), seed, part)
            for i, table in enumerate(tables)
            for (name, seed), part in table.groupby(["subject", "seed"], sort=False)  # type: ignore[misc]
        ]
        shape = len(models), max(len(part) for *_, part in models)
        sparsity, sink = np.full(shape, np.nan), np.full(shape, np.nan)  # NaN: a model with fewer heads
        for row, (*_, part) in enumerate(models):
            sparsity[row, : len(part)], sink[row, : len(part)] = part["sparsity"], part["sink"]
        arrays = {
            "sparsity": sparsity,
            "sink": sink,
            "model": [name for _, name, *_ in models],
            "seed": [int(seed) for *_, seed, _ in models],
            "panel": [self.heads[i] for i, *_ in models],
        }
        axes = {name: ("model", "head") if name in ("sparsity", "sink") else ("model",) for name in arrays}
        return Result(arrays, axes)

    @staticmethod
    def seen(result: Result) -> str:
        """Say in how many pairs of trained models, alike but for the map, softmax is the sparser one."""
        pairs = []
        for panel, seed in dict.fromkeys(zip(result["panel"].tolist(), result["seed"].tolist())):
            if panel in INTERVENTIONS:
                continue
            rows = np.flatnonzero((result["panel"] == panel) & (result["seed"] == seed))
            pairs += _softmax_and_sigmoid({str(result["model"][i]): _mean(result["sparsity"][i]) for i in rows})
        if not pairs:
            return "Nothing can be compared: no panel has both a softmax and a sigmoid model that was trained so."
        sparser = sum(softmax > sigmoid for softmax, sigmoid in pairs)
        parts = "; ".join(f"{softmax:.2f} against {sigmoid:.2f}" for softmax, sigmoid in pairs)
        return (
            f"The heads under softmax are sparser than those under sigmoid in {sparser} of {len(pairs)} pairs of"
            f" trained models (mean sparsity {parts}), other ones than the paper's; maps put into a model that was"
            " trained with softmax are not counted."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        panels = list(dict.fromkeys(str(name) for name in result["panel"]))
        picture = Figure(figsize=(5.2 * len(panels) + 0.4, 3.9), layout="constrained")
        for ax, panel in zip(picture.subplots(1, len(panels), squeeze=False).flat, panels):
            names = dict.fromkeys(str(name) for name in result["model"][result["panel"] == panel])
            of_panel = {name: (result["panel"] == panel) & (result["model"] == name) for name in names}
            _histogram(ax, {name: result["sparsity"][rows] for name, rows in of_panel.items()})
            title = PANELS.get(panel, Path(panel).parent.name)
            if panel in PANELS and panel not in INTERVENTIONS:
                seeds = len(set(result["seed"][result["panel"] == panel].tolist()))
                title += ", one seed" if seeds == 1 else f", {seeds} seeds"
            label(ax, "sparsity of a head: mean of max $w$ / $\\sum w$", "share of heads", title)
        other = "" if set(panels) <= set(PANELS) else "other tables; "
        picture.suptitle(f"{Fig07.title}\n({other}not the paper's models of 7 billion parameters)", fontsize=11)
        return picture


def _softmax_and_sigmoid(means: dict[str, float]) -> list[tuple[float, float]]:
    """Both means, if a panel has both: its first model has softmax, unless it is named after another map."""
    named = {Path(name).name: value for name, value in means.items()}
    first = next(iter(named))
    softmax = named.get("softmax", np.nan if first.partition(":")[0] in MAPS else named[first])
    sigmoid = next((value for name, value in named.items() if name.partition(":")[0] == "sigmoid"), np.nan)
    return [(softmax, sigmoid)] if np.isfinite([softmax, sigmoid]).all() else []


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _histogram(ax: "Axes", models: dict[str, np.ndarray]) -> None:
    """Draw the heads of each map together, sparsity [seed, head], and the mean of each seed."""
    edges = np.linspace(0, 1, BINS + 1)
    for i, (name, sparsity) in enumerate(models.items()):
        values = sparsity[np.isfinite(sparsity)]
        shares = np.histogram(values, edges)[0] / len(values)
        seeds = f" of {len(sparsity)} seeds" if len(sparsity) > 1 else ""
        text = f"{Path(name).name}: {len(values)} heads{seeds}, mean {values.mean():.2f}"
        ax.stairs(shares, edges, color=COLOURS[i % len(COLOURS)], lw=1.6, label=text)
        for of_seed in sparsity:
            ax.axvline(_mean(of_seed), color=COLOURS[i % len(COLOURS)], lw=1, ls=":")
    ax.set_xlim(0, 1)
    ax.legend(fontsize=8, title="dotted: mean of a model", title_fontsize=8)


def _read(name: str) -> "pandas.DataFrame":
    """Return a table with the columns that are drawn, a subject and a seed."""
    import pandas

    path = TABLES / f"heads-{name}.csv" if name in PANELS else Path(name)
    if not path.is_file():
        told = f"heads must be {' or '.join(PANELS)}, or the path of a heads.csv that softmaxlab probe --out wrote"
        raise SpecError(f"{told}, got {name!r}")
    table = pandas.read_csv(path)
    if missing := set(COLUMNS) - set(table.columns):
        raise SpecError(f"heads {name!r} is no table of heads: it lacks {', '.join(sorted(missing))}")
    if "subject" not in table:
        table["subject"] = path.parent.name
    if "seed" not in table:
        table["seed"] = 0
    return pandas.DataFrame(table[["subject", "seed", *COLUMNS]])


def _digest(tables: list["pandas.DataFrame"]) -> str:
    text = "".join(table.to_csv(index=False) for table in tables)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
