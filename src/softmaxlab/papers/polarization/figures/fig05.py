"""Figure 5: the attention of CLS on two samples of different labels, through training.

With the paper's vocabulary of 41 a group has as many tokens as a sequence has, all of them distinct: there is one set
of tokens for each label, and the figure shows two of four memorised inputs (an erratum).
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization.figures.fig01 import MapName
from softmaxlab.papers.polarization.memorised import memorised
from softmaxlab.plotting.lines import draw_lines, label
from softmaxlab.training import Classification, Run

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

SHOWN = 2  # samples
NEARLY_ALL = 0.9  # share of the weight
APART = 0.06  # of the height of a panel: nearer names would touch
NAMED = 2  # names in one place, more are only counted


class Fig05(FigureSpec):
    """Share of the CLS query's weight on each token, one row per sample, one column per map."""

    id: ClassVar[str] = "polarization/fig05"
    title: ClassVar[str] = "Attention of CLS through training, one layer, one head"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 5"
    errata: ClassVar[tuple[str, ...]] = ("polarization/23",)
    reports: ClassVar[str] = "Under softmax one token of each sample takes nearly all the attention"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"epochs": 5}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "8 s", "paper": "15 s"}
    # 5 epochs in place of 10: softmax has settled, sigmoid still moves a little
    quick_within: ClassVar[dict[str, float]] = {
        "largest share under softmax, least of the samples": 0.1,
        "largest share under sigmoid, most of the samples": 0.1,
    }

    maps: Annotated[tuple[MapName, ...], Field(min_length=1, max_length=6)] = ("softmax", "sigmoid")
    vocab: Annotated[int, Field(ge=41, le=10**6)] = 41
    lr: Annotated[float, Field(gt=0)] = 1e-3
    epochs: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        from softmaxlab.core.simulate import simulate

        base = Run(task=Classification(vocab=self.vocab), layers=1, heads=1, track=("cls",), **self._fields())
        results = [simulate(base.replace(map=map), device=device) for map in self.maps]
        status = status_of(results, self.maps)
        weights = np.stack([_padded(r["cls_weights"][:, 0, 0, :SHOWN], results) for r in results])
        arrays = {
            "map": list(self.maps),
            "step": np.arange(weights.shape[1]),
            "tokens": results[0]["cls_tokens"][:SHOWN],
            "weights": weights,
        }
        axes = {"map": ("map",), "step": ("step",), "tokens": ("sample", "key")}
        return Result(arrays, axes | {"weights": ("map", "step", "sample", "key")}, status, {"vocab": self.vocab})

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("lr", "epochs", "seed")}

    @staticmethod
    def seen(result: Result) -> str:
        """The largest share of each sample at the end, or where a run's weights are known last."""
        largest = {str(name): _last(_shares(w)).max(axis=-1) for name, w in zip(result["map"], result["weights"])}
        if not any(np.isfinite(shares).any() for shares in largest.values()):
            return "Nothing is there: no share of a weight is finite."
        parts = [f"{' and '.join(f'{share:.3f}' for share in part)} under {name}" for name, part in largest.items()]
        told = f"In the end the token with most of the weight of CLS has a share of {', '.join(parts)}"
        if "softmax" not in largest:
            return f"{told}; softmax is not among the maps."
        above = largest["softmax"] > NEARLY_ALL
        return f"{told}: nearly all (above {NEARLY_ALL:g}) in {above.sum()} of {len(above)} samples under softmax."

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        largest = {str(name): _last(_shares(w)).max(axis=-1) for name, w in zip(result["map"], result["weights"])}
        return {
            "largest share under softmax, least of the samples": float(largest["softmax"].min()),
            "largest share under sigmoid, most of the samples": float(largest["sigmoid"].max()),
        }

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        columns = len(result["map"])
        picture = Figure(figsize=(4.6 * columns, 5.6), layout="constrained")
        grid = picture.subplots(SHOWN, columns, squeeze=False, sharex=True, sharey="col")
        group = (result.notes["vocab"] - 1) // 4
        for column, map in enumerate(result["map"]):
            shares = _shares(result["weights"][column])
            span = np.ptp(shares[np.isfinite(shares)]) if np.isfinite(shares).any() else 1.0
            for row, ax in enumerate(grid[:, column]):
                tokens, share = result["tokens"][row], shares[:, row]
                names = ["CLS" if t == 0 else f"token {t}" for t in tokens]
                draw_lines(ax, result["step"], share.T, names)
                ax.set_xscale("symlog", linthresh=1)  # most happens in the first steps; the start is step 0
                label(ax, "step", "share of the weight of CLS", f"{map}, sample of label {(tokens[0] - 1) // group}")
                _name_ends(ax, share[-1], names, span)
        few = memorised(Classification(vocab=result.notes["vocab"]))
        picture.suptitle(f"{Fig05.title}\n{few}" if few else Fig05.title, fontsize=11)
        return picture


def _shares(weights: np.ndarray) -> np.ndarray:
    """Return the shares of weights [..., key]; NaN where there is no weight."""
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, np.nan, total)


def _last(shares: np.ndarray) -> np.ndarray:
    """Return the last [sample, key] of shares [step, sample, key] without a NaN; the first if all have one."""
    known = np.flatnonzero(np.isfinite(shares).all(axis=(1, 2)))
    return shares[known[-1] if len(known) else 0]


def _name_ends(ax: "Axes", ends: np.ndarray, names: list[str], span: float) -> None:
    """Write the name of each line where it ends, and one name for lines that end together."""
    if not np.isfinite(ends).all():
        return
    groups: list[list[int]] = []
    for line in ends.argsort()[::-1]:  # from the top down
        if groups and ends[groups[-1][0]] - ends[line] < APART * span:
            groups[-1].append(line)
        else:
            groups.append([line])
    for group in groups:
        told = ", ".join(names[line] for line in group) if len(group) <= NAMED else f"{len(group)} tokens"
        colour = ax.lines[group[0]].get_color() if len(group) == 1 else "0.3"
        end = ends[group[0]]
        place = {"xycoords": ("axes fraction", "data"), "xytext": (3, 0), "textcoords": "offset points"}
        ax.annotate(f"{told}: {end:.2f}", (1, end), va="center", fontsize=7, color=colour, **place)


def _padded(weights: np.ndarray, results: list[Result]) -> np.ndarray:
    """A run that ended early is NaN from there on."""
    longest = max(len(r["cls_step"]) for r in results)
    missing = np.full((longest - len(weights), *weights.shape[1:]), np.nan)
    return np.concatenate([weights, missing])
