"""softmaxlab sweep: many runs, on one machine or a cluster, as one table."""

import contextlib
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmaxlab.cli.options import Json, Long, Out, Plugin, allowed_time, parse_settings, print_json
from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    import pandas

    from softmaxlab.core.spec import Spec
    from softmaxlab.training.sweep import Sweep

EXAMPLES = (
    "Examples:  softmaxlab sweep induction --preset quick --jobs 2"
    "  ·  softmaxlab sweep induction --preset figure4 --limit 11"
    "  ·  softmaxlab sweep classification --preset figure6 --executor ray --address auto"
    "  ·  softmaxlab sweep induction --preset paper --executor slurm --partition cpu --time 8:00:00 --dry-run"
    "  ·  softmaxlab sweep induction --preset figures14-17 --status"
    "  ·  softmaxlab sweep specs.json --table runs/mine.parquet"
)
SHOWN_RUNS, SHOWN_REASONS = 40, 10
OF_HEADS = ("sink_score", "flip_rate")  # what one sweeps for, an array in the table

Preset = Annotated[str | None, typer.Option(help="quick (default), paper, or a part of it: softmaxlab list sweeps.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a field of all runs; may be repeated.")
]
Limit = Annotated[int | None, typer.Option(min=0, help="Make only so many of the missing runs; 0: just the table.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at once; on SLURM, those of one array element.")]
Table = Annotated[
    str | None, typer.Option(metavar="FILE", help="Add finished runs to this table too, .csv or .parquet.")
]
Track = Annotated[str | None, typer.Option(help="Write each loss as it goes: jsonl, tensorboard or wandb (offline).")]
Address = Annotated[str | None, typer.Option(help="Ray: a running cluster; without it, Ray is started here.")]
Gpus = Annotated[float | None, typer.Option(min=0, help="Ray: of a run, fractions allowed. SLURM: of an element.")]
Time = Annotated[str | None, typer.Option(help="SLURM: at most this long for an element, as sbatch takes it.")]
Timeout = Annotated[float | None, typer.Option(help="Local: seconds after which a run is ended, as failed.")]
Elements = Annotated[int | None, typer.Option(min=1, help="SLURM: at most so many array elements.")]
Status = Annotated[bool, typer.Option("--status", help="Make nothing; say what is there and what is still lacking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="SLURM: only print the script and its core-hours.")]


def command(
    what: Annotated[
        str, typer.Argument(metavar="TASK_OR_FILE", help="induction, classification, or a JSON file with specs.")
    ],
    preset: Preset = None,
    settings: Set = None,
    limit: Limit = None,
    executor: Annotated[str, typer.Option(help="local, ray or slurm.")] = "local",
    jobs: Jobs = None,
    out: Out = "runs",
    table: Table = None,
    track: Track = None,
    device: Annotated[str, typer.Option(help="Where tensors live.")] = "cpu",
    address: Address = None,
    gpus_per_task: Gpus = None,
    partition: Annotated[str | None, typer.Option(help="SLURM: the partition.")] = None,
    account: Annotated[str | None, typer.Option(help="SLURM: the account.")] = None,
    time: Time = None,
    elements: Elements = None,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    status: Status = False,
    long: Long = False,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Make all runs of a sweep that are not in the folder yet, and write the table of all of them.

    Stop it with Ctrl-C and start it again at will: finished runs are kept. A run that fails does not stop the others.
    """
    from softmaxlab.cli.sweep_status import print_status
    from softmaxlab.core.cost import check_cost
    from softmaxlab.core.tables import check_table
    from softmaxlab.training import trackers
    from softmaxlab.training.executors import executor_named
    from softmaxlab.training.presets import is_figure
    from softmaxlab.training.sweep import Sweep, keyed

    with _plugin_hint():
        name, specs = _specs(what, preset, parse_settings(settings))
    serve = not what.endswith(".json") and is_figure(preset or "")
    files = [check_table(file) for file in (Path(out) / f"{name}.csv", table) if file is not None]
    if status:
        print_status(name, specs, out, table, serve, json)
        return
    options = {
        "jobs": jobs,
        "timeout": timeout,
        "address": address,
        "gpus_per_task": gpus_per_task,
        "partition": partition,
    }
    chosen = executor_named(executor, **options, account=account, time=time, elements=elements)
    if dry_run:
        _print_plan(chosen, list(specs), out, limit, json)
        return
    trackers.choose(track, Path(out) / "track")
    asked = keyed(specs)
    ranks = dict(zip((key for key, _ in asked), specs.values()))
    work = Sweep(asked, out, limit, own=files[0], table=Path(table) if table else None, ranks=ranks, serve=serve)
    with allowed_time(long):
        check_cost(work.wanted.values())
    try:
        work.make(chosen, device)
    except KeyboardInterrupt:
        _report(name, work, files, json)  # what there is
        raise
    _report(name, work, files, json)
    if work.warning():
        raise typer.Exit(1)


@contextlib.contextmanager
def _plugin_hint() -> Iterator[None]:
    """A map or a kind of task or spec that is not known may be the user's own."""
    try:
        yield
    except SpecError as error:
        if re.search(r"\bunknown (map|kind) ", str(error)):
            raise SpecError(f"{error} (if it is yours, name its module with --plugin)") from None
        raise


def _report(name: str, work: "Sweep", files: list[Path], json: bool) -> None:
    """Write and print the table, and say how the runs ended."""
    from softmaxlab.core.provenance import differences, of_stored, sentence

    work.write()
    runs, tally, out = work.table(), work.tally(), str(work.store.root)
    counts = {str(status): int(count) for status, count in runs["status"].value_counts().items()}
    different = differences(of_stored(work.store, runs["key"]))
    if json:
        about = {"sweep": name, "table": str(files[-1]), "data": out, "counts": counts}
        print_json(about | tally | {"computed_differently": different, "runs": _plain(runs)})
        return
    _print_table(name, runs)
    _print_reasons(runs)
    ended = ", ".join(f"{count} {status}" for status, count in counts.items())
    now = "{there_already} there already, {made_now} made now, {failed_now} failed now".format(**tally)
    if different:
        typer.echo(f"note: {sentence(different)}")
    typer.echo(f"{name}: {ended} ({now})")
    typer.echo("".join(f"  table  {file}\n" for file in files) + f"  data   {out}")


def _specs(what: str, preset: str | None, changes: dict[str, Any]) -> tuple[str, dict["Spec", int]]:
    """The name of a sweep and its specs with their stages. A changed sweep, with another table, has another name."""
    if what.endswith(".json"):
        if preset is not None:
            raise SpecError(f"specs from a file have no presets, got --preset {preset}")
        name, found = Path(what).stem, [_from_file(what)]
    else:
        from softmaxlab.training.presets import stages

        name, found = f"{what}-{preset or 'quick'}", stages(what, preset or "quick")
    specs: dict[Spec, int] = {}
    for number, stage in enumerate(found):
        for spec in stage:
            specs.setdefault(spec.replace(**changes) if changes else spec, number)
    if changes:
        name += "-" + hashlib.sha256("".join(spec.key for spec in specs).encode()).hexdigest()[:8]
    return name, specs


def _from_file(file: str) -> Iterable["Spec"]:
    from softmaxlab.core.documents import parse_json
    from softmaxlab.core.spec import from_plain

    try:
        found = parse_json(Path(file).read_text(), f"{file!r}")
    except SpecError:
        raise
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read the specs in {file!r}: {error}") from None
    if not isinstance(found, list) or not found:
        raise SpecError(f"{file!r} must hold a JSON list of specs")
    return [from_plain(item) for item in found]


def _print_plan(executor: Any, specs: list["Spec"], out: str, limit: int | None, json: bool) -> None:
    from softmaxlab.core.store import Store
    from softmaxlab.training.executors.slurm import Slurm
    from softmaxlab.training.sweep import keyed, known, missing

    if not isinstance(executor, Slurm):
        raise SpecError("--dry-run goes with --executor slurm")
    asked = keyed(specs)
    runs = len(missing(asked, known(asked, Store(out)), limit))
    script, hours = executor.script(runs, out) if runs else "", executor.core_hours(runs)
    if json:
        print_json({"runs": runs, "elements": executor.size(runs), "core_hours": hours, "script": script})
        return
    typer.echo(script)
    typer.echo(f"{runs} runs in {executor.size(runs)} elements: at most {hours:g} core-hours; nothing was submitted")


def _plain(runs: "pandas.DataFrame") -> list[dict[str, Any]]:
    """The rows as JSON values."""
    from softmaxlab.training.table_file import WORDS

    return [
        {name: cell if name in WORDS else _value(cell) for name, cell in run.items()} for run in runs.to_dict("records")
    ]


def _value(cell: Any) -> Any:
    """Arrays, which the table holds as text, as lists; JSON has no numbers for NaN and ∞, which become null."""
    import json

    if isinstance(cell, list):
        return [_value(item) for item in cell]
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, str) and cell.startswith("["):
        with contextlib.suppress(ValueError):  # a word that only looks like a list
            return _value(json.loads(cell))
    return cell


def _print_table(name: str, runs: "pandas.DataFrame") -> None:
    """The first runs that were tried: what tells them apart, how they ended, and what they gave, of heads the most."""
    from rich.console import Console
    from rich.table import Table

    from softmaxlab.training.table import NOT_RUN

    columns, tried = list(runs.columns), runs.loc[runs["status"] != NOT_RUN]
    end = columns.index("status")
    fields = [column for column in columns[2:end] if len(set(runs[column])) > 1]
    numbers = [column for column in columns[end + 2 :] if runs[column].dtype.kind in "if"]
    largest = [column for column in OF_HEADS if column in columns]
    shown = Table(title=name, title_justify="left")
    for column in (*fields, "status", *numbers):
        shown.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "map")
    for column in largest:
        shown.add_column(f"largest {column.replace('_', ' ')}", overflow="fold")
    for run in tried.head(SHOWN_RUNS).to_dict("records"):
        cells = [_cell(run[column]) for column in (*fields, "status", *numbers)]
        shown.add_row(*cells, *(_cell(_largest(run[column])) for column in largest))
    Console().print(shown)
    if len(tried) > SHOWN_RUNS:
        typer.echo(f"… and {len(tried) - SHOWN_RUNS} more in the table")


def _largest(cell: Any) -> float:
    """Of an array's text, NaN left out."""
    import numpy as np

    values = _value(cell)
    numbers = np.array(values, dtype=float) if isinstance(values, list) else np.empty(0)
    return float(np.nanmax(numbers)) if np.isfinite(numbers).any() else math.nan


def _print_reasons(runs: "pandas.DataFrame") -> None:
    from softmaxlab.training.sweep import FINE

    bad = [run for run in runs.to_dict("records") if run["status"] not in FINE]
    for run in bad[:SHOWN_REASONS]:
        typer.echo(f"{run['status']} {run['key']}: {run['sentence']}")
    if len(bad) > SHOWN_REASONS:
        typer.echo(f"… and {len(bad) - SHOWN_REASONS} more, in the table")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "·" if value != value else f"{value:.4g}"
    return "·" if value is None else str(value)
