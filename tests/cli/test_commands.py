"""The command line from outside: output, exit codes, and nothing written when the input is bad."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from softmaxlab import Store, __version__
from softmaxlab.attention import Compare
from softmaxlab.cli import main
from softmaxlab.papers.attention.figures.maps import Maps
from tests.core.random_specs import broken_spec

MALFORMED = 500


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    """Run the program in this process: exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_version_and_help(capsys):
    assert call(capsys, "--version") == (0, f"softmaxlab {__version__}\n", "")
    for command in ("list", "run", "check", "reproduce", "cite"):
        code, out, _ = call(capsys, command, "--help")
        assert code == 0
        assert "Examples" in out


@pytest.mark.parametrize(
    ("what", "column"), [("figures", "id"), ("claims", "id"), ("maps", "name"), ("sweeps", "preset")]
)
def test_list_as_json_and_table(capsys, what, column):
    code, out, _ = call(capsys, "list", what, "--json")
    rows = json.loads(out)
    assert code == 0
    assert rows
    _, table, _ = call(capsys, "list", what)
    assert all(row[column] in table for row in rows)


def test_run_writes_data_and_picture_once(capsys, tmp_path):
    arguments = ("run", "attention/maps", "--set", "tokens=4", "--set", 'maps=["softmax"]', "--json")
    code, out, err = call(capsys, *arguments)
    report = json.loads(out)
    assert (code, err) == (0, "")
    stored = Store("runs").load(Path(report["data"]).name)
    assert stored["weights"].shape == (1, 1, 4, 4)
    assert report["picture"] == f"runs/attention/maps-{stored.spec.key[:8]}.png"
    assert (tmp_path / report["picture"]).read_bytes().startswith(b"\x89PNG")
    again = json.loads(call(capsys, *arguments)[1])
    assert again["provenance"] == report["provenance"]


def test_run_a_spec_from_a_file(capsys, tmp_path):
    spec = Compare(np.zeros((1, 2, 2)), maps=("softmax",))
    Path("spec.json").write_text(spec.json_text())
    code, out, _ = call(capsys, "run", "spec.json", "--set", "causal=true", "--out", "elsewhere")
    assert code == 0
    assert "done: finished" in out
    assert Store("elsewhere").get(spec.replace(causal=True))["weights"].tolist() == [[[[1, 0], [0.5, 0.5]]]]


def test_check_prints_the_verdicts(capsys):
    code, out, _ = call(capsys, "check", "attention", "--json")
    rows = json.loads(out)
    assert code == 0
    assert all(row["ok"] and row["control_failed"] for row in rows)
    _, table, _ = call(capsys, "check", "attention/bayes-mean")
    assert "holds" in table
    assert "fails, as it must" in table


def test_check_exits_1_when_a_verdict_is_not_the_stored_one(capsys, monkeypatch):
    import dataclasses

    from softmaxlab.papers import index as catalogue
    from softmaxlab.papers.claim import Verdict

    wrong = dataclasses.replace(catalogue.CLAIMS["attention/bayes-mean"], expected=Verdict.FAILS)
    monkeypatch.setattr(catalogue, "CLAIMS", {wrong.id: wrong})
    code, out, _ = call(capsys, "check")
    assert code == 1
    assert "stored: fails as stated" in out


def test_cite(capsys):
    assert "varre2026polarization" in call(capsys, "cite", "square_norm")[1]
    whole = call(capsys, "cite")[1]
    assert all(key in whole for key in ("@software{softmaxlab", "varre2026polarization", "sagitova2026specialization"))


