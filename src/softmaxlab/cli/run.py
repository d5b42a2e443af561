"""softmaxlab run: one figure, or one spec from a file, as data and picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softmaxlab.cli.options import Json, Long, Out, Plugin, allowed_time, clean_stdout, parse_settings, print_json
from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    from softmaxlab.core.result import Result
    from softmaxlab.core.spec import Spec

EXAMPLES = (
    "Examples:  softmaxlab run attention/maps  ·  softmaxlab run attention/maps --preset paper --set tokens=16"
    "  ·  softmaxlab run spec.json --format pdf --style icml"
)


def command(
    what: Annotated[str, typer.Argument(metavar="ID_OR_FILE", help="A figure's id, or a JSON file with a spec.")],
    preset: Annotated[
        str | None,
        typer.Option(help="How much to compute: quick (default) or paper; studies also have committed and later."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated.")
    ] = None,
    out: Out = "runs",
    format: Annotated[str, typer.Option(help="png, svg or pdf.")] = "png",
    style: Annotated[str, typer.Option(help="screen, or a journal's column: icml, neurips, aps.")] = "screen",
    device: Annotated[str, typer.Option(help="Device of the tensors: cpu, cuda.")] = "cpu",
    long: Long = False,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Compute one figure (or a spec from a file), keep the data and draw the picture."""
    changes = parse_settings(settings)
    spec = _spec(what, preset).replace(**changes)  # first: a misspelt id is refused before anything heavy is imported

    from softmaxlab.core.simulate import simulate
    from softmaxlab.core.store import Store
    from softmaxlab.papers.figure import FigureSpec
    from softmaxlab.plotting.journal import check_look, save
    from softmaxlab.plotting.plot import can_plot, plot

    check_look(format, style)
    store = Store(out)
    with allowed_time(long), clean_stdout(json):
        result = simulate(spec, store=store, device=device)
    name = _name(spec, bool(changes) or what.endswith(".json"))
    drawn = plot(result) if can_plot(result) else None
    caption = " ".join(drawn.get_suptitle().replace("$", "").split()) if drawn else ""
    picture = save(drawn, Path(out) / f"{name}{_look(preset, style)}", format, style) if drawn else None
    seen = spec.seen(result) if isinstance(spec, FigureSpec) and result.status.ok else ""
    _report(name, result, store.folder(spec.key), picture, {"caption": caption, "shows": seen}, json)
    if not result.status.ok:
        raise typer.Exit(1)


def _name(spec: "Spec", changed: bool) -> str:
    """Return the figure's id, with the key behind it if its settings were changed or come from a file."""
    id = getattr(spec, "id", None)
    if id is None:
        return spec.key
    return f"{id}-{spec.key[:8]}" if changed else id


def _look(preset: str | None, style: str) -> str:
    """The end of the picture's name, so that presets and styles do not replace each other."""
    named = [word for word, usual in ((preset or "quick", "quick"), (style, "screen")) if word != usual]
    return "".join(f"-{word}" for word in named)


def _spec(what: str, preset: str | None) -> "Spec":
    if what.endswith(".json"):
        if preset is not None:
            raise SpecError(f"a spec from a file has no presets, got --preset {preset}")
        from softmaxlab.core.spec import from_json

        try:
            return from_json(Path(what).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"cannot read the spec {what!r}: {error}") from None
    from softmaxlab.papers.index import figure

    return figure(what).preset(preset or "quick")


def _report(name: str, result: "Result", data: Path, picture: Path | None, words: dict[str, str], json: bool) -> None:
    if json:
        print_json(
            {
                "id": name,
                "status": result.status.outcome,
                "sentence": result.status.sentence,
                "spec": result.spec.plain() if result.spec else None,
                "data": str(data),
                "picture": str(picture) if picture else None,
                **words,
                "provenance": dict(result.provenance),
            }
        )
        return
    typer.echo(f"{name}: {result.status}")
    typer.echo(f"  data     {data}")
    typer.echo(f"  picture  {picture or 'none is known for this kind of spec'}")
    for word, said in words.items():  # the caption: a journal's picture has no heading
        if said:
            typer.echo(f"  {word:<8} {said}".replace("\n", "\n" + 11 * " "))
