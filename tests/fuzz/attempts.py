"""One attempt of each kind: something damaged is given to the program, and what it does is judged.

An attempt is a function of a random generator and an empty folder. It returns what was done, and the fault that was
seen, if there was one: an exception that is not ours, an exit code without meaning, a message that does not name its
field, a file that is left half written or written for a refused command.
"""

import contextlib
import io
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import softmaxlab as sl
from softmaxlab.cli import main
from softmaxlab.core.cost import check_cost
from softmaxlab.core.files import DRAFT
from softmaxlab.core.spec import from_json
from softmaxlab.errors import SoftmaxlabError
from tests.fuzz import values

Outcome = tuple[str, str | None]  # what was done, and what was wrong with it
QUICK = 0.3  # estimated seconds up to which a spec that was accepted is also simulated
SMALL = 2.0**26  # and its bytes
ENDED = (0, 1, 2)
SHOWN = 300  # characters of a description


def run_cli(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and error of the program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return code, out.getvalue(), err.getvalue()


def judged(code: int, err: str, names: Iterable[str], before: set[Path], folder: Path) -> str | None:
    """The fault of a command that ended; `names` are words of which its message must have one."""
    if code not in ENDED:
        return f"exit code {code}"
    if "Traceback" in err:
        return "a traceback"
    if "error: unexpected" in err:
        return err.strip().splitlines()[-1]
    if left := [path.name for path in folder.rglob(f"{DRAFT}*")]:
        return f"left behind {left}"
    if code == 2:
        lines = [line for line in err.splitlines() if line.startswith("error: ")]
        if len(lines) != 1:
            return f"{len(lines)} lines with an error: {err[:SHOWN]!r}"
        if not any(name.lower() in lines[0].lower() for name in names):
            return f"names none of {sorted(names)}: {lines[0][:SHOWN]!r}"
        if written := sorted(str(path.relative_to(folder)) for path in {*folder.rglob("*")} - before):
            return f"wrote {written[:3]} although it was refused"
    return None


def cli(draw: random.Random, folder: Path) -> Outcome:
    """A command with one argument that is damaged. It would be refused or do nothing even if that argument passes."""
    arguments, names = draw.choice(COMMANDS)(draw)
    arguments = [argument.replace("\0", "") for argument in arguments]
    before = {*folder.rglob("*")}
    code, _, err = run_cli(arguments)
    return f"softmaxlab {' '.join(map(repr, arguments))}", judged(code, err, names, before, folder)


def _run(draw: random.Random) -> tuple[list[str], list[str]]:
    figure = draw.choice(_figures())
    field = draw.choice([*_fields(figure), "no_such_field"])
    pair = draw.choice((f"{field}={values.text(draw)}", values.text(draw)))
    options = draw.choice((["--set", pair], _option(draw, ("--preset", "--format", "--style", "--out"))))
    name = options[0].strip("-")
    return ["run", figure, "--device", "nosuch", *options], [field, name, "device", "folder", "store"]


def _sweep(draw: random.Random) -> tuple[list[str], list[str]]:
    task = draw.choice(("induction", "classification", values.text(draw)))
    field = draw.choice(("lr", "task.vocab", "task", "seed", "heads", "width", "map", "epochs", "no_such_field"))
    known = ("--limit", "--jobs", "--executor", "--gpus-per-task", "--table", "--track", "--time", "--elements",
             "--timeout", "--preset", "--device")  # fmt: skip
    options = draw.choice((["--set", f"{field}={values.text(draw)}"], _option(draw, known)))
    gpus = ["--executor", draw.choice(("slurm", "ray"))] if options[0] in ("--gpus-per-task", "--time") else []
    arguments = ["sweep", task, *gpus, *options, "--status"]
    if options[0] != "--limit" and draw.random() < 0.5:
        arguments[-1:] = ["--limit", "0"]
    names = [field.split(".")[0], field, options[0].strip("-"), options[0].strip("-").replace("-", "_")]
    return arguments, [*names, "table", "sweep", "task", "preset", "executor", "spec", "heads", "width", "argument"]


def _probe(draw: random.Random) -> tuple[list[str], list[str]]:
    known = ("--text", "--length", "--samples", "--bos", "--eps", "--device", "--dtype", "--batch-size", "--layers",
             "--seed", "--statistics", "--out", "--format", "--swap", "--mitigate", "--prune", "--rule", "--revisions",
             "--attention", "--bias", "--compare")  # fmt: skip
    options = _option(draw, known)
    return ["probe", "no-such-folder/x/y", *options], [options[0].strip("-"), "no-such-folder", "map", "option"]


def _check(draw: random.Random) -> tuple[list[str], list[str]]:
    return ["check", "no-such/claim", values.text(draw)], ["claim"]


def _reproduce(draw: random.Random) -> tuple[list[str], list[str]]:
    options = _option(draw, ("--out", "--report", "--jobs"))
    return ["reproduce", "--preset", "nosuch", *options], ["preset", options[0].strip("-")]


def _others(draw: random.Random) -> tuple[list[str], list[str]]:
    text = values.text(draw)
    return draw.choice(
        (
            (["list", text], ["listing", "argument", "option"]),
            (["cite", text], ["unknown", "argument", "option"]),
            (["bench", text, "nosuch"], ["benchmark", "argument", "option"]),
            (["bench", "nosuch", "--folder", text], ["folder", "benchmark"]),
            (["explore", "--port", text, "--out", "no-such-folder"], ["port", "out"]),
            (["explore", "--out", f"no-such-{text}"], ["out"]),
            (["list", "--plugin", text], ["plugin"]),
            ([text], ["command", "option", "missing", "argument"]),
            (["run", text, "--device", "nosuch"], ["figure", "spec", "argument", "option"]),
        )
    )


COMMANDS: tuple[Callable[[random.Random], tuple[list[str], list[str]]], ...] = (
    _run, _run, _sweep, _probe, _probe, _check, _reproduce, _others, _others,
)  # fmt: skip


def _option(draw: random.Random, known: tuple[str, ...]) -> list[str]:
    return [draw.choice(known), values.text(draw)]


@cache
def _figures() -> tuple[str, ...]:
    from softmaxlab.papers.index import FIGURES

    return tuple(FIGURES)


@cache
def _fields(figure: str) -> tuple[str, ...]:
    from softmaxlab.papers.index import FIGURES

    return tuple(FIGURES[figure].model_fields)


@cache
def _specs() -> tuple[dict[str, Any], ...]:
    """Valid specs of every laboratory, as JSON values."""
    problem = {"beta": [1.0, 0.5], "V": [[0.1, 0.2], [0.3, 0.1]], "a": [0.0, 0.0]}
    model = {
        "kind": "specialization.SingleLocation",
        "prior": {"kind": "specialization.OneHotSpikes", "F": 2, "nu": 4.0},
        "length": 4,
        "heads": 2,
    }
    task = {"kind": "training.Induction", "vocab": 8, "tokens": 3, "train": 32, "evaluate": 8}
    classes = {"kind": "training.Classification", "vocab": 9, "labels": 2, "tokens": 3, "train": 32, "evaluate": 8}
    run = {"kind": "training.Run", "width": 8, "heads": 2, "layers": 1, "epochs": 1, "measure": []}
    return (
        {"kind": "polarization.Flow", "loss": "logistic", **problem, "t_end": 10.0, "points": 5},
        {"kind": "polarization.StrengthFlow", "loss": "logistic", **problem, "strength_end": 5.0, "points": 5},
        {"kind": "polarization.Descent", "loss": "square", **problem, "lr": 0.1, "steps": 20, "points": 5},
        {"kind": "specialization.Flow", "model": model, "tau_end": 1.0, "points": 3, "samples": 256},
        {"kind": "specialization.SGD", "model": model, "dim": 50, "batch": 20, "lr": 0.1, "tau_end": 1.0},
        {"kind": "attention.Compare", "scores": [[[0.0, 1.0], [2.0, 3.0]]], "maps": ["softmax", "sigmoid"]},
        run | {"task": task},
        run | {"task": classes, "map": "sigmoid_norm"},
        {"kind": "training.LanguageModel", "steps": 10, "width": 16, "heads": 2},
    )


def spec(draw: random.Random, folder: Path) -> Outcome:
    """A spec with an item changed, or the text of one damaged; what is accepted must be small or say its cost."""
    whole = draw.choice(_specs())
    if draw.random() < 0.25:
        text, field = values.damaged(json.dumps(whole).encode(), draw).decode("utf-8", "replace"), ""
    else:
        changed, field = values.mutated(whole, draw)
        text = json.dumps(changed)
    what = f"spec {text[:SHOWN]}"
    try:
        built = from_json(text)
        check_cost([built], say=False)
        cost = built.estimate()
        if cost.memory > SMALL or cost.seconds is None or cost.seconds > QUICK or built.kind.endswith("LanguageModel"):
            return what, None
        sl.simulate(built, store=folder / "runs")
    except SoftmaxlabError as error:
        message = str(error)
        if "\n" in message:
            return what, f"more than one line: {message[:SHOWN]!r}"
        return what, None if field in message or field in ("kind", "no_such_field") else _names_something(message)
    left = [path.name for path in folder.rglob(f"{DRAFT}*")]
    return what, f"left behind {left}" if left else None


def _names_something(message: str) -> str | None:
    """A message on a change in one field may name another one that no longer goes with it."""
    fields = {str(part) for each in _specs() for path in values.paths(each) for part in path}
    return None if any(field in message for field in fields) else f"names no field: {message[:SHOWN]!r}"


@cache
def _stored() -> tuple[Path, str]:
    """A store with one result, its table and a failure, made once for a process; and the text of its spec."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-store-"))
    made = sl.polarization.Flow(loss="logistic", beta=[1.0], V=[[0.1, 0.2]], a=[0.0, 0.0], t_end=10.0, points=5)
    sl.simulate(made, store=root / "runs")
    key = "0" * 24
    (root / "runs" / "failures").mkdir()
    (root / "runs" / "failures" / f"{key}.json").write_text(
        json.dumps({"key": key, "spec": {}, "reason": "r", "attempts": 1, "host": "h", "traceback": None})
    )
    (root / "table.csv").write_text(f"key,kind,status,sentence,lr\n{made.key},polarization.Flow,done,finished,0.1\n")
    return root, made.json_text()


def store(draw: random.Random, folder: Path) -> Outcome:
    """A file of a store or a table that is damaged: read as absent, refused as damaged, or whole."""
    from softmaxlab.training.attempts import failure
    from softmaxlab.training.table_file import TableFile

    source, text = _stored()
    shutil.copytree(source, folder, dirs_exist_ok=True)
    made = from_json(text)
    file = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    content = file.read_bytes()
    after = values.damaged_json(content, draw) if file.suffix == ".json" else values.damaged(content, draw)
    file.write_bytes(after)
    what = f"store {file.relative_to(folder)}: {after[:SHOWN]!r}"
    opened = sl.Store(folder / "runs")
    whole = sl.Store(source / "runs").get(made)
    assert whole is not None
    try:
        result = opened.get(made)
        if result is not None and not all(np.array_equal(result[name], whole[name]) for name in whole):
            return what, "other numbers were read without a word"
        list(opened)
        failure(folder / "runs", "0" * 24)
        table = TableFile(folder / "table.csv")
        table.ended()
        table.write()
    except SoftmaxlabError as error:
        message = str(error)
        named = file.name in message or file.parent.name in message
        return what, None if named and "\n" not in message else f"does not name the file: {message[:SHOWN]!r}"
    return what, None


@cache
def _checkpoint() -> Path:
    from tests.probing.checkpoints import llama, saved
    from tests.probing.gguf_file import write_gguf

    folder = Path(tempfile.mkdtemp(prefix="fuzz-checkpoint-"))
    model = llama()
    saved(model, folder)
    write_gguf(llama(vocab_size=60), folder / "model.gguf")
    return folder


def checkpoint(draw: random.Random, folder: Path) -> Outcome:
    """A checkpoint with one file damaged, in its first bytes more often: the headers are there."""
    from softmaxlab.probing.gguf import quiet
    from softmaxlab.probing.load import load

    source = _checkpoint()
    file = draw.choice([path for path in sorted(source.iterdir()) if path.is_file()])
    content, head = file.read_bytes(), 4096
    if file.suffix == ".json":
        after = values.damaged_json(content, draw)
    elif draw.random() < 0.7:
        after = values.damaged(content[:head], draw) + content[head:]
    else:
        after = values.damaged(content, draw)
    what = f"checkpoint {file.name}: {after[:60]!r}"
    if file.suffix == ".gguf":
        target = folder / file.name
        target.write_bytes(after)
    else:
        target = folder / "model"
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.gguf"))
        (target / file.name).write_bytes(after)
    try:
        with quiet(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            load(str(target))
    except SoftmaxlabError as error:
        message = str(error)
        if "\n" in message:
            return what, f"more than one line: {message[:SHOWN]!r}"
        return what, None if str(folder) in message or file.name in message else f"names no file: {message[:SHOWN]!r}"
    return what, None


@cache
def _client() -> Any:
    from softmaxlab.app.server import create

    return create(Path(tempfile.mkdtemp(prefix="fuzz-explorer-"))).server.test_client()


def url(draw: random.Random, folder: Path) -> Outcome:
    """An address of the explorer with a query string that is damaged."""
    from urllib.parse import quote

    from softmaxlab.app.server import page_at
    from softmaxlab.app.states import PAGES

    name = draw.choice([*PAGES, values.text(draw)])
    known = [*PAGES[name].model_fields] if name in PAGES else ["p"]
    pairs = [(draw.choice([*known, "no_such_field"]), values.text(draw)) for _ in range(draw.randrange(1, 4))]
    query = "&".join(f"{quote(field)}={quote(value, errors='replace')}" for field, value in pairs)
    if draw.random() < 0.2:
        query = values.damaged(query.encode(), draw).decode("utf-8", "replace")
    what = f"url /{name}?{query}"[:SHOWN]
    page_at(f"/{name}", query, folder)
    form = draw.choice(("csv", "json", "json", "exe"))
    answer = _client().get(
        f"/data/{quote(name, safe='')}.{form}?{quote(query, safe='&=%')}", headers={"Host": "127.0.0.1:8050"}
    )
    if answer.status_code not in (200, 308, 400, 403, 404):
        return what, f"status {answer.status_code}"
    if answer.status_code == 400:
        message = answer.get_data(as_text=True)
        named = any(field in message for field in [*known, "no_such_field", "query", "probe", "folder"])
        return what, None if named else f"names no field: {message[:SHOWN]!r}"
    return what, None


KINDS: dict[str, Callable[[random.Random, Path], Outcome]] = {
    "cli": cli,
    "spec": spec,
    "store": store,
    "checkpoint": checkpoint,
    "url": url,
}
