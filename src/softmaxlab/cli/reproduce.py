"""softmaxlab reproduce: every figure and claim, then the report."""

from typing import Annotated

import typer

from softmaxlab.cli.options import Out, Plugin, Preset

EXAMPLES = "Examples:  softmaxlab reproduce  ·  softmaxlab reproduce --preset paper --out runs --report report"


def command(
    preset: Preset = "quick",
    out: Out = "runs",
    report: Annotated[str, typer.Option(help="Folder for the report.")] = "report",
    plugin: Plugin = None,
) -> None:
    """Compute every figure, check every claim, and write report/index.html. Resumable: finished figures are kept."""
    from softmaxlab.report.reproduce import reproduce

    outcome = reproduce(preset, out, report)
    typer.echo(outcome.summary())
    if not outcome.ok:
        raise typer.Exit(1)
