"""softmaxlab check: claims → verdict table."""

from typing import Annotated

import typer

from softmaxlab.cli.options import Json, Plugin, print_json

EXAMPLES = "Examples:  softmaxlab check  ·  softmaxlab check attention  ·  softmaxlab check attention/bayes-mean --json"


def command(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID ...]", help="Claims or groups; all if none.")] = None,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Check claims. Exit code 1 if a verdict differs from the one stored with its claim, or a control passes."""
    from softmaxlab.core.progress import Progress
    from softmaxlab.papers.catalogue import claims
    from softmaxlab.papers.claim import Check, check

    wanted = claims(ids or ())
    checks: list[Check] = []
    with Progress(len(wanted), "claims") as progress:
        for claim in wanted:
            checks.append(check(claim))
            progress.advance()
    if json:
        print_json([done.plain() for done in checks])
    else:
        _print_table(checks)
    if not all(done.ok for done in checks):
        raise typer.Exit(1)


def _print_table(checks: list) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="claims", title_justify="left", show_lines=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("says · measured · tolerance · control")
    table.add_column("verdict")
    for done in checks:
        claim = done.claim
        details = (
            f"says       {claim.statement}\nmeasured   {done.finding.measured}\ntolerance  {claim.tolerance}\n"
            f"control    {claim.control_is}: {done.control_told}"
        )
        as_stored = "" if done.finding.verdict is claim.expected else f"\n(stored: {claim.expected})"
        table.add_row(f"{claim.id}\n{claim.place}", escape(details), f"{done.finding.verdict}{as_stored}")
    Console().print(table)
