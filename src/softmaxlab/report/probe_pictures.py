"""Pictures of a probe. Colours can be told apart by all readers; where there are several subjects, dashes help."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.measure.thresholds import MASSIVE, MASSIVE_RATIO
from softmaxlab.plotting.journal import COLOURS, save
from softmaxlab.plotting.lines import DASHES, label
from softmaxlab.probing.recommendations import massive_threshold
from softmaxlab.probing.report import PICTURES, ProbeReport, short_label
from softmaxlab.probing.summary import entropy_range, mean_profiles, uniform_profile

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


def write_pictures(report: ProbeReport, folder: Path) -> list[tuple[Path, str]]:
    """Draw every picture that there is data for: file and caption. Those of an earlier probe are removed."""
    for name in PICTURES:
        (folder / f"{name}.png").unlink(missing_ok=True)
    tables = report.subjects[0].tables
    drawn: list[tuple[str, bool, Callable[[ProbeReport], Figure]]] = [
        ("sink", True, sink_map),
        ("sparsity", "sparsity" in tables.heads, sparsity_histogram),
        ("entropy", True, entropy_by_layer),
        ("activations", len(tables.activations) > 0, activations_by_layer),
        ("profile", not tables.profile.empty, position_profile),
        ("attention", bool(report.patterns), attention_maps),
    ]
    return [(save(draw(report), folder / name), CAPTIONS[name]) for name, there, draw in drawn if there]


def sink_map(report: ProbeReport) -> "Figure":
    """Layers × heads: the sink score, one panel per subject; a dot marks what is above ε."""
    subjects = report.subjects
    shares = [row["share_above_eps"] for row in report.summaries()]
    tables = [s.tables.heads.pivot(index="layer", columns="head", values="sink") for s in subjects]
    columns = min(PANELS, len(tables))
    rows = -(-len(tables) // columns)
    layers, heads = max(len(t) for t in tables), max(len(t.columns) for t in tables)
    height = min(TALLEST, 2.0 + 0.2 * layers) if rows == 1 else 1.2 + 0.09 * layers
    figure = _figure(columns * min(5.0, 2.2 + 0.28 * heads) + 1.2, rows * height + 0.4)
    panels = figure.subplots(rows, columns, squeeze=False)
    shown: Any = None
    for ax, table, subject, share in zip(panels.flat, tables, subjects, shares):
        shown = ax.imshow(table, vmin=0, vmax=1, cmap=HEAT, aspect="auto", interpolation="nearest")
        at = np.argwhere(table.to_numpy() > report.eps)
        ax.plot(at[:, 1], at[:, 0], ls="", marker=".", ms=2.5, color="white")
        label(ax, "head", "layer", f"{short_label(subject.label)}\n{share:.0%} of heads above {report.eps:g}")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.yaxis.get_major_locator().set_params(integer=True)
    for ax in list(panels.flat)[len(tables) :]:
        ax.set_axis_off()
    bar = figure.colorbar(shown, ax=panels, label=f"sink; line and dots: ε = {report.eps:g}")
    bar.ax.axhline(report.eps, color="white", lw=1.5)
    figure.suptitle(f"Sink score\nheads of {report.about}", fontsize=10)
    return figure


def sparsity_histogram(report: ProbeReport) -> "Figure":
    """Draw how sparse heads are: the share of the heads in each bin."""
    figure, ax = _axes()
    means = [row["sparsity"] for row in report.summaries()]
    for i, (subject, mean) in enumerate(zip(report.subjects[:LINES], means)):
        values: Any = subject.tables.heads["sparsity"].dropna()
        weights = np.full(len(values), 1 / max(1, len(values)))
        look = _look(i)
        ax.hist(values, BINS, weights=weights, histtype="stepfilled", alpha=0.25, color=look["color"])
        ax.hist(values, BINS, weights=weights, histtype="step", lw=1.8, **look)
        ax.axvline(mean, lw=1, **look)
        ax.plot([], [], lw=1.8, label=f"{short_label(subject.label)}, mean {mean:.2f}", **look)
    label(ax, "sparsity of a head: max weight / total weight", "share of heads")
    ax.set_xlim(0, 1)
    ax.legend(fontsize=8)
    figure.suptitle(_title("Distribution of head sparsity", report), fontsize=10)
    return figure


def entropy_by_layer(report: ProbeReport) -> "Figure":
    """Entropy by layer, the mean over heads and their range."""
    figure, ax = _axes()
    for i, subject in enumerate(report.subjects[:LINES]):
        layers, look = entropy_range(subject.tables), _look(i)
        ax.fill_between(layers.index, layers["min"], layers["max"], color=look["color"], alpha=0.15, lw=0)
        ax.plot(layers.index, layers["mean"], marker="o", ms=3, label=short_label(subject.label), **look)
    label(ax, "layer", "entropy (nats)")
    ax.set_ylim(bottom=0)
    _finish_layers(ax)
    figure.suptitle(_title("Entropy of attention: mean and range over heads", report), fontsize=10)
    return figure


def activations_by_layer(report: ProbeReport) -> "Figure":
    """Largest |h| and median |h| after each layer, and the line above which one is called massive."""
    figure, ax = _axes()
    alone = len(report.subjects) == 1
    for i, subject in enumerate(report.subjects[:LINES]):
        table: Any = subject.tables.activations
        massive = massive_threshold(table["median"])
        first, second, third = COLOURS[:3] if alone else [COLOURS[i]] * 3
        name = "" if alone else f"{short_label(subject.label)}, "
        ax.plot(table["layer"], table["top"], marker="o", ms=4, lw=1.6, color=first, label=f"{name}largest |h|")
        ax.plot(table["layer"], massive, ls="--", lw=1.6, color=second, label=_once(i, MASSIVE_LINE))
        ax.plot(table["layer"], table["median"], ls="-.", lw=1.6, color=third, label=_once(i, "median |h|"))
    ax.set_yscale("log")
    label(ax, "layer", "|h| after the layer")
    _finish_layers(ax)
    figure.suptitle(_title("Massive activations", report), fontsize=10)
    return figure


def _once(i: int, name: str) -> str:
    """A legend entry that all subjects share."""
    return name if i == 0 else "_"


def position_profile(report: ProbeReport) -> "Figure":
    """α_k against the position k: sink heads, the other heads, and what uniform attention would give."""
    figure, ax = _axes()
    for i, subject in enumerate(report.subjects[:LINES]):
        if subject.tables.profile.empty:
            continue
        names = (f"heads with sink > {report.eps:g}", "other heads")
        for j, (name, mean) in enumerate(zip(names, mean_profiles(subject.tables, report.eps))):
            if mean is not None:
                look = {"ls": DASHES[i % len(DASHES)], "lw": 1.4, "color": COLOURS[(2 * i + j) % len(COLOURS)]}
                ax.plot(mean.index, mean, label=f"{short_label(subject.label)}, {name}", **look)
    if set(report.text["uniform_sink"]) == {"causal"}:
        position, mean = uniform_profile(max(report.text["lengths"]))
        ax.plot(position, mean, color="#666666", ls=":", lw=1.4, label="uniform attention")
    ax.axhline(report.eps, color="#666666", lw=0.9, ls="--", label=f"ε = {report.eps:g}: a sink above it")
    ax.set_xscale("symlog", linthresh=1.0)
    ax.set_xlim(left=-0.1)
    ax.xaxis.set_major_formatter(lambda k, _: f"{k:g}")
    ax.set_yscale("log")
    label(ax, "position k of the key, from 0", "mean weight $\\alpha_k$ over the queries that see it")
    ax.legend(fontsize=8)
    figure.suptitle(_title("Weight by position", report), fontsize=10)
    return figure


def attention_maps(report: ProbeReport) -> "Figure":
    """Weights [query, key] of chosen heads; colours follow the square root, so that small weights can be seen."""
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    count, heat = len(report.patterns), colormaps[HEAT].with_extremes(bad="#e6e6e6")
    columns = min(MAPS_PER_ROW, math.ceil(math.sqrt(count)))
    rows = -(-count // columns)
    figure = _figure(4.6 * columns + 1.0, 4.7 * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False)
    names, norm = [_visible(token) for token in report.pattern_tokens], PowerNorm(0.5, 0, 1)
    shown: Any = None
    for ax, (name, weights) in zip(grid.flat, report.patterns.items()):
        shown = ax.imshow(np.ma.masked_equal(weights, 0.0), norm=norm, cmap=heat, interpolation="nearest")
        label(ax, "key", "query", f"layer {name.replace('.', ', head ')}")
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        ax.set_yticks(range(len(names)), names, fontsize=6)
    for ax in list(grid.flat)[count:]:
        ax.set_axis_off()
    figure.colorbar(shown, ax=grid, label="weight", shrink=0.8, ticks=[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1])
    figure.suptitle(f"Attention on the first {len(names)} tokens\nheads of {report.about}", fontsize=10)
    return figure


def _look(i: int) -> dict[str, Any]:
    """Colour and dashes of subject i."""
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


def _title(what: str, report: ProbeReport) -> str:
    return f"{what}\nheads of {report.about}" + (f", first {LINES} subjects" if len(report.subjects) > LINES else "")


def _visible(token: str) -> str:
    """A token as a tick label: blanks shown, no mathematics."""
    shown = token.replace(" ", "·").replace("\n", "⏎").replace("\t", "→").replace("$", r"\$")
    return shown if len(shown) <= 10 else f"{shown[:9]}…"
