"""softmaxlab bench on a small folder of benchmarks: table, JSON, and every way it can be missing."""

import json
from pathlib import Path

import pytest

from softmaxlab.cli import bench, main

FAST = """
def rows():
    return [{"problem": "flow", "ratio": 412.3456, "steps": 1000}, {"problem": "descent", "ratio": 150.0, "steps": 7}]
"""
OTHER = """
def rows():
    return [{"map": "softmax", "speed": 2.0}]
"""


@pytest.fixture
def folder(monkeypatch) -> Path:
    """A `benchmarks` folder as that of the clone that softmaxlab is installed from."""
    path = Path("benchmarks")
    path.mkdir()
    (path / "fast.py").write_text(FAST)
    (path / "other.py").write_text(OTHER)
    monkeypatch.setattr(bench, "FOLDER", path.absolute())
    return path


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["bench", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_one_table_per_benchmark(capsys, folder):
    code, out, err = call(capsys)
    assert (code, err) == (0, "")
    assert out.index("fast") < out.index("other")
    row = next(line for line in out.splitlines() if "flow" in line)
    assert "412" in row
    assert "412.3456" not in row  # three digits: a ratio is not known better


def test_json_is_one_document_with_all_digits(capsys, folder):
    code, out, err = call(capsys, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert rows[0] == {"benchmark": "fast", "problem": "flow", "ratio": 412.3456, "steps": 1000}
    assert [row["benchmark"] for row in rows] == ["fast", "fast", "other"]


def test_only_the_named_one_runs(capsys, folder):
    (folder / "fast.py").write_text("raise RuntimeError('must not be imported')")
    assert [row["benchmark"] for row in json.loads(call(capsys, "other", "--json")[1])] == ["other"]


def test_without_a_clone_it_says_where_to_go(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "site-packages" / "benchmarks")
    code, out, err = call(capsys)
    assert (code, out) == (2, "")
    assert "come with a clone of the repository" in err


def test_the_current_folder_is_not_looked_into_unless_it_is_named(capsys, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "elsewhere")
    assert call(capsys, "fast")[0] == 2
    code, out, _ = call(capsys, "other", "--folder", "benchmarks", "--json")
    assert code == 0
    assert json.loads(out) == [{"benchmark": "other", "map": "softmax", "speed": 2.0}]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def rows():\n    return 1 / 0", "plugin 'mine', function rows, line 2: ZeroDivisionError"),
        ("raise ValueError('no')", "plugin 'mine', function <module>, line 1: ValueError: no"),
        ("def rows():\n    return None", "function rows, line 1 must return a list of dicts, got NoneType"),
        ("def rows():\n    return [{'a': 1}, {'b': 2}]", "function rows, line 1 must return rows with the same names"),
        ("def rows():\n    return [{'a': object()}]", "function rows, line 1 must return JSON values"),
    ],
)
def test_what_goes_wrong_in_a_benchmark_is_told_with_its_place(capsys, tmp_path, body, words):
    (tmp_path / "mine.py").write_text(body)
    code, out, err = call(capsys, "--folder", ".", "--json")
    assert (code, out) == (1, "")
    assert words in err
    assert err.count("\n") == 1


def test_an_unknown_name_gets_the_near_miss(capsys, folder):
    code, out, err = call(capsys, "othr")
    assert (code, out) == (2, "")
    assert err == "error: unknown benchmark 'othr', did you mean 'other'?\n"


def test_a_module_without_rows_is_bad_input(capsys, folder):
    (folder / "fast.py").write_text("")
    code, _, err = call(capsys, "fast")
    assert code == 2
    assert "has no function rows()" in err
