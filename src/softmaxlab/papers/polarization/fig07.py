"""Figure 7: how sparse the heads of language models are, by attention map.

The paper compares two models of 7 billion parameters, trained with softmax and with sigmoid, which cannot be had here.
Drawn instead, and not the same: (a) one pretrained model (SmolLM2, 135 million parameters) with its softmax and with
other maps put in its place, which was not trained with them; (b) small models that we train on the same text, equal but
for the map. `heads` may name other tables that `softmaxlab probe MODEL --out FOLDER` wrote: any two models.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.lines import label
from softmaxlab.papers.polarization.runs import TABLES
from softmaxlab.papers.style import COLOURS

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

PANELS = {
    "smollm2": "(a) SmolLM2, maps put in place of softmax",
    "small": "(b) trained with the map, 4 layers × 4 heads",
}
COMMITTED = tuple(f"{panel}-{map}" for panel in PANELS for map in ("softmax", "sigmoid", "softmax1"))
BINS = 25


class Fig07(FigureSpec):
    """Distribution of the heads' sparsity, the largest weight of a row over the row's total."""

    id: ClassVar[str] = "polarization/fig07"
    title: ClassVar[str] = "How sparse heads are: softmax against sigmoid"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 7"
    reports: ClassVar[str] = "Softmax models have sparser heads than sigmoid models"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s (training the small models: 20 min)"}

    heads: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)] = COMMITTED
    digest: str = ""

    @model_validator(mode="before")
    @classmethod
    def _fill_digest(cls, fields: Any) -> Any:
        """What the tables hold now, unless the spec says what it was made for."""
        names = fields.get("heads", COMMITTED) if isinstance(fields, dict) else ()
        if not names or fields.get("digest") or not all(isinstance(name, str) for name in names):
            return fields
        return fields | {"digest": _digest([_read(name) for name in names])}

    def replace(self, /, **changes: Any) -> "Fig07":
        """As of any spec; other tables have another digest."""
        return super().replace(**({"digest": ""} | changes if "heads" in changes else changes))

    def _run(self, device: str) -> Result:
        tables = [_read(name) for name in self.heads]
        if _digest(tables) != self.digest:
            raise SpecError("the tables of heads have changed since this spec was made: leave its digest out")
        widest = max(map(len, tables))
        sparsity, sink = (np.full((len(tables), widest), np.nan) for _ in range(2))
        for i, table in enumerate(tables):
            sparsity[i, : len(table)], sink[i, : len(table)] = table["sparsity"], table["sink"]
        arrays = {"sparsity": sparsity, "sink": sink, "model": list(self.heads)}
        return Result(arrays, {"sparsity": ("model", "head"), "sink": ("model", "head"), "model": ("model",)})

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        names = [str(name) for name in result["model"]]
        panels = {panel: [i for i, name in enumerate(names) if _panel(name) == panel] for panel in map(_panel, names)}
        picture = Figure(figsize=(5.2 * len(panels) + 0.4, 3.9), layout="constrained")
        for ax, (panel, members) in zip(np.ravel(picture.subplots(1, len(panels), squeeze=False)), panels.items()):
            _histogram(ax, [(names[i], result["sparsity"][i]) for i in members])
            label(ax, "sparsity of a head: mean of max $w$ / $\\sum w$", "share of heads", PANELS.get(panel, panel))
        picture.suptitle(f"{Fig07.title}\n(not the paper's 7-billion-parameter models)", fontsize=11)
        return picture


def _histogram(ax: "Axes", models: list[tuple[str, np.ndarray]]) -> None:
    edges = np.linspace(0, 1, BINS + 1)
    for i, (name, sparsity) in enumerate(models):
        values = sparsity[np.isfinite(sparsity)]
        text = f"{name.removeprefix(_panel(name) + '-')}, {len(values)} heads, mean {values.mean():.2f}"
        shares = np.histogram(values, edges)[0] / len(values)
        ax.stairs(shares, edges, color=COLOURS[i], lw=1.6, label=text)
        ax.axvline(values.mean(), color=COLOURS[i], lw=1, ls=":")
    ax.set_xlim(0, 1)
    ax.legend(fontsize=8, title="dotted: mean", title_fontsize=8)


def _panel(name: str) -> str:
    """Of a committed table, the part before the map; other tables share one panel."""
    return name.split("-")[0] if name in COMMITTED else "heads"


def _read(name: str) -> "pandas.DataFrame":
    import pandas

    path = TABLES / f"heads-{name}.csv" if name in COMMITTED else Path(name)
    if not path.is_file():
        raise SpecError(
            f"heads must name tables that softmaxlab probe --out wrote (heads.csv), got {name!r}: no such file"
        )
    table = pandas.read_csv(path)
    if missing := {"layer", "head", "sparsity", "sink"} - set(table.columns):
        raise SpecError(f"{path} is no table of heads: it lacks {', '.join(sorted(missing))}")
    return table


def _digest(tables: list["pandas.DataFrame"]) -> str:
    text = "".join(table[["layer", "head", "sparsity", "sink"]].to_csv(index=False) for table in tables)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
