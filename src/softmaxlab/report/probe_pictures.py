"""Pictures of a probe. Colours can be told apart by all readers; where there are several subjects, dashes help."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.plotting.journal import COLOURS, save
from softmaxlab.plotting.lines import DASHES, label
from softmaxlab.probing.conclusions import MASSIVE, MASSIVE_RATIO
from softmaxlab.report.probe_record import Record, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = np.linspace(0.0, 1.0, 26).tolist()  # of the sparsity histogram
MAPS_PER_ROW = 3
PANELS = 4  # subjects beside each other
LINES = 6  # subjects in one pair of axes; more cannot be told apart
HEAT = "viridis"
TALLEST = 9.0  # inches
MASSIVE_LINE = f"massive above max({MASSIVE:g}, {MASSIVE_RATIO:g} × median)"
CAPTIONS = {
    "sink": "Mean weight of each head on the first token; dots mark the heads above ε.",
    "sparsity": "Share of a row's weight on its largest key, mean over queries (the polarization paper's Figure 7).",
    "entropy": "Entropy of the weights in nats, mean over heads; the band holds all heads.",
    "activations": "Largest and median |h| after each layer; a largest above the dashed line is called massive.",
    "profile": "Mean weight on a key by its position from 0, over the queries that see it; the last only by near ones.",
    "attention": "Attention weights of chosen heads on the first tokens; grey: no weight.",
}


def write_pictures(record: Record, folder: Path) -> list[tuple[Path, str]]:
    """Every picture that the record has data for: its file, and a caption. Those of an earlier probe are removed."""
    for name in CAPTIONS:
        (folder / f"{name}.png").unlink(missing_ok=True)
    found = record.subjects[0].found
    drawn: list[tuple[str, bool, Callable[[Record], Figure]]] = [
        ("sink", True, sink_map),
        ("sparsity", "sparsity" in found.heads, sparsity_histogram),
        ("entropy", True, entropy_by_layer),
        ("activations", len(found.activations) > 0, activations_by_layer),
        ("profile", not found.profile.empty, position_profile),
        ("attention", bool(record.patterns), attention_maps),
    ]
    return [(save(draw(record), folder / name), CAPTIONS[name]) for name, there, draw in drawn if there]


def sink_map(record: Record) -> "Figure":
    """Layers × heads: the sink score, one panel per subject; a dot marks what is above ε."""
    subjects = record.subjects
    tables = [s.found.heads.pivot(index="layer", columns="head", values="sink") for s in subjects]
    columns = min(PANELS, len(tables))
    rows = -(-len(tables) // columns)
    layers, heads = max(len(t) for t in tables), max(len(t.columns) for t in tables)
    height = min(TALLEST, 2.0 + 0.2 * layers) if rows == 1 else 1.2 + 0.09 * layers
    figure = _figure(columns * min(5.0, 2.2 + 0.28 * heads) + 1.2, rows * height + 0.4)
    panels = figure.subplots(rows, columns, squeeze=False)
    shown: Any = None
    for ax, table, subject in zip(panels.flat, tables, subjects):
        shown = ax.imshow(table, vmin=0, vmax=1, cmap=HEAT, aspect="auto", interpolation="nearest")
        at = np.argwhere(table.to_numpy() > record.eps)
        ax.plot(at[:, 1], at[:, 0], ls="", marker=".", ms=2.5, color="white")
        share = (subject.found.heads["sink"] > record.eps).mean()
        label(ax, "head", "layer", f"{short(subject.label)}\n{share:.0%} of heads above {record.eps:g}")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.yaxis.get_major_locator().set_params(integer=True)
    for ax in list(panels.flat)[len(tables) :]:
        ax.set_axis_off()
    bar = figure.colorbar(shown, ax=panels, label=f"sink; line and dots: ε = {record.eps:g}")
    bar.ax.axhline(record.eps, color="white", lw=1.5)
    figure.suptitle(f"Sink score\nheads of {record.about}", fontsize=10)
    return figure


def sparsity_histogram(record: Record) -> "Figure":
    """How sparse heads are: share of the heads in each bin."""
    figure, ax = _axes()
    for i, subject in enumerate(record.subjects[:LINES]):
        values: Any = subject.found.heads["sparsity"].dropna()
        weights = np.full(len(values), 1 / max(1, len(values)))
        look = _look(i)
        ax.hist(values, BINS, weights=weights, histtype="stepfilled", alpha=0.25, color=look["color"])
        ax.hist(values, BINS, weights=weights, histtype="step", lw=1.8, **look)
        ax.axvline(values.mean(), lw=1, **look)
        ax.plot([], [], lw=1.8, label=f"{short(subject.label)}, mean {values.mean():.2f}", **look)
    label(ax, "sparsity of a head: max weight / total weight", "share of heads")
    ax.set_xlim(0, 1)
    ax.legend(fontsize=8)
    figure.suptitle(_title("Distribution of head sparsity", record), fontsize=10)
    return figure


def entropy_by_layer(record: Record) -> "Figure":
    """Entropy by layer, the mean over heads and their range."""
    figure, ax = _axes()
    for i, subject in enumerate(record.subjects[:LINES]):
        grouped: Any = subject.found.heads.groupby("layer")["entropy"]
        look, mean = _look(i), grouped.mean()
        ax.fill_between(mean.index, grouped.min(), grouped.max(), color=look["color"], alpha=0.15, lw=0)
        ax.plot(mean.index, mean, marker="o", ms=3, label=short(subject.label), **look)
    label(ax, "layer", "entropy (nats)")
    ax.set_ylim(bottom=0)
    _finish_layers(ax)
    figure.suptitle(_title("Entropy of attention: mean and range over heads", record), fontsize=10)
    return figure


def activations_by_layer(record: Record) -> "Figure":
    """Largest |h| and median |h| after each layer, and the line above which one is called massive."""
    figure, ax = _axes()
    alone = len(record.subjects) == 1
    for i, subject in enumerate(record.subjects[:LINES]):
        table: Any = subject.found.activations
        massive = np.maximum(MASSIVE, MASSIVE_RATIO * table["median"])
        first, second, third = COLOURS[:3] if alone else [COLOURS[i]] * 3
        name = "" if alone else f"{short(subject.label)}, "
        ax.plot(table["layer"], table["top"], marker="o", ms=4, lw=1.6, color=first, label=f"{name}largest |h|")
        ax.plot(table["layer"], massive, ls="--", lw=1.6, color=second, label=_once(i, MASSIVE_LINE))
        ax.plot(table["layer"], table["median"], ls="-.", lw=1.6, color=third, label=_once(i, "median |h|"))
    ax.set_yscale("log")
    label(ax, "layer", "|h| after the layer")
    _finish_layers(ax)
    figure.suptitle(_title("Massive activations", record), fontsize=10)
    return figure


def _once(i: int, name: str) -> str:
    """A legend entry that all subjects share."""
    return name if i == 0 else "_"


def position_profile(record: Record) -> "Figure":
    """α_k against the position k: sink heads, the other heads, and what uniform attention would give."""
    figure, ax = _axes()
    for i, subject in enumerate(record.subjects[:LINES]):
        heads: Any = subject.found.heads.set_index(["layer", "head"])["sink"]
        profile: Any = subject.found.profile
        if profile.empty:
            continue
        sinks = heads.reindex(list(zip(profile["layer"], profile["head"]))).to_numpy() > record.eps
        for j, (part, chosen) in enumerate(((f"heads with sink > {record.eps:g}", sinks), ("other heads", ~sinks))):
            if chosen.any():
                mean = profile[chosen].groupby("position")["weight"].mean()
                look = {"ls": DASHES[i % len(DASHES)], "lw": 1.4, "color": COLOURS[(2 * i + j) % len(COLOURS)]}
                ax.plot(mean.index, mean, label=f"{short(subject.label)}, {part}", **look)
    if set(record.text["uniform_sink"]) == {"causal"}:
        position, mean = _uniform_profile(max(record.text["lengths"]))
        ax.plot(position, mean, color="#666666", ls=":", lw=1.4, label="uniform attention")
    ax.axhline(record.eps, color="#666666", lw=0.9, ls="--", label=f"ε = {record.eps:g}: a sink above it")
    ax.set_xscale("symlog", linthresh=1.0)
    ax.set_xlim(left=-0.1)
    ax.xaxis.set_major_formatter(lambda k, _: f"{k:g}")
    ax.set_yscale("log")
    label(ax, "position k of the key, from 0", "mean weight $\\alpha_k$ over the queries that see it")
    ax.legend(fontsize=8)
    figure.suptitle(_title("Weight by position", record), fontsize=10)
    return figure


def attention_maps(record: Record) -> "Figure":
    """Weights [query, key] of chosen heads; colours follow the square root, so that small weights can be seen."""
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    count, heat = len(record.patterns), colormaps[HEAT].with_extremes(bad="#e6e6e6")
    columns = min(MAPS_PER_ROW, math.ceil(math.sqrt(count)))
    rows = -(-count // columns)
    figure = _figure(4.6 * columns + 1.0, 4.7 * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False)
    names, norm = [_visible(token) for token in record.pattern_tokens], PowerNorm(0.5, 0, 1)
    shown: Any = None
    for ax, (name, weights) in zip(grid.flat, record.patterns.items()):
        shown = ax.imshow(np.ma.masked_equal(weights, 0.0), norm=norm, cmap=heat, interpolation="nearest")
        label(ax, "key", "query", f"layer {name.replace('.', ', head ')}")
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        ax.set_yticks(range(len(names)), names, fontsize=6)
    for ax in list(grid.flat)[count:]:
        ax.set_axis_off()
    figure.colorbar(shown, ax=grid, label="weight", shrink=0.8, ticks=[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1])
    figure.suptitle(f"Attention on the first {len(names)} tokens\nheads of {record.about}", fontsize=10)
    return figure


def _uniform_profile(T: int) -> tuple[np.ndarray, np.ndarray]:
    """α_k = (H_T − H_k)/(T − k) for k = 0 … T − 1: the mean of 1/i over the queries i > k that see key k."""
    inverse = 1 / np.arange(1, T + 1)
    tail = inverse[::-1].cumsum()[::-1]
    return np.arange(T), tail / np.arange(T, 0, -1)


def _look(i: int) -> dict[str, Any]:
    """Of the lines of subject i."""
    return {"color": COLOURS[i % len(COLOURS)], "ls": DASHES[i % len(DASHES)]}


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _axes() -> tuple["Figure", "Axes"]:
    figure = _figure(6.4, 4.2)
    return figure, figure.subplots()


def _finish_layers(ax: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=8)


def _title(what: str, record: Record) -> str:
    return f"{what}\nheads of {record.about}" + (f", first {LINES} subjects" if len(record.subjects) > LINES else "")


def _visible(token: str) -> str:
    """A token as a tick label: blanks shown, no mathematics."""
    shown = token.replace(" ", "·").replace("\n", "⏎").replace("\t", "→").replace("$", r"\$")
    return shown if len(shown) <= 10 else f"{shown[:9]}…"
