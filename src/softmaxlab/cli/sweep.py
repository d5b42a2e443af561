"""softmaxlab sweep: many runs, on one machine or a cluster, as one table."""

from pathlib import Path
from typing import Annotated

import typer

from softmaxlab.cli.options import Json, Long, Out, Plugin, allowed_time, parse_settings

EXAMPLES = (
    "Examples:  softmaxlab sweep induction --preset quick --jobs 2"
    "  ·  softmaxlab sweep induction --preset figure4 --limit 11"
    "  ·  softmaxlab sweep classification --preset figure6 --executor ray --address auto"
    "  ·  softmaxlab sweep induction --preset paper --executor slurm --partition cpu --time 8:00:00 --dry-run"
    "  ·  softmaxlab sweep induction --preset figures14-17 --status"
    "  ·  softmaxlab sweep specs.json --table runs/mine.parquet"
)

Preset = Annotated[str | None, typer.Option(help="quick (default), paper, or another of softmaxlab list sweeps.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a field of all runs; may be repeated.")
]
Limit = Annotated[
    int | None, typer.Option(min=0, help="Make at most this many of the missing runs; 0: only the table.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at once; on SLURM, those of one array element.")]
Table = Annotated[
    str | None, typer.Option(metavar="FILE", help="Add finished runs to this table too, .csv or .parquet.")
]
Track = Annotated[
    str | None, typer.Option(help="Record losses during training: jsonl, tensorboard or wandb (offline).")
]
Address = Annotated[str | None, typer.Option(help="Ray: address of a running cluster; else Ray is started here.")]
Gpus = Annotated[
    float | None, typer.Option(min=0, help="Ray: GPUs per run, fractions allowed. SLURM: GPUs per element.")
]
Time = Annotated[str | None, typer.Option(help="SLURM: time limit of an element, as sbatch takes it.")]
Timeout = Annotated[float | None, typer.Option(help="Local: seconds after which a run is ended and counts as failed.")]
Elements = Annotated[int | None, typer.Option(min=1, help="SLURM: largest number of array elements.")]
Status = Annotated[bool, typer.Option("--status", help="Make no runs; say which there are and which are lacking.")]
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
    device: Annotated[str, typer.Option(help="Device of the tensors: cpu, cuda.")] = "cpu",
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
    from softmaxlab.cli.sweep_output import print_plan, print_status, print_sweep
    from softmaxlab.core.cost import check_cost
    from softmaxlab.core.tables import check_table
    from softmaxlab.training import trackers
    from softmaxlab.training.executors import executor_named
    from softmaxlab.training.sweep import Sweep
    from softmaxlab.training.sweep_plan import SweepPlan

    plan = SweepPlan(what, preset, parse_settings(settings))
    files = [check_table(file) for file in (Path(out) / f"{plan.name}.csv", table) if file is not None]
    if status:
        print_status(plan, out, table, json)
        return
    options = {
        "jobs": jobs,
        "timeout": timeout,
        "address": address,
        "gpus_per_task": gpus_per_task,
        "partition": partition,
        "account": account,
        "time": time,
        "elements": elements,
    }
    chosen = executor_named(executor, **options)
    if dry_run:
        print_plan(plan.submission(chosen, out, limit), json)
        return
    trackers.choose(track, Path(out) / "track")
    more = {"own": files[0], "table": Path(table) if table else None, "ranks": plan.ranks, "serve": plan.draws_figure}
    work = Sweep(plan.asked, out, limit, **more)
    with allowed_time(long):
        check_cost(work.wanted.values())
    try:
        work.make(chosen, device)
    except KeyboardInterrupt:
        print_sweep(plan.name, work, files, json)  # what there is
        raise
    print_sweep(plan.name, work, files, json)
    if work.warning():
        raise typer.Exit(1)
