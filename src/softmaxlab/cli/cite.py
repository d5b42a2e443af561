"""softmaxlab cite: BibTeX for a figure, a claim, a map, or softmaxlab itself."""

from typing import Annotated

import typer

EXAMPLES = "Examples:  softmaxlab cite  ·  softmaxlab cite attention/maps  ·  softmaxlab cite sparsemax"


def command(
    what: Annotated[str, typer.Argument(metavar="ID", help="A figure, claim, map or BibTeX key.")] = "softmaxlab",
) -> None:
    """Print the BibTeX entry to cite when you use something."""
    from softmaxlab.papers.citation import citation

    typer.echo(citation(what))
