"""softmaxlab check: claims → verdict table."""

from typing import Annotated

import typer

from softmaxlab.cli.options import Json, Plugin, print_json

EXAMPLES = (
    "Examples:  softmaxlab check  ·  softmaxlab check attention/bayes-mean --json  ·  "
    "softmaxlab check --refined specialization/combinations  ·  softmaxlab check --figures polarization"
)


def command(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID ...]", help="Claims or groups of claims; all if none is given.")
    ] = None,
    refined: Annotated[
        bool, typer.Option("--refined", help="Make the refined findings and those at the paper's protocol anew.")
    ] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="Compare quick figures with stored numbers of the paper preset instead.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Store the findings that --refined made.")] = False,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Check claims. The exit code is 1 if a verdict differs from the one stored with its claim, or a control passes.

    Findings that take minutes are stored; a stored one of other code is stale and does not count.
    With --figures IDs are those of figures: exit code 1 if a quick figure shows other numbers than the paper preset.
    """
    import dataclasses

    from softmaxlab.papers.index import claims

    if figures:
        _check_figures(ids or [], refined, write, json)
        return
    if write and not refined:
        raise typer.BadParameter("it stores what --refined makes: give both", param_hint="--write")
    named = claims(ids or ())  # first: a misspelt id is refused before anything heavy is imported

    from softmaxlab.core.progress import Progress
    from softmaxlab.papers import records
    from softmaxlab.papers.claim import Check, check, refine

    wanted = [claim for claim in named if (claim.slow and not claim.live) or not refined]
    checks: list[Check] = []
    with Progress(len(wanted), "claims") as progress:
        for claim in wanted:
            done = check(claim)
            if refined:
                done = dataclasses.replace(done, stored=refine(claim))
            if write:
                records.write(claim.id, claim.judge, done.stored)
            checks.append(done)
            progress.advance()
    if json:
        print_json([done.plain() for done in checks])
    else:
        _print(checks)
    if not all(done.ok for done in checks):
        raise typer.Exit(1)


def _check_figures(ids: list[str], refined: bool, write: bool, json: bool) -> None:
    from softmaxlab.core.progress import Progress
    from softmaxlab.papers.index import figures
    from softmaxlab.papers.paper_level import compare, is_compared

    compared = [figure for figure in figures(ids) if is_compared(figure)]
    comparisons = []
    with Progress(len(compared), "figures") as progress:
        for figure in compared:
            comparisons.append(compare(figure, refined=refined, store=write))
            progress.advance()
    if json:
        print_json([comparison.plain() for comparison in comparisons])
    else:
        for each in comparisons:
            stored = f"paper preset of {each.paper.date}" if each.paper else "no paper preset"
            typer.echo(
                f"{each.figure.id}: {len(each.quick.numbers)} numbers, {stored}: {'; '.join(each.problems) or 'ok'}"
            )
    if not all(each.ok for each in comparisons):
        raise typer.Exit(1)


def _print(checks: list) -> None:
    """Print each claim with its verdict, and below them what stands behind it, a line or paragraph each."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from softmaxlab.papers.errata import errata

    console = Console(highlight=False)
    for done in checks:
        claim = done.claim
        rows = [("place", claim.place), ("says", claim.statement), ("measured", done.finding.measured)]
        rows += [
            (
                _SHORT[level],
                f"{record.measured} ({record.effort})" if level in done.findings else "stale: made by other code",
            )
            for level, record in done.stored.items()
        ]
        rows += [("tolerance", claim.tolerance), ("control", f"{claim.control_is}: {done.control_told}")]
        rows += [("evidence", done.evidence)]
        texts = {"condition": claim.condition, "why": claim.why, "proof": claim.proof, "remark": claim.remark}
        rows += [(name, text) for name, text in texts.items() if text]
        rows += [("erratum", str(errata()[id])) for id in claim.erratum]
        as_stored = "" if done.as_expected else f" (stored: {claim.expected})"
        console.print(Text.assemble((claim.id, "bold"), f"  {done.settled}{as_stored}"))
        details = Table.grid(padding=(0, 1))
        details.add_column(width=10, style="dim")
        details.add_column(overflow="fold")
        for name, text in rows:
            details.add_row(Text(name), Text(text))
        console.print(Padding(details, (0, 0, 1, 2)))


_SHORT = {"refined": "refined", "paper protocol": "protocol"}
