"""softmaxlab cite: BibTeX for a figure, a claim, a map; or for both papers and softmaxlab itself."""

from typing import Annotated

import typer

from softmaxlab.cli.options import Plugin

EXAMPLES = "Examples:  softmaxlab cite  ·  softmaxlab cite attention/maps  ·  softmaxlab cite sparsemax"


def command(
    what: Annotated[str | None, typer.Argument(metavar="ID", help="A figure, claim, map or BibTeX key.")] = None,
    plugin: Plugin = None,
) -> None:
    """Print the BibTeX entry to cite for something; without ID, those of both papers and of softmaxlab."""
    from softmaxlab.papers.citation import OURS, citation

    typer.echo("\n\n".join(citation(each) for each in (OURS if what is None else (what,))))
