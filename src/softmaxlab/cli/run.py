"""softmaxlab run: one figure, or one spec from a file, as data and picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softmaxlab.cli.options import Json, Out, Plugin, Preset, parse_settings, print_json
from softmaxlab.errors import SpecError, unknown

if TYPE_CHECKING:
    from softmaxlab.core.result import Result
    from softmaxlab.core.spec import Spec

EXAMPLES = (
    "Examples:  softmaxlab run attention/maps  ·  softmaxlab run attention/maps --preset paper --set tokens=16"
    "  ·  softmaxlab run spec.json --format pdf --style icml"
)


def command(
    what: Annotated[str, typer.Argument(metavar="ID_OR_FILE", help="A figure's id, or a JSON file with a spec.")],
    preset: Preset = "quick",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated.")
    ] = None,
    out: Out = "runs",
    format: Annotated[str, typer.Option(help="png, svg or pdf.")] = "png",
    style: Annotated[str, typer.Option(help="screen, or a journal's column: icml, neurips, aps.")] = "screen",
    device: Annotated[str, typer.Option(help="Where tensors live.")] = "cpu",
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Compute one figure (or a spec from a file), keep the data and draw the picture."""
    spec = _spec(what, preset).replace(**parse_settings(settings))
    _check_look(format, style)

    from softmaxlab.core.simulate import simulate
    from softmaxlab.core.store import Store
    from softmaxlab.papers.plot import plot
    from softmaxlab.papers.style import save

    store = Store(out)
    result = simulate(spec, store=store, device=device)
    name = getattr(spec, "id", spec.key)
    picture = save(plot(result), Path(out) / name, format, style)
    _report(name, result, store.folder(spec.key), picture, json)
    if not result.status.ok:
        raise typer.Exit(1)


def _spec(what: str, preset: str) -> "Spec":
    if what.endswith(".json"):
        from softmaxlab.core.spec import from_json

        try:
            return from_json(Path(what).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"cannot read the spec {what!r}: {error}") from None
    from softmaxlab.papers.catalogue import figure

    return figure(what).preset(preset)


def _check_look(format: str, style: str) -> None:
    """Refuse an unknown format or style before the work, not after it."""
    from softmaxlab.papers.style import FORMATS, STYLES

    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if style not in STYLES:
        raise unknown("style", style, STYLES)


def _report(name: str, result: "Result", data: Path, picture: Path, json: bool) -> None:
    if json:
        print_json(
            {
                "id": name,
                "status": result.status.outcome,
                "sentence": result.status.sentence,
                "spec": result.spec.plain() if result.spec else None,
                "data": str(data),
                "picture": str(picture),
                "provenance": dict(result.provenance),
            }
        )
        return
    typer.echo(f"{name}: {result.status}")
    typer.echo(f"  data     {data}")
    typer.echo(f"  picture  {picture}")