def test_malformed_specs_are_one_line_that_names_the_field_and_write_nothing(capsys, tmp_path):
    """Half as `--set` on a figure, half as spec files; about 500 different ones."""
    rng = np.random.default_rng(1)
    tried = set()
    for _ in range(MALFORMED):
        plain, field = broken_spec(rng)
        tried.add(json.dumps(plain))
        Path("spec.json").write_text(json.dumps(plain))
        arguments = ["run", "spec.json"]
        if plain["kind"] == Maps.kind and rng.random() < 0.8:
            arguments = ["run", "attention/maps", "--set", f"{field}={json.dumps(plain[field])}"]
        code, out, err = call(capsys, *arguments)
        assert (code, out) == (2, ""), arguments
        assert err.startswith("error: "), err
        assert err.count("\n") == 1, err
        assert re.search(rf"(Maps\.|Compare\.|'){re.escape(field)}\b", err), (plain, err)
    assert len(tried) > 0.95 * MALFORMED
    assert [p.name for p in tmp_path.iterdir()] == ["spec.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "attention/map"], "unknown figure 'attention/map', did you mean 'attention/maps'?"),
        (["run", "attention/maps", "--preset", "quik"], "unknown preset 'quik', did you mean 'quick'?"),
        (["run", "attention/maps", "--format", "gif"], "unknown format 'gif'"),
        (["run", "attention/maps", "--style", "iclm"], "unknown style 'iclm', did you mean 'icml'?"),
        (["run", "missing.json"], "cannot read the spec 'missing.json'"),
        (["run", "attention/maps", "--plugin", "no_such_module"], "plugin 'no_such_module' cannot be imported"),
        (["check", "atention"], "unknown claim 'atention', did you mean 'attention'?"),
        (["cite", "sparsmax"], "did you mean 'sparsemax'?"),
        (["run", "mine/none"], "known ones is like it (if it is yours, name its module with --plugin)"),
        (["run", "attention/maps", "--set", 'maps=["own_norm"]'], "(if it is yours, name its module with --plugin)"),
        (["list", "mapps"], "unknown listing 'mapps', did you mean 'maps'?"),
        (["reproduce", "--preset", "papr"], "unknown preset 'papr', did you mean 'paper'?"),
        (["run", "attention/maps", "--set", "tokens=3", "--set", "tokens=4"], "--set tokens is given twice"),
        (["run", "attention/maps", "--set", "tokens"], "--set takes name=value, got 'tokens'"),
        (["run", "attention/maps", "--set", "self=1"], "unknown field of Maps 'self'"),
        (["run", "attention/maps", "--set", "tokens=" + "[" * 10**5], "--set tokens is nested too deeply"),
        (["run", "attention/maps", "--device", "bogus"], "device 'bogus' cannot be used here"),
        (["run", "attention/maps", "--device", "meta"], "device 'meta' cannot be used here"),
        (["run", "attention/maps", "--plugin", "./x.py"], "a plugin is a module's dotted name"),
        (["run", "attention/maps", "--plugin", "x.py"], "a plugin is a module's dotted name"),
        (["run", "x.json", "--preset", "quick"], "a spec from a file has no presets"),
        (["run", "attention/maps", "--out", "/proc/softmaxlab"], "cannot be written"),
        (["lst"], "No such command 'lst'"),
        (["run"], "Missing argument"),
    ],
)
def test_bad_input_exits_2_and_writes_nothing(capsys, tmp_path, arguments, message):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


def test_reproduce_writes_the_report_and_resumes(capsys, monkeypatch):
    from softmaxlab.papers import index as catalogue
    from softmaxlab.report import reproduce

    ours = {"attention/maps": catalogue.FIGURES["attention/maps"]}
    monkeypatch.setattr(reproduce, "FIGURES", ours)
    monkeypatch.setattr(reproduce, "CLAIMS", {"attention/bayes-mean": catalogue.CLAIMS["attention/bayes-mean"]})
    code, out, _ = call(capsys, "reproduce", "--no-model")
    assert code == 0
    assert "1 figures, 1 claims (1 holds; 1 as expected)" in out
    index = Path("report/index.html").read_text()
    assert 'href="attention/maps.html"' in index
    assert "Bayes-softmax" in index
    assert 'src="maps.svg"' in Path("report/attention/maps.html").read_text()
    assert Path("report/attention/maps.svg").exists()
    before = Path("runs").stat().st_mtime_ns
    assert call(capsys, "reproduce", "--no-model")[0] == 0
    assert Path("runs").stat().st_mtime_ns == before


SLOW_PLUGIN = """
import time
import softmaxlab as sl

@sl.attention.register
def slow(scores):
    print("started", flush=True)
    time.sleep(60)
    return scores
"""


def test_ctrl_c_leaves_a_clean_store(tmp_path):
    (tmp_path / "slowmap.py").write_text(SLOW_PLUGIN)
    program = [sys.executable, "-c", "from softmaxlab.cli import main; main()"]
    arguments = ["run", "attention/maps", "--plugin", "slowmap", "--set", 'maps=["slow"]']
    running = subprocess.Popen([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "started\n"
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert err == "interrupted; finished results are kept\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('two' + chr(10) + 'lines')", "import sys; sys.exit(0)", "def f(:"]
)
def test_a_plugin_that_fails_is_one_line(tmp_path, body):
    (tmp_path / "badplugin.py").write_text(body)
    done = subprocess.run(
        [sys.executable, "-m", "softmaxlab", "list", "maps", "--plugin", "badplugin"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: plugin 'badplugin' cannot be imported")
    assert done.stderr.count("\n") == 1


def test_a_plain_terminal_gets_question_marks_not_a_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "softmaxlab", "check", "attention/bayes-mean"],
        capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sweep", "classification", "--jobs", "0"], "error: Invalid value for '--jobs': .* 1, got '0'\n"),
        (["explore", "--port=99999999"], "error: Invalid value for '--port': .*, got '99999999'\n"),
        (["frob"], "error: No such command 'frob'. Did you mean 'probe'\\?\n"),
    ],
)
def test_options_that_typer_refuses_are_told_in_one_line(capsys, arguments, told):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert re.fullmatch(told, capsys.readouterr().err)
