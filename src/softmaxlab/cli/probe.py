"""softmaxlab probe: the heads of a pretrained model."""

from pathlib import Path
from typing import Annotated

import typer

from softmaxlab.cli.options import Json, print_json

EXAMPLES = (
    "Examples:  softmaxlab probe smollm2  ·  softmaxlab probe ./folder --text book.txt --length 1024 --out probed"
    "  ·  softmaxlab probe smollm2 --swap softmax1:-5 --swap sparsemax  ·  softmaxlab probe gpt2 --compare distilgpt2 --json"
    "  ·  softmaxlab probe owner/name --revisions step1000,step143000"
)
INTERRUPTED = 130

Text = Annotated[str, typer.Option(metavar="FILE", help="Text or .jsonl file, - for stdin, or python, licence.")]
Length = Annotated[int | None, typer.Option(help="Tokens of a sequence; 512, or what the model takes.")]
Bos = Annotated[str, typer.Option(help="Begin with a BOS token: auto (as the tokenizer does), yes, no.")]
Eps = Annotated[float, typer.Option(help="Mean weight above which a key is called a sink.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps.")]
DeviceMap = Annotated[str | None, typer.Option("--device-map", help="auto: spread a large model over what there is.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16, float16, float64; the checkpoint's if not given.")]
Layers = Annotated[str | None, typer.Option(help="Show only these in the table: 0-5,11.")]
Statistics = Annotated[str, typer.Option(help="full, or fast: without sparsity, effective keys and sink positions.")]
Eager = Annotated[bool, typer.Option("--eager", help="Through the model's own weights, if it cannot switch.")]
Folder = Annotated[str | None, typer.Option("--out", metavar="FOLDER", help="Write tables, pictures and a page here.")]
Compare = Annotated[str | None, typer.Option(metavar="MODEL", help="Another model on the same text, beside it.")]
Swaps = Annotated[
    list[str] | None,
    typer.Option(metavar="MAP[:BIAS]", help="The same model with another map; may be repeated. See list maps."),
]
Bias = Annotated[
    str | None,
    typer.Option(metavar="B", help='Of every --swap without its own: a number, calibrated, or "-log n".'),
]
Mitigate = Annotated[str | None, typer.Option(help="Fold the sink away: prefix or bias; its cost in float and int8.")]
Check = Annotated[bool, typer.Option("--check", help="Compare with eager attention on a short prefix; exit 1 if off.")]
Prune = Annotated[int | None, typer.Option(metavar="N", help="Remove N heads greedily: the redundancy curve.")]
Revisions = Annotated[str | None, typer.Option(metavar="A,B,…", help="Checkpoints of a Hub id, one row each.")]
Attention = Annotated[str | None, typer.Option(metavar="LAYER.HEAD,…", help="Draw these heads' patterns; needs --out.")]


def command(
    model: Annotated[str, typer.Argument(help="A folder, a .gguf file, a Hub id, or smollm2, the demo.")],
    text: Text = "python",
    length: Length = None,
    samples: Annotated[int, typer.Option(help="Number of sequences.")] = 8,
    bos: Bos = "auto",
    eps: Eps = 0.3,
    device: Device = None,
    device_map: DeviceMap = None,
    dtype: Dtype = None,
    batch_size: Annotated[int, typer.Option(help="Sequences at once.")] = 4,
    layers: Layers = None,
    seed: Annotated[int, typer.Option(help="Where the text is cut.")] = 0,
    statistics: Statistics = "full",
    eager: Eager = False,
    out: Folder = None,
    format: Annotated[str, typer.Option(help="Of the tables: csv, or parquet with the extra.")] = "csv",
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
        compare=compare, swap=swaps(swap or (), bias), mitigate=mitigate, check=check, prune=prune,
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
    from softmaxlab.report.probe_page import write_page
    from softmaxlab.report.probe_pictures import write_pictures
    from softmaxlab.report.probe_record import write_files

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
