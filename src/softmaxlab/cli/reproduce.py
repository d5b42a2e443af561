"""softmaxlab reproduce: every figure and claim, then the report."""

from typing import Annotated

import typer

from softmaxlab.cli.options import Out, Plugin, Preset

EXAMPLES = "Examples:  softmaxlab reproduce  ·  softmaxlab reproduce --preset paper --out runs --report report"


def command(
    preset: Preset = "quick",
    out: Out = "runs",
    report: Annotated[str, typer.Option(help="Folder for the report.")] = "report",
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes; as many as cores if not given.")] = None,
    model: Annotated[bool, typer.Option("--model/--no-model", help="Probe a real model, smollm2, too.")] = True,
    plugin: Plugin = None,
) -> None:
    """Compute every figure, check every claim, and write report/index.html. Resumable: what is finished is kept.

    Exit code 1 if a figure fails or a verdict is not the stored one. A claim that fails as stated is a finding.
    """
    from softmaxlab.report.reproduce import reproduce
    from softmaxlab.report.tasks import DEMO_PROBE

    outcome = reproduce(preset, out, report, jobs, DEMO_PROBE if model else None)
    typer.echo(outcome.summary())
    if not outcome.ok:
        raise typer.Exit(1)
