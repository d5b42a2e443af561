"""`softmaxlab probe` from outside: what it prints, writes and refuses."""

import csv
import html
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from softmaxlab.cli import main
from softmaxlab.probing import watch
from softmaxlab.probing.definitions import FULL
from softmaxlab.probing.gguf import quiet
from softmaxlab.probing.load import load
from softmaxlab.probing.text import texts
from tests.probing.checkpoints import TEXT, WORDS, llama, saved, sizes, tokenizer
from tests.probing.conftest import demo_cache  # noqa: F401  a fixture

ROUNDING = 1e-6  # float32 statistics of the same batches, computed twice in the same way
T, SAMPLES = 24, 4
SMALL = ("--text", "text.txt", "--length", str(T), "--samples", str(SAMPLES))
WAIT = 60  # seconds for a process to begin its work on a busy machine


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    return saved(llama(), tmp_path / "model")


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["probe", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def told(capsys, *arguments: str) -> dict:
    code, out, _ = call(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


def refused(capsys, message: str, *arguments: str) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, ""), (out, err)
    assert re.search(message, err), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err


# what it prints


def test_the_document_holds_what_watch_reports_and_how_to_do_it_again(capsys, folder):
    found = told(capsys, str(folder), *SMALL, "--seed", "3")
    assert found["schema"] == "softmaxlab.probe/1"
    assert found["text"]["sha256"] == texts("text.txt").sha256
    assert (found["text"]["T"], found["text"]["tokens"]) == (T, T * SAMPLES)
    assert found["model"]["sha256"] == load(folder).sha256
    assert set(FULL) <= set(found["definitions"])
    assert {"softmaxlab", "torch", "transformers", "python"} <= set(found["versions"])
    assert len(found["heads"]) == 8
    assert len(found["conclusions"]) == 3
    harmonic = sum(1 / i for i in range(1, T + 1)) / T
    assert found["text"]["uniform_sink"] == {"causal": pytest.approx(harmonic)}
    again = told(capsys, str(folder), *SMALL, "--seed", "3")
    assert again["heads"] == found["heads"]
    assert told(capsys, str(folder), *SMALL, "--seed", "4")["heads"] != found["heads"]


def test_the_numbers_are_those_of_the_library(capsys, folder):
    from softmaxlab.probing.text import sequences

    loaded = load(folder)
    with watch(loaded.model) as w, torch.no_grad():
        loaded.model(torch.stack(sequences(loaded.tokenizer, [TEXT], T, SAMPLES)))
    table, found = w.report(), told(capsys, str(folder), *SMALL)["heads"]
    for name in FULL:
        assert np.allclose([row[name] for row in found], table[name], rtol=ROUNDING, atol=ROUNDING), name


def test_the_table_fits_a_terminal_and_the_closing_lines_come_last(capsys, folder):
    code, out, err = call(capsys, str(folder), *SMALL, "--layers", "1")
    assert code == 0
    assert max(map(len, out.split("heads with sink score")[0].splitlines())) <= 80
    assert "ε = 0.3, T = 24" in out
    assert re.search(r"> 0\.3: \d of 8 .*> 0\.9: \d of 8", out)
    assert [line.split(":")[0] for line in out.splitlines()[-3:]] == [
        "KV cache",
        "Massive activations",
        "Dormant heads",
    ]
    rows = [line for line in out.splitlines() if re.match(r"\s+\d+\s+0\.\d+", line)]
    assert [row.split()[0] for row in rows] == ["1"]
    assert err.count("\n") == 1, "one line says how much work it is"
    assert "2 layers, 8 heads" in err
    assert "4 × 24 tokens" in err
    assert "token 0 is ordinary text" in err


def test_bos_is_said_and_changes_token_0(capsys, folder):
    with_bos = told(capsys, str(folder), *SMALL, "--bos", "yes")
    assert "'<s>', put first on request" in with_bos["text"]["token_0"]


def test_the_fast_statistics_leave_out_what_they_must(capsys, folder):
    found = told(capsys, str(folder), *SMALL, "--statistics", "fast", "--out", "out")
    assert "sparsity" not in found["heads"][0]
    assert found["kv_cache"]["known"] is False
    assert {Path(file).name for file in found["files"]} >= {"heads.csv", "sink.png", "entropy.png", "index.html"}
    assert not Path("out/sparsity.png").exists()


def test_text_from_stdin(capsys, folder, monkeypatch):
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert told(capsys, str(folder), "--text", "-", *SMALL[2:])["text"]["name"] == "stdin"


# what it writes


def test_the_folder_has_tables_pictures_and_one_page_that_needs_nothing_else(capsys, folder):
    out = told(capsys, str(folder), *SMALL, "--out", "out", "--attention", "0.1,1.3")
    names = {Path(file).name for file in out["files"]}
    tables = {"heads.csv", "activations.csv", "profile.csv", "patterns.json", "sinks.json", "report.json", "index.html"}
    pictures = {f"{name}.png" for name in ("sink", "sparsity", "entropy", "activations", "profile", "attention")}
    assert names == tables | pictures == {file.name for file in Path("out").iterdir()}
    with open("out/heads.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["sink"]) for row in rows] == pytest.approx([row["sink"] for row in out["heads"]])
    report = json.loads(Path("out/report.json").read_text())
    assert report == {key: value for key, value in out.items() if key != "files"}
    patterns = json.loads(Path("out/patterns.json").read_text())
    assert set(patterns["patterns"]) == {"0.1", "1.3"}
    assert [len(row) for row in patterns["patterns"]["1.3"]] == [len(patterns["tokens"])] * len(patterns["tokens"])
    sinks = json.loads(Path("out/sinks.json").read_text())
    assert sinks["schema"] == "softmaxlab.sinks/1"
    assert sinks["settings"]["eps"] == 0.3
    assert set(sinks) >= {"keep_positions", "heads_of_position", "sinks", "text", "model"}
    page = Path("out/index.html").read_text()
    assert page.count("data:image/png;base64,") == len(pictures)
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert all(line in html.unescape(page) for line in out["conclusions"])


def test_columns_have_the_same_names_everywhere(capsys, folder):
    _, out, _ = call(capsys, str(folder), *SMALL, "--out", "out", "--swap", "softmax1:0")
    with open("out/heads.csv") as file:
        columns = next(csv.reader(file))
    page = html.unescape(Path("out/index.html").read_text())
    sortable = re.findall(r'<table class="sortable"[^>]*><thead>(.*?)</thead>', page)
    shown = re.findall(r"<button[^>]*>(.*?)</button>", sortable[0])
    assert set(shown) <= set(columns)
    assert {"sink", "sink_output", "effective_keys", "dormant"} <= set(shown)
    by_layer = json.loads(Path("out/report.json").read_text())["layers"][0]
    above, below = (line.split() for line in out.splitlines()[2:4])
    assert set(below[:2]) <= set(by_layer)
    assert {"sink>0.3", "sink>0.9", "effective_keys", "sink_value", "sink_output", "top"} <= set(by_layer)
    assert above == ["sink", "sink", "effective_", "sink_", "sink_"]
    assert below[2:4] == [">0.3", ">0.9"]
    assert below[-4:] == ["keys", "value", "output", "top"]
    assert '<meta name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert page.index("What the columns mean") > page.index('class="sortable"')


def test_dormant_heads_are_all_told(capsys, folder):
    found = told(capsys, str(folder), *SMALL, "--eps", "0.05", "--out", "out")
    right = [row["sink"] > 0.05 and row["sink_output"] > 0.5 for row in found["heads"]]
    assert [row["dormant"] for row in found["heads"]] == right
    with open("out/heads.csv") as file:
        assert [row["dormant"] for row in csv.DictReader(file)] == [str(value) for value in right]


def test_help_shows_no_types_of_flags(capsys):
    _, out, _ = call(capsys, "--help")
    flags = [line for line in out.splitlines() if "<bool>" in line]
    assert [line.split()[1] for line in flags] in ([], ["--help"])


def test_progress_is_for_terminals(folder, capsys, caplog, monkeypatch):
    from softmaxlab.core import progress

    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    caplog.set_level("INFO")
    call(capsys, str(folder), *SMALL)
    assert not caplog.records
    loaded = load(folder)
    from softmaxlab.probing import loss

    loss(loaded.model, [torch.arange(8)])
    assert caplog.records, "the library itself does log"


def test_tables_as_parquet(capsys, folder):
    import duckdb

    told(capsys, str(folder), *SMALL, "--out", "out", "--format", "parquet")
    assert duckdb.sql("SELECT count(*) FROM 'out/heads.parquet'").fetchall() == [(8,)]


# changes


def test_a_swap_prints_its_cost(capsys, folder):
    code, out, _ = call(capsys, str(folder), *SMALL, "--swap", "softmax1", "--bias", "-30")
    assert code == 0
    assert re.search(r"softmax1:-30: Δloss [+-]0\.0000 ± 0\.0000 nats per token", out)
    found = told(capsys, str(folder), *SMALL, "--swap", "sigmoid", "--bias", "-log n")
    first, second = found["subjects"]
    assert second["loss_change"]["mean"] == pytest.approx(second["loss"]["mean"] - first["loss"]["mean"], abs=ROUNDING)
    assert second["loss_change"]["se"] > 0
    assert {row["subject"] for row in found["heads"]} == {str(folder), "sigmoid:-log n"}
    assert found["comparisons"][0]["subject"] == "sigmoid:-log n"


def test_every_swap_has_its_row_and_its_cost(capsys, folder):
    maps = ("--swap", "softmax1", "--swap", "sparsemax", "--swap", "sigmoid:calibrated", "--bias", "-4")
    labels = ["softmax1:-4", "sparsemax", "sigmoid:calibrated"]
    found = told(capsys, str(folder), *SMALL, *maps)
    assert [row["subject"] for row in found["subjects"][1:]] == labels == found["settings"]["swap"]
    alone = told(capsys, str(folder), *SMALL, "--swap", "sparsemax")["subjects"][1]
    assert found["subjects"][2]["loss_change"]["mean"] == pytest.approx(alone["loss_change"]["mean"], abs=ROUNDING)
    _, out, _ = call(capsys, str(folder), *SMALL, *maps)
    for label in labels:
        assert re.search(rf"^ {label} .* [+-]\d\.\d{{3}} ± \d\.\d{{3}} *$", out, re.MULTILINE), out
        assert re.search(rf"^{label}: Δloss", out, re.MULTILINE)
    assert "fitted on 4 × 24 tokens of 'text.txt', none of which is measured" in out


def test_every_run_tells_the_loss(capsys, folder):
    loaded = load(folder)
    from softmaxlab.probing import loss, sequences

    right = loss(loaded.model, [torch.stack(sequences(loaded.tokenizer, [TEXT], T, SAMPLES))])
    _, out, _ = call(capsys, str(folder), *SMALL)
    assert str(right) in out


@pytest.mark.parametrize("fitting", [("--mitigate", "prefix"), ("--prune", "1"), ("--swap", "sigmoid:calibrated")])
def test_fitting_does_not_change_what_is_measured(capsys, folder, fitting):
    plain, fitted = (told(capsys, str(folder), *SMALL, *more) for more in ((), fitting))
    name = str(folder)
    assert [row for row in fitted["heads"] if row.pop("subject", name) == name] == plain["heads"]
    assert fitted["text"]["calibration"] == "4 × 24 tokens of 'text.txt', none of which is measured"
    assert plain["text"]["calibration"] is None


@pytest.mark.parametrize("seed", range(4))
def test_text_to_fit_on_is_not_measured(folder, seed):
    from softmaxlab.probing.sampling import SamplingOptions, sample_inputs

    Path("numbers.txt").write_text(" ".join(WORDS[4:]))  # every token once: an overlap would show
    options = SamplingOptions(6, 4, "auto", seed, 4, calibration=True)
    inputs = sample_inputs(load(folder), texts("numbers.txt"), options)
    tokens = [row["input_ids"].flatten().tolist() for row in (*inputs.batches, *inputs.calibration)]
    assert len(tokens[0]) == 24
    assert len(tokens[1]) >= 6
    assert len(set(tokens[0] + tokens[1])) == len(tokens[0]) + len(tokens[1])


def test_a_calibrated_swap_is_fitted_on_other_text(capsys, folder):
    found = told(capsys, str(folder), *SMALL, "--swap", "softmax1", "--bias", "calibrated")
    first, second = found["subjects"]
    assert second["total"] == pytest.approx(1 - first["sink"], abs=0.02)  # random weights: other text is much the same


def test_two_models_side_by_side(capsys, folder, tmp_path):
    torch.manual_seed(1)
    other = llama()
    with torch.no_grad():
        other.lm_head.weight.mul_(3.0)
    saved(other, tmp_path / "other")
    found = told(capsys, str(folder), *SMALL, "--compare", str(tmp_path / "other"))
    assert found["subjects"][1]["loss_change"]["mean"] != 0
    assert found["notes"] == []
    saved(other, tmp_path / "third", tokenizer(bos=True))
    others = ("--compare", str(tmp_path / "other"), "--compare", str(tmp_path / "third"))
    assert len(told(capsys, str(folder), *SMALL, *others)["subjects"]) == 3
    found = told(capsys, str(folder), *SMALL, "--compare", str(tmp_path / "third"))
    assert found["subjects"][1]["loss_change"] is None
    assert "other tokens" in found["notes"][0]


def test_revisions_are_one_row_each(capsys, folder, monkeypatch):
    from softmaxlab.probing import session

    def at(name, revision=None, **options):
        loaded = load(name, **options)
        with torch.no_grad():
            loaded.model.lm_head.weight.mul_({"a": 1.0, "b": 2.0, "c": 3.0}[revision])
        return loaded

    monkeypatch.setattr(session, "load", at)
    found = told(capsys, str(folder), *SMALL, "--revisions", "a,b,c")
    assert [row["subject"] for row in found["subjects"]] == [f"{folder}@{name}" for name in "abc"]
    assert all(row["loss_change"]["mean"] != 0 for row in found["subjects"][1:])


def test_the_check_agrees_and_would_notice(capsys, folder, monkeypatch):
    found = told(capsys, str(folder), *SMALL, "--check")
    assert found["check"]["ok"]
    assert {row["statistic"] for row in found["check"]["statistics"]} == set(FULL)
    from softmaxlab.probing import eager_check

    def wrong(model, batches, statistics, eps, eager):
        found = measure_heads(model, batches, statistics, eps, eager)
        if eager:
            found.heads["entropy"] *= 1.001
        return found

    measure_heads = eager_check.measure_heads
    monkeypatch.setattr(eager_check, "measure_heads", wrong)
    code, out, _ = call(capsys, str(folder), *SMALL, "--check")
    assert code == 1
    assert "DOES NOT AGREE" in out


@pytest.mark.parametrize("method", ["prefix", "bias"])
def test_mitigation_prints_its_cost_in_float_and_int8(capsys, folder, method):
    found = told(capsys, str(folder), *SMALL, "--mitigate", method)["mitigation"]
    assert [row["what"].split(",")[0].split(" ")[0] for row in found["rows"]] == ["float", *["int8"] * 6]
    assert all(np.isfinite(row["loss_change"]) and row["se"] >= 0 for row in found["rows"])
    by_scales = {row["what"]: row["loss_change"] for row in found["rows"]}
    assert {"int8, one scale per token for inputs", "int8, one scale per token and per channel"} <= set(by_scales)
    assert "per token and channel" in found["who"]


def test_pruning_gives_the_redundancy_curve(capsys, folder):
    found = told(capsys, str(folder), *SMALL, "--prune", "2")
    assert [row["step"] for row in found["pruning"]] == [0, 1, 2]
    assert {"delta", "delta_se"} <= set(found["pruning"][1])
    code, out, _ = call(capsys, str(folder), *SMALL, "--prune", "1")
    assert code == 0
    assert re.search(r"Δloss [+-]\d\.\d{4} ± \d\.\d{4} nats per token", out)


# other kinds of model


def bert(folder: Path):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, **sizes())
    return saved(BertModel(config).eval(), folder, tokenizer(bos=True, pad=True))


def test_an_encoder_reads_padded_texts_and_has_no_loss(capsys, tmp_path):
    words = TEXT.split()
    paragraphs = [" ".join(words[20 * i : 20 * i + 20 + i]) for i in range(12)]
    Path("text.txt").write_text("\n\n".join(paragraphs))
    found = told(capsys, str(bert(tmp_path / "bert")), "--text", "text.txt", "--samples", "6", "--batch-size", "3")
    lengths = found["text"]["lengths"]
    assert len(set(lengths)) > 1
    assert found["heads"][0]["queries"] == sum(lengths), "padding is not counted"
    assert found["text"]["uniform_sink"] == {"both sides": pytest.approx(6 / sum(lengths))}
    swapped = told(capsys, "bert", "--text", "text.txt", "--samples", "6", "--swap", "sparsemax")
    assert "no loss" in swapped["notes"][0]
    assert [line.split(":")[0] for line in swapped["conclusions"]] == ["Massive activations", "Dormant heads"]
    refused(capsys, "--prune is judged by the loss", "bert", "--text", "text.txt", "--samples", "3", "--prune", "1")
    refused(capsys, "--bos yes is for causal models", "bert", "--text", "text.txt", "--bos", "yes")


def test_an_encoder_decoder_has_a_table_of_its_cross_attention(capsys, tmp_path):
    from transformers import T5Config, T5ForConditionalGeneration

    Path("text.txt").write_text(TEXT)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(WORDS), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    saved(T5ForConditionalGeneration(config).eval(), tmp_path / "t5")
    found = told(capsys, "t5", *SMALL, "--swap", "softmax1", "--bias", "-3", "--out", "out")
    assert len(found["cross"]) == 2 * 2 * 4, "two subjects"
    assert set(found["text"]["uniform_sink"]) == {"causal", "both sides"}
    assert found["subjects"][1]["loss_change"]["mean"] != 0
    assert Path("out/cross.csv").exists()
    checked = told(capsys, "t5", *SMALL, "--check")["check"]["statistics"]
    assert {row["statistic"] for row in checked if row["attention"] == "cross"} == set(FULL)
    assert all(row["ok"] in (True, None) for row in checked)


def test_the_check_notices_cross_attention(capsys, tmp_path, monkeypatch):
    from transformers import T5Config, T5ForConditionalGeneration

    from softmaxlab.probing import eager_check

    Path("text.txt").write_text(TEXT)
    torch.manual_seed(0)
    sized = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    config = T5Config(vocab_size=len(WORDS), decoder_start_token_id=0, **sized)
    saved(T5ForConditionalGeneration(config).eval(), tmp_path / "t5")
    measure_heads = eager_check.measure_heads

    def wrong(model, batches, statistics, eps, eager):
        found = measure_heads(model, batches, statistics, eps, eager)
        if eager:
            found.cross["sink"] *= 1.001
        return found

    monkeypatch.setattr(eager_check, "measure_heads", wrong)
    code, out, _ = call(capsys, "t5", *SMALL, "--check")
    assert code == 1
    assert re.search(r"cross sink .* TOO LARGE", out)


def test_a_model_that_cannot_switch_is_measured_when_asked(capsys, tmp_path):
    from transformers import BloomConfig, BloomForCausalLM

    Path("text.txt").write_text(TEXT)
    torch.manual_seed(0)
    saved(BloomForCausalLM(BloomConfig(vocab_size=len(WORDS), hidden_size=32, n_layer=2, n_head=4)), tmp_path / "bloom")
    code, out, err = call(capsys, "bloom", *SMALL)
    assert (code, out) == (2, "")
    assert "eager" in err
    found = told(capsys, "bloom", *SMALL, "--eager", "--out", "out")
    assert len(found["heads"]) == 8
    assert found["heads"][0]["sink_output"] is None


# what it refuses, before any work


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("--length must be at least 2", ["--length", "1"]),
        ("--samples must be at least 1", ["--samples", "0"]),
        ("--batch-size must be at least 1", ["--batch-size", "0"]),
        ("--eps must lie between 0 and 1", ["--eps", "1.5"]),
        ("--seed must be at least 0", ["--seed", "-1"]),
        ("unknown --bos 'maybe'", ["--bos", "maybe"]),
        ("unknown --statistics 'all'", ["--statistics", "all"]),
        ("unknown --dtype 'float23', did you mean 'float32'", ["--dtype", "float23"]),
        ("unknown map 'softmax2', did you mean", ["--swap", "softmax2"]),
        ("--swap softmax1 needs a bias: --swap softmax1:B or --bias B", ["--swap", "softmax1"]),
        ('needs a bias: .* a number or calibrated or "-log n"$', ["--swap", "sigmoid"]),
        ("--swap softmax1:-5 is given twice", ["--swap", "softmax1:-5", "--swap", "softmax1", "--bias", "-5"]),
        ("--swap elu:2: this map takes no bias", ["--swap", "softmax1:1", "--swap", "elu:2"]),
        ("--bias 3 belongs to --swap", ["--swap", "softmax1:1", "--swap", "elu", "--bias", "3"]),
        ("takes no bias", ["--swap", "sparsemax", "--bias", "1"]),
        ("unknown bias 'calibrate', did you mean", ["--swap", "softmax1", "--bias", "calibrate"]),
        ("unknown bias 'abc', known: a number, calibrated", ["--swap", "softmax1:abc"]),
        ("--bias must be finite", ["--swap", "softmax1", "--bias", "nan"]),
        ("the bias of --swap softmax1 must be finite, got inf", ["--swap", "softmax1:inf"]),
        ("is for the maps sigmoid", ["--swap", "softmax1", "--bias", "-log n"]),
        ("--swap mlp: this map needs a network", ["--swap", "mlp"]),
        ("--bias 2 belongs to --swap", ["--bias", "2"]),
        ("unknown --mitigate 'prefx', did you mean 'prefix'", ["--mitigate", "prefx"]),
        ("unknown --format 'xlsx'", ["--format", "xlsx"]),
        ("--eager and --swap exclude", ["--eager", "--swap", "sparsemax"]),
        ("--revisions and --compare exclude", ["--revisions", "a,b", "--compare", "x"]),
        ("--revisions takes different names", ["--revisions", "a,,b"]),
        ("--layers takes numbers", ["--layers", "one"]),
        ("the range '5-2' is empty", ["--layers", "5-2"]),
        ("--attention takes LAYER.HEAD", ["--attention", "3"]),
        ("--attention draws pictures", ["--attention", "0.0"]),
        ("is a file, expected a folder", ["--out", "text.txt"]),
        ("text 'pyton' is neither a file nor a built-in text, did you mean 'python'", ["--text", "pyton"]),
        ("text 'empty.txt' is empty", ["--text", "empty.txt"]),
        ("there is no layer 2", [*SMALL, "--layers", "0-2"]),
        ("there is no head 0.4", [*SMALL, "--attention", "0.4", "--out", "out"]),
        ("the model has only 8 heads", [*SMALL, "--prune", "8"]),
        ("the text has 1000 tokens, 100 sequences of 24 need 2400", [*SMALL[:-1], "100"]),
        ("--length 4096 is more than the model can run: it has 2048", ["--text", "text.txt", "--length", "4096"]),
        ("device 'cuda:77' cannot be used", [*SMALL, "--device", "cuda:77"]),
        ("--device and --device-map exclude each other", [*SMALL, "--device", "cpu", "--device-map", "auto"]),
    ],
)
def test_bad_options_are_one_line(capsys, folder, tmp_path, message, arguments):
    (tmp_path / "empty.txt").write_text(" \n")
    refused(capsys, message, str(folder), *arguments)
    assert not Path("out").exists()


