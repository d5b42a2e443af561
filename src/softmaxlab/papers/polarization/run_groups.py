"""The groups of runs that claims about training compare: from the committed tables, and never empty."""

from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SpecError
from softmaxlab.papers.polarization import sink_runs
from softmaxlab.papers.polarization.classification_figures import flip_runs
from softmaxlab.papers.polarization.precision import without_unvalidated
from softmaxlab.papers.polarization.run_table_schema import PRECISION
from softmaxlab.papers.polarization.runs import COMMITTED, TaskName, chosen, read_runs, where
from softmaxlab.papers.polarization.sink_runs import NORMALISED as NORMALISED
from softmaxlab.papers.polarization.sink_runs import OTHERS as OTHERS
from softmaxlab.training import Run

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

Runs = TypeVar("Runs", bound=Sized)
RUN_COLUMNS = ("map", "heads", "layers", "lr", "seed", "mlp", "layernorm", "epochs", "stop", "precision")
RESAMPLES = 2000  # of a bootstrap
Change = dict[str, dict[Any, Any]]  # column → value → what is put in its place


def table(task: TaskName, change: Change) -> "Table":
    """The committed runs, with labels exchanged for a control."""
    runs = read_runs(COMMITTED, task)
    for column, new in change.items():
        runs[column] = [new.get(value, value) for value in runs[column]]
    return runs


def solved(change: Change) -> "Table":
    """Induction runs that count and have sink scores: the share of sinks in their second layer, and its mean score.

    Of a setting there may be a full run and one that ended when settled (pairs.matched never mixes them).
    """
    runs, _ = without_unvalidated(table("induction", change))
    runs = sink_runs.solved(sink_runs.of_usual_model(runs))
    runs = runs.assign(sinks=sink_runs.shares_of(runs)).dropna(subset=["sinks"])
    return runs.assign(score=[scores[1].mean() for scores in runs["sink_score"]])


def once(runs: "Table") -> "Table":
    """One run of each setting, the longest."""
    runs = runs.assign(full=runs["stop"].isna(), single=runs["precision"] == PRECISION)
    runs = runs.sort_values(["single", "epochs", "full", "key"], ascending=False)
    return runs.drop_duplicates(sink_runs.SETTING).sort_values("key", ignore_index=True)


def flips(change: Change, **values: Any) -> "Table":
    """Classification runs that have flip rates."""
    return chosen(flip_runs(table("classification", change)), **values).dropna(subset=["flips"])


def trained(specs: Iterable[Run]) -> "Table":
    """Classification runs made now, with the settings and the flip rates that those of the table have."""
    import pandas

    rows = []
    for spec in specs:
        rates = simulate(spec)["flip_rate"]
        settings = {name: getattr(spec, name) for name in RUN_COLUMNS} | {"task.vocab": spec.task.vocab}  # pyright: ignore[reportAttributeAccessIssue]
        rows.append(settings | {"key": spec.key, "flips": float(rates.max())})
    return pandas.DataFrame(rows).dropna(subset=["flips"])


def whole(runs: "Table", column: str) -> "Table":
    """Runs whose array in a column is there, without NaN."""
    return where(runs, [array is not None and not np.isnan(array).any() for array in runs[column]])


def some(claim: str, what: str, runs: Runs) -> Runs:
    """The runs, or pairs of them, of which there must be some."""
    if not len(runs):
        raise SpecError(f"claim polarization/{claim} needs {what}, the tables have none")
    return runs


def both(one: Any, other: Any) -> dict[Any, Any]:
    return {one: other, other: one}


def interval_of_mean(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a mean, by the bootstrap; nothing is known from one value."""
    from scipy.stats import bootstrap

    if len(values) < 2:
        return -np.inf, np.inf
    resampled = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        method="percentile",
        random_state=np.random.default_rng(0),  # pyright: ignore[reportCallIssue]
    )
    return float(resampled.confidence_interval.low), float(resampled.confidence_interval.high)


def of_maps(runs: "Table", maps: tuple[str, ...]) -> "Table":
    return where(runs, runs["map"].isin(maps))
