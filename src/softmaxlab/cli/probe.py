"""softmaxlab probe: the heads of a pretrained model."""

import sys
from functools import partial
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from typer import Option

from softmaxlab.cli.options import Plugin, print_json, quiet_progress
from softmaxlab.core.documents import user_folder
from softmaxlab.errors import SpecError

EXAMPLES = (
    "Examples:  softmaxlab probe smollm2  ·  softmaxlab probe ./folder --text book.txt --length 1024 --out probed"
    "  ·  softmaxlab probe smollm2 --swap softmax1:-5 --swap sparsemax"
    "  ·  softmaxlab probe gpt2 --compare distilgpt2 --json"
    "  ·  softmaxlab probe owner/name --revisions step1000,step143000"
    "  ·  softmaxlab probe ./folder --length 131072 --samples 1 --queries 1024"
    "  ·  softmaxlab probe smollm2 --plugin mymodule --swap mymap"
)
INTERRUPTED = 130
FLAG = " "  # shown after a flag, which takes no value

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder, a .gguf file, a Hub id, or smollm2, the demo.")]
Text = Annotated[
    str, Option(metavar="FILE", help="Text or .jsonl file, - for stdin, or built in: python, licence, kjv.")
]
Length = Annotated[int | None, Option(metavar="T", help="Tokens per sequence; 512, or what the model takes.")]
Samples = Annotated[int, Option(metavar="N", help="Number of sequences.")]
Bos = Annotated[str, Option(metavar="auto|yes|no", help="Begin with a BOS token; auto: as the tokenizer does.")]
Eps = Annotated[float, Option(metavar="ε", help="Mean weight above which a key is called a sink.")]
Device = Annotated[str | None, Option(metavar="NAME", help="cpu, cuda, cuda:1, mps.")]
DeviceMap = Annotated[
    str | None, Option("--device-map", metavar="auto", help="Spread a large model over the devices there are.")
]
Dtype = Annotated[str | None, Option(metavar="NAME", help="float32, bfloat16, float16, float64; else the model's own.")]
BatchSize = Annotated[int, Option("--batch-size", metavar="N", help="Sequences at once.")]
Layers = Annotated[str | None, Option(metavar="0-5,11", help="Show only these in the table.")]
Seed = Annotated[int, Option(metavar="N", help="Seed of the places where the text is cut.")]
Statistics = Annotated[
    str, Option(metavar="full|fast", help="fast leaves out sparsity, effective keys and sink positions.")
]
Queries = Annotated[int | None, Option(metavar="N", help="Measure N random queries of each longer sequence.")]
Eager = Annotated[bool, Option("--eager", metavar=FLAG, help="Measure the weights that the model itself returns.")]
Folder = Annotated[str | None, Option("--out", metavar="FOLDER", help="Write tables, pictures and a page here.")]
Format = Annotated[str, Option(metavar="csv|parquet", help="Format of the tables; parquet needs the extra tables.")]
Compare = Annotated[
    list[str] | None, Option(metavar="MODEL", help="Measure another model on the same text; may be repeated.")
]
Swaps = Annotated[
    list[str] | None,
    Option(metavar="MAP[:BIAS]", help="Measure the model with another map (softmaxlab list maps); may be repeated."),
]
Bias = Annotated[
    str | None, Option(metavar="B", help='Bias of every --swap without its own: a number, calibrated, or "-log n".')
]
Mitigate = Annotated[
    str | None, Option(metavar="prefix|bias", help="Fold the sink away; show the cost in float and in int8.")
]
Check = Annotated[
    bool, Option("--check", metavar=FLAG, help="Compare with eager attention; exit code 1 if they differ.")
]
Prune = Annotated[int | None, Option(metavar="N", help="Remove N heads, always the cheapest next.")]
Rule = Annotated[str, Option(metavar="none|count|total", help="How --prune removes: plainly, or scaling others up.")]
Unchanged = Annotated[
    bool,
    Option("--compare-logits/--no-compare-logits", metavar=FLAG, help="Stop if measuring changes the model's output."),
]
Revisions = Annotated[str | None, Option(metavar="A,B,…", help="Measure these checkpoints of a Hub id.")]
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
    queries: Queries = None,
    eager: Eager = False,
    out: Folder = None,
    format: Format = "csv",
    compare: Compare = None,
    swap: Swaps = None,
    bias: Bias = None,
    mitigate: Mitigate = None,
    check: Check = False,
    prune: Prune = None,
    rule: Rule = "none",
    compare_logits: Unchanged = True,
    revisions: Revisions = None,
    attention: Attention = None,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Measure the heads of a model: sinks, sparsity, massive activations, and what a change would cost.

    Nothing of the checkpoint is run, and nothing is fetched if the files are there. Ctrl-C prints what there is.
    """
    from softmaxlab.probing import options, report
    from softmaxlab.probing.session import ProbeSession
    from softmaxlab.report.probe_files import write_probe
    from softmaxlab.report.probe_terminal import print_probe

    chosen = options.ProbeOptions(
        model=model, text=text, length=length, samples=samples, bos=cast(Any, bos), eps=eps, device=device,
        device_map=device_map, dtype=dtype, batch_size=batch_size, layers=options.parse_layers(layers), seed=seed,
        statistics=cast(Any, statistics), queries=queries, eager=eager, compare=tuple(compare or ()),
        swap=options.parse_swaps(swap or (), bias), mitigate=cast(Any, mitigate), check=check, prune=prune,
        rule=cast(Any, rule), compare_logits=compare_logits,
        revisions=options.parse_revisions(revisions), attention=options.parse_heads(attention),
    )  # fmt: skip
    if chosen.attention and out is None:
        raise SpecError("--attention draws pictures: say where with --out FOLDER")
    folder = None if out is None else user_folder("--out", out)
    report.check_output(folder, format)
    with quiet_progress():
        result = ProbeSession(chosen, partial(typer.echo, err=True), _say_loading).run()
    with Console(stderr=True).status(f"writing to {folder}"):  # on a terminal only
        files = [] if folder is None else write_probe(result, folder, format)
    if json:
        print_json(result.document() | {"files": [str(file) for file in files]})
    else:
        print_probe(result, chosen.layers, files)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not result.ok:
        raise typer.Exit(1)


def _say_loading(name: str) -> None:
    if sys.stderr.isatty():
        typer.echo(f"loading {name}", err=True)
