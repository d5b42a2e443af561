"""Figure 1: where the heads of the second layer look, in a transformer that solves the induction task.

The picture needs the weights, so the models are trained here. Shorter training than the paper's 10 epochs draws a true
picture of those epochs; its sentence is then about stored runs of 10 epochs. To draw these at once, their weights on
one sample would have to be stored: [map, head, query, key], 3·4·12·12 numbers.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.attention import MAPS
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.training import Induction, Run

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

REPORTED = {"softmax": True, "sigmoid": False, "linear": False}  # whether a sink emerges
EPOCHS = 10  # the paper's
MapName = Annotated[str, Named(MAPS)]


class Fig01(FigureSpec):
    """Patterns of all heads of the last layer on one evaluation sequence, a row for each map."""

    id: ClassVar[str] = "polarization/fig01"
    title: ClassVar[str] = "Attention patterns of the second layer, induction task"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 1"
    errata: ClassVar[tuple[str, ...]] = ("polarization/24",)
    reports: ClassVar[str] = "An attention sink emerges for softmax but not for sigmoid and linear, both unnormalised"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"epochs": 1}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "50 s", "paper": "8 min"}

    maps: Annotated[tuple[MapName, ...], Field(min_length=1, max_length=8)] = ("softmax", "sigmoid", "linear")
    heads: Annotated[int, Field(ge=1, le=8)] = 4
    lr: Annotated[float, Field(gt=0)] = 1e-3
    epochs: Annotated[int, Field(ge=1, le=1000)] = 10
    sample: Annotated[int, Field(ge=0, le=999)] = 0
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        from softmaxlab.training.evaluate import patterns
        from softmaxlab.training.run import train

        task = Induction()
        specs = [Run(task=task, **self._fields(map)) for map in self.maps]
        tokens = task.data(self.seed, "evaluate", device).tokens[self.sample, None]
        weights, results = [], []
        for spec in specs:
            model, result = train(spec, device)
            weights.append(patterns(model, tokens)[-1, :, 0].cpu().numpy())
            results.append(result)
        status = status_of(results, self.maps)
        arrays = {"map": list(self.maps), "tokens": tokens[0].cpu().numpy(), "weights": np.stack(weights)}
        axes = {"map": ("map",), "tokens": ("query",), "weights": ("map", "head", "query", "key")}
        if status.ok:
            arrays["sink_score"] = np.stack([r["sink_score"][-1] for r in results])
            arrays["induction_accuracy"] = np.array([r["induction_accuracy"] for r in results])
            axes |= {"sink_score": ("map", "head"), "induction_accuracy": ("map",)}
        notes = {"epochs": self.epochs, "lr": self.lr, "vocab": task.vocab, "seed": self.seed}
        return Result(arrays, axes, status, notes)

    def _fields(self, map: str) -> dict[str, Any]:
        return {"map": map} | {name: getattr(self, name) for name in ("heads", "lr", "epochs", "seed")}

    @staticmethod
    def seen(result: Result) -> str:
        """Say how many heads of each map are sinks, and whether only softmax has sinks among the paper's three maps.

        After fewer than the paper's epochs, the sentence is about stored runs of all epochs, if there are.
        """
        if "sink_score" not in result:
            return f"There are no sink scores, as not every run finished ({result.status})."
        drawn = result.notes.get("epochs", EPOCHS)
        stored = stored_runs(result) if drawn < EPOCHS and np.isfinite(result["sink_score"]).all() else None
        score, accuracy = stored or (result["sink_score"], result["induction_accuracy"])
        heads = score.shape[1]
        sinks = dict(zip(map(str, result["map"]), (score > SINK).sum(axis=1).tolist()))
        told = ", ".join(f"{n} of {heads} under {name}" for name, n in sinks.items())
        unlike = [name for name, n in sinks.items() if name in REPORTED and (n > 0) != REPORTED[name]]
        verdict = f", not as reported under {' and '.join(unlike)}" if unlike else ""
        about = f" after {EPOCHS} epochs (stored runs; drawn: {drawn})" if stored else ""
        least = accuracy.min()
        return (
            f"Heads with a sink score above {SINK:g}{about}: {told}{verdict}; "
            f"the least induction accuracy is {least:.3f}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        rows, columns = result["weights"].shape[:2]
        picture = Figure(figsize=(2.3 * columns + 1.2, 2.35 * rows + 0.7), layout="constrained")
        grid = picture.subplots(rows, columns, squeeze=False)
        names = token_names(result["tokens"], result.notes["vocab"])
        for i, (map, row) in enumerate(zip(result["map"], grid)):
            for head, ax in enumerate(row):
                draw_pattern(ax, result["weights"][i, head], names)
                if "sink_score" in result:
                    ax.set_title(f"head {head}: sink score {result['sink_score'][i, head]:.2f}", fontsize=8)
            row[0].set_ylabel(_row_label(result, i, map), fontsize=9)
        epochs, lr = result.notes["epochs"], result.notes["lr"]
        ending = "epoch" if epochs == 1 else "epochs"
        picture.suptitle(f"{Fig01.title}\n({epochs} {ending} at lr {lr:g}; query down, key across)", fontsize=10)
        return picture


def stored_runs(result: Result) -> tuple[np.ndarray, np.ndarray] | None:
    """Sink scores [map, head] of the last layer and accuracies of committed runs of 10 epochs; None if one lacks."""
    from softmaxlab.papers.polarization.runs import COMMITTED, chosen, read_runs, where

    task, notes = Induction(), result.notes
    same = {"epochs": EPOCHS, "heads": result["sink_score"].shape[1], "lr": float(notes["lr"]), "seed": notes["seed"]}
    same |= {
        "positions": "additive",
        "task__aux": task.aux,
        "task__shifted": task.shifted,
        "task__vocab": notes["vocab"],
    }
    same |= {"mlp": True, "layernorm": True, "layers": 2, "gate": False, "optimizer": "adamw"}
    table = chosen(read_runs(COMMITTED, "induction"), **same)
    table = where(table, table["stop"].isna())
    rows = [chosen(table, map=str(map)) for map in result["map"]]
    if not all(len(row) for row in rows):
        return None
    scores, accuracies = ([row[name].iloc[0] for row in rows] for name in ("sink_score", "induction_accuracy"))
    return np.stack([score[-1] for score in scores]), np.array(accuracies)


def _row_label(result: Result, i: int, map: str) -> str:
    if "induction_accuracy" not in result:
        return str(map)
    return f"{map}\ninduction accuracy {result['induction_accuracy'][i]:.3f}"


def token_names(tokens: np.ndarray, vocab: int) -> list[str]:
    """BOS, the plain tokens' numbers, and the shifted ones' with a prime."""
    return ["BOS" if t == 0 else str(t) if t < vocab else f"{t - vocab + 1}′" for t in tokens.tolist()]


def draw_pattern(ax: "Axes", weights: np.ndarray, names: list[str]) -> None:
    """Weights [query, key]: white is 0, blue positive, orange negative, the darkest the largest."""
    from matplotlib.colors import LinearSegmentedColormap

    from softmaxlab.plotting.journal import COLOURS

    colours = LinearSegmentedColormap.from_list("signed", [COLOURS[1], "white", COLOURS[0]])
    largest = float(np.abs(weights).max()) or 1.0
    image = ax.imshow(weights, cmap=colours, vmin=-largest, vmax=largest)
    ax.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    ax.set_yticks(range(len(names)), names, fontsize=6)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.045, pad=0.02)  # type: ignore[union-attr]
    bar.ax.set_ylim(min(0.0, float(weights.min())), largest)
    bar.ax.tick_params(labelsize=6)
