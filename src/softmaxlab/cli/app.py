"""The `softmaxlab` program. Exit codes: 0 done, 1 a claim or run failed, 2 bad input, 130 interrupted."""

import io
import logging
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from softmaxlab import __version__
from softmaxlab.cli import bench, check, cite, explore, list, probe, reproduce, run, sweep
from softmaxlab.cli.arguments import option_of, value_of
from softmaxlab.cli.options import Plugin
from softmaxlab.cli.signals import ends_like_ctrl_c, leave
from softmaxlab.core import current_folder
from softmaxlab.core.user_code import place_of
from softmaxlab.errors import SoftmaxlabError, UserCodeError

UsageError: Any = typer.BadParameter.__bases__[0]  # whatever typer raises for options and arguments
INTERRUPTED = 130  # typer's exit code for Ctrl-C

_shows_tracebacks = False

app = typer.Typer(
    name="softmaxlab",
    help="A laboratory for how softmax attention learns.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("list", epilog=list.EXAMPLES)(list.command)
app.command("run", epilog=run.EXAMPLES)(run.command)
app.command("check", epilog=check.EXAMPLES)(check.command)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.command)
app.command("probe", epilog=probe.EXAMPLES)(probe.command)
app.command("explore", epilog=explore.EXAMPLES)(explore.command)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.command)
app.command("cite", epilog=cite.EXAMPLES)(cite.command)
app.command("bench", epilog=bench.EXAMPLES)(bench.command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"softmaxlab {__version__}")
        raise typer.Exit


def _debug(asked: bool) -> None:
    global _shows_tracebacks
    _shows_tracebacks = asked


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", callback=_debug, is_eager=True, help="Show the traceback of an error.")
    ] = False,
    plugin: Plugin = None,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; every expected failure is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows question marks
    current_folder.ignore()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("softmaxlab").setLevel(logging.INFO)
    try:
        with ends_like_ctrl_c():
            sys.exit(app(arguments, standalone_mode=False))
    except UsageError as error:
        if not str(error):  # without arguments: the help has been printed
            sys.exit(2)
        typer.echo(f"error: {error.format_message()}{value_of(error, arguments or sys.argv[1:])}", err=True)
        sys.exit(2)
    except UserCodeError as error:
        _fail(error, 1)
    except SoftmaxlabError as error:
        _fail(f"{error}{_plugin_hint(str(error))}", 2)
    except OSError as error:  # a folder that cannot be written, a full disk
        _fail(f"{option_of(error, arguments or sys.argv[1:])}{error}", 2)
    except MemoryError as error:
        _fail(f"there is not enough memory for this: {error or 'an allocation failed'}", 1)
    except Exception as error:
        _fail(_unexpected(error), 1)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            typer.echo("interrupted; finished results are kept", err=True)
            leave(is_program=arguments is None)
        raise
    except KeyboardInterrupt:  # before or after the command itself
        leave(is_program=arguments is None)


def _fail(message: object, code: int) -> None:
    """Print one line, after the traceback if it was asked for, and end."""
    if _shows_tracebacks:
        traceback.print_exc()
    typer.echo(f"error: {' '.join(str(message).split())}", err=True)
    sys.exit(code)


def _plugin_hint(message: str) -> str:
    """Return what to add about an unknown name that may be the user's own; of a figure or claim, if none is like it."""
    unknown = re.search(r"\bunknown (map|kind|loss|prior|figure|claim) ", message)
    if unknown is None or (unknown[1] in ("figure", "claim") and "did you mean" in message):
        return ""
    return " (if it is yours, name its module with --plugin)"


def _unexpected(error: Exception) -> str:
    """Return what a user can do about an unexpected error: look at a place in their own code, or report the error."""
    reason = f"{type(error).__name__}: {error}"
    if place := place_of(error):
        return f"{place}: {reason}"
    return f"unexpected {reason}; this is a defect of softmaxlab, --debug shows where"