def test_bad_models_are_one_line_and_nothing_of_them_is_run(capsys, folder, tmp_path):
    refused(capsys, "no folder './nowhere'", "./nowhere")
    refused(capsys, "model 'a*' cannot be a path: File name too long|no folder 'a*'", "a" * 300)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    refused(capsys, "has no tokenizer", str(folder))
    (folder / "model.safetensors").unlink()
    touched = tmp_path / "touched"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {touched}",)

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    refused(capsys, "only pickled weights", str(folder))
    config = json.loads((folder / "config.json").read_text())
    (folder / "evil.py").write_text(f"open({str(touched)!r}, 'w')")
    changed = config | {"model_type": "evil", "auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(changed))
    refused(capsys, "needs its own Python code", str(folder))
    assert not touched.exists()


def test_pictures_are_refused_with_a_way_out(capsys, tmp_path):
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(image_size=16, patch_size=8, **sizes())
    with quiet():
        ViTModel(config).save_pretrained(tmp_path / "vit")
    refused(capsys, "reads pixel_values, not text: run it inside softmaxlab.probing.watch", "vit")


# what it would cost to remove heads, and whether measuring changes the model


def test_the_rule_of_pruning_is_plain_removal_unless_given(capsys, folder):
    plain, scaled = (told(capsys, str(folder), *SMALL, "--prune", "1", *more) for more in ((), ("--rule", "count")))
    assert (plain["settings"]["rule"], scaled["settings"]["rule"]) == ("none", "count")
    assert plain["pruning"][1]["delta"] != scaled["pruning"][1]["delta"]
    refused(capsys, "--rule count says how --prune N removes heads", str(folder), *SMALL, "--rule", "count")
    refused(
        capsys, "unknown --rule 'cuont', did you mean 'count'", str(folder), *SMALL, "--prune", "1", "--rule", "cuont"
    )


def test_removing_all_dormant_heads_is_setting_their_columns_to_zero(capsys, folder, monkeypatch):
    from softmaxlab.probing import loss, sequences, session

    monkeypatch.setattr(session, "dormant", lambda heads, eps: heads.loc[[1, 6], ["layer", "head"]])  # 0.1 and 1.2
    part = told(capsys, str(folder), *SMALL)["dormant_removed"]
    assert part["heads"] == [[0, 1], [1, 2]]
    loaded = load(folder)
    inputs = sequences(loaded.tokenizer, texts("text.txt"), T, SAMPLES)
    before = loss(loaded.model, inputs).mean
    D = loaded.model.config.hidden_size // loaded.model.config.num_attention_heads
    with torch.no_grad():
        for layer, head in part["heads"]:
            loaded.model.model.layers[layer].self_attn.o_proj.weight[:, head * D : (head + 1) * D] = 0.0
    assert part["loss_change"] == pytest.approx(loss(loaded.model, inputs).mean - before, abs=ROUNDING)


def test_outputs_with_and_without_measuring_are_compared_unless_switched_off(capsys, folder):
    logits = told(capsys, str(folder), *SMALL)["logits"]
    assert logits["relative"] <= logits["allowed"]
    assert "logits" not in told(capsys, str(folder), *SMALL, "--no-compare-logits")


# Ctrl-C


def test_an_interrupted_probe_prints_what_it_has(capsys, folder, monkeypatch):
    from softmaxlab.probing import heads

    whole = heads.sequence_sums

    def stop_after(batches):
        done = []

        def stopped(model, batch):
            if len(done) == batches:
                raise KeyboardInterrupt
            done.append(whole(model, batch))
            return done[-1]

        return stopped

    monkeypatch.setattr(heads, "sequence_sums", stop_after(1))  # one batch: the model; then its swap
    code, out, _ = call(capsys, str(folder), *SMALL, "--swap", "sparsemax", "--out", "out")
    assert code == 130
    assert "Interrupted after 96 tokens" in out
    assert "KV cache" in out
    assert json.loads(Path("out/report.json").read_text())["interrupted"] is True

    monkeypatch.setattr(heads, "sequence_sums", stop_after(1))
    code, out, _ = call(capsys, str(folder), *SMALL, "--batch-size", "1")
    assert code == 130
    assert f"Interrupted after {T} tokens" in out
    assert "nats per token" not in out


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_real_process(folder):
    Path("long.txt").write_text(" ".join([TEXT] * 200))
    arguments = [str(folder), "--text", "long.txt", "--length", "1024", "--samples", "150", "--batch-size", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "softmaxlab", "probe", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "token 0" in process.stderr.readline()
    time.sleep(1.0)  # some batches, far from all
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert "KV cache" in out
    assert "Interrupted after" in out


# a real model


def test_sampled_queries_have_their_standard_error(capsys, folder):
    found = told(capsys, str(folder), *SMALL, "--queries", "16")
    assert found["settings"]["queries"] == 16
    assert all(0 < row["entropy_sampling_se"] < row["entropy"] for row in found["heads"])
    assert "entropy_sampling_se" not in told(capsys, str(folder), *SMALL)["heads"][0]
    refused(capsys, "--queries must be at least 16, got 3", str(folder), "--queries", "3")
    refused(capsys, "--queries samples what --statistics full", str(folder), "--queries", "16", "--statistics", "fast")
    refused(capsys, "--eager and --queries exclude each other", str(folder), "--queries", "16", "--eager")


@pytest.mark.slow
@pytest.mark.usefixtures("demo_cache")
def test_the_demo_model_shows_its_sink(capsys):
    found = told(capsys, "smollm2", "--text", "licence", "--length", "128", "--samples", "2")
    assert 0.4 < found["subjects"][0]["share_above_eps"] < 0.8
    assert found["subjects"][0]["share_above_0.9"] < 0.05
    top = max(found["activations"], key=lambda row: row["top"])
    assert (top["layer"], top["position"], top["dimension"]) == (11, 0, 507)
    assert top["top"] > 15_000
    assert 0 in found["kv_cache"]["keep_positions"]


def test_files_of_others_are_not_touched_and_an_earlier_probe_is_written_anew(capsys, folder, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "cross.csv").write_text("mine")
    refused(capsys, "cross.csv is there and is of no probe", str(folder), *SMALL, "--out", str(mine))
    assert (mine / "cross.csv").read_text() == "mine"
    (mine / "cross.csv").rename(mine / "notes.csv")
    for _ in range(2):
        assert call(capsys, str(folder), *SMALL, "--out", str(mine))[0] == 0
    assert (mine / "notes.csv").read_text() == "mine"
    assert (mine / "heads.csv").is_file()
