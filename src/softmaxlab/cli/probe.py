"""softmaxlab probe: the heads of a pretrained model."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from softmaxlab.cli.options import print_json

EXAMPLES = (
    "Examples:  softmaxlab probe smollm2  ·  softmaxlab probe ./folder --text book.txt --length 1024 --out probed"
    "  ·  softmaxlab probe smollm2 --swap softmax1:-5 --swap sparsemax"
    "  ·  softmaxlab probe gpt2 --compare distilgpt2 --json"
    "  ·  softmaxlab probe owner/name --revisions step1000,step143000"
)
INTERRUPTED = 130
FLAG = " "  # shown after a flag, which takes no value

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder, a .gguf file, a Hub id, or smollm2, the demo.")]
Text = Annotated[
    str, Option(metavar="FILE", help="Text or .jsonl file, - for stdin, or built in: python, licence, kjv.")
]
Length = Annotated[int | None, Option(metavar="T", help="Tokens of a sequence; 512, or what the model takes.")]
Samples = Annotated[int, Option(metavar="N", help="Number of sequences.")]
Bos = Annotated[str, Option(metavar="auto|yes|no", help="Begin with a BOS token; auto: as the tokenizer does.")]
Eps = Annotated[float, Option(metavar="ε", help="Mean weight above which a key is called a sink.")]
Device = Annotated[str | None, Option(metavar="NAME", help="cpu, cuda, cuda:1, mps.")]
DeviceMap = Annotated[
    str | None, Option("--device-map", metavar="auto", help="Spread a large model over what there is.")
]
Dtype = Annotated[str | None, Option(metavar="NAME", help="float32, bfloat16, float16, float64; else its own.")]
BatchSize = Annotated[int, Option("--batch-size", metavar="N", help="Sequences at once.")]
Layers = Annotated[str | None, Option(metavar="0-5,11", help="Show only these in the table.")]
Seed = Annotated[int, Option(metavar="N", help="Where the text is cut.")]
Statistics = Annotated[
    str, Option(metavar="full|fast", help="fast: without sparsity, effective keys and sink positions.")
]
Eager = Annotated[bool, Option("--eager", metavar=FLAG, help="Through the model's own weights, if it cannot switch.")]
Folder = Annotated[str | None, Option("--out", metavar="FOLDER", help="Write tables, pictures and a page here.")]
Format = Annotated[str, Option(metavar="csv|parquet", help="Of the tables; parquet with the extra tables.")]
Compare = Annotated[list[str] | None, Option(metavar="MODEL", help="Another model on the same text; may be repeated.")]
Swaps = Annotated[
    list[str] | None,
    Option(metavar="MAP[:BIAS]", help="The same model with another map (softmaxlab list maps); may be repeated."),
]
Bias = Annotated[
    str | None, Option(metavar="B", help='Of every --swap without its own: a number, calibrated, or "-log n".')
]
Mitigate = Annotated[
    str | None, Option(metavar="prefix|bias", help="Fold the sink away: its cost in float and in simulated int8.")
]
Check = Annotated[
    bool, Option("--check", metavar=FLAG, help="Compare with eager attention on a short prefix; exit 1 if off.")
]
Prune = Annotated[int | None, Option(metavar="N", help="Remove N heads greedily: the redundancy curve.")]
Revisions = Annotated[str | None, Option(metavar="A,B,…", help="Checkpoints of a Hub id, one row each.")]
Attention = Annotated[str | None, Option(metavar="LAYER.HEAD,…", help="Draw these heads' patterns; needs --out.")]
Json = Annotated[bool, Option("--json", metavar=FLAG, help="Print one JSON document on stdout and nothing else there.")]


def command(
    model: Model,
    text: Text = "python",
    length: Length = None,
    samples: Samples = 8,
    bos: Bos = "auto",
    eps: Eps = 0.3,
    device: Device = None,
    device_map: DeviceMap = None,
    dtype: Dtype = None,
    batch_size: BatchSize = 4,
    layers: Layers = None,
    seed: Seed = 0,
    statistics: Statistics = "full",
    eager: Eager = False,
    out: Folder = None,
    format: Format = "csv",
    compare: Compare = None,
    swap: Swaps = None,
    bias: Bias = None,
    mitigate: Mitigate = None,
    check: Check = False,
    prune: Prune = None,
    revisions: Revisions = None,
    attention: Attention = None,
    json: Json = False,
) -> None:
    """Which heads of a model are sinks, how sparse, where activations are massive, and what a change would cost.

    Nothing of the checkpoint is run, and nothing is fetched if the files are there. Ctrl-C prints what there is.
    """
    from softmaxlab.cli import probe_asked as read
    from softmaxlab.cli.probe_swaps import swaps
    from softmaxlab.cli.probe_work import work

    asked = read.Asked(
        model=model, text=text, length=length, samples=samples, bos=bos, eps=eps, device=device,
        device_map=device_map, dtype=dtype, batch_size=batch_size, layers=read.numbers(layers, "--layers"), seed=seed,
        statistics=statistics, eager=eager, out=None if out is None else Path(out).expanduser(), format=format,
        compare=tuple(compare or ()), swap=swaps(swap or (), bias), mitigate=mitigate, check=check, prune=prune,
        revisions=read.words(revisions, "--revisions"), attention=read.heads(attention),
    )  # fmt: skip
    record = work(asked)
    files = _write(record, asked)
    _tell(record, asked, files, json)
    if record.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not record.parts.get("check", {"ok": True})["ok"]:
        raise typer.Exit(1)


def _write(record, asked) -> list[Path]:
    if asked.out is None:
        return []
    from rich.console import Console

    from softmaxlab.report.probe_page import write_page
    from softmaxlab.report.probe_pictures import write_pictures
    from softmaxlab.report.probe_record import write_files

    with Console(stderr=True).status(f"writing to {asked.out}"):  # on a terminal only
        pictures = write_pictures(record, asked.out)
        files = [*write_files(record, asked.out, asked.format), *(path for path, _ in pictures)]
        return [*files, write_page(record, pictures, asked.out)]


def _tell(record, asked, files: list[Path], json: bool) -> None:
    from softmaxlab.cli.probe_show import show
    from softmaxlab.report.probe_record import document

    if json:
        print_json(document(record) | {"files": [str(file) for file in files]})
    else:
        show(record, asked.layers, files)
