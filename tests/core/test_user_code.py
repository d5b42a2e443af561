"""Errors in a user's map or spec: one sentence with plugin, function and line, exit code 1, and JSON stays JSON."""

import json
import sys

import pytest

import softmaxlab as sl
from softmaxlab.attention.registry import MAPS as REGISTRY
from softmaxlab.cli import main
from softmaxlab.core import plugins
from softmaxlab.errors import UserCodeError

MAP = """
import torch
import softmaxlab as sl

@sl.attention.register
def {name}(scores):
    {body}
"""
SPEC = """
import numpy as np
import softmaxlab as sl

class Mine(sl.Spec):
    x: int = 0

    def _run(self, device):
        {body}
"""
MAPS = {
    "raises": ("raise KeyError('gone')", "function own_raises, line 7: KeyError"),
    "value": ("raise ValueError('no')", "function own_value, line 7: ValueError: no"),
    "none": ("return None", "(plugin 'plugin_none', function own_none, line 5)"),
    "complex": ("return scores + 1j", "got torch.complex"),
    "bool": ("return scores > 0", "got torch.bool"),
    "flat": ("return scores.sum()", "one weight per score"),
}
SPECS = {
    "raises": ("return 1 / 0", "function _run, line 9: ZeroDivisionError"),
    "none": ("return None", "function _run, line 8 must return a Result, got NoneType"),
    "object": ("return sl.Result({'x': np.array([object()])}, {'x': ('i',)})", "array 'x' must hold real numbers"),
    "complex": ("return sl.Result({'x': np.array(1j)}, {})", "array 'x' must hold real numbers"),
    "notes": ("return sl.Result({'x': 1.0}, {}, notes={'a': object()})", "notes hold JSON values only"),
    "name": ("return sl.Result({1: 1.0}, {})", "an array's name is a word"),
    "axis": ("return sl.Result({'x': np.ones((2, 2))}, {'x': ('x', 'y')})", "named like an axis of its own"),
}


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Write a plugin and forget it afterwards."""
    before = dict(sl.Spec.kinds)

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    monkeypatch.setattr(sys, "path", [*sys.path])
    for table in ("_entries", "_fingerprints", "_modules", "_with"):  # a figure of all maps would draw those that raise
        monkeypatch.setattr(REGISTRY, table, dict(getattr(REGISTRY, table)))
    yield write
    sl.Spec.kinds.clear()
    sl.Spec.kinds.update(before)
    for name in [name for name in sys.modules if name.startswith("plugin_")]:
        del sys.modules[name]


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.mark.parametrize("case", MAPS)
def test_a_map_that_misbehaves_is_named(capsys, plugin, case):
    body, words = MAPS[case]
    name = plugin(f"plugin_{case}", MAP.format(name=f"own_{case}", body=body))
    code, out, err = call(capsys, "run", "attention/maps", "--set", f'maps=["own_{case}"]', "--json", "--plugin", name)
    assert (code, out) == (1, "")
    assert words in err
    assert name in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("case", SPECS)
def test_a_spec_that_misbehaves_is_named(capsys, plugin, case, tmp_path):
    body, words = SPECS[case]
    name = plugin(f"plugin_{case}", SPEC.format(body=body))
    (tmp_path / "spec.json").write_text(json.dumps({"kind": f"{name}.Mine"}))
    code, out, err = call(capsys, "run", "spec.json", "--json", "--plugin", name)
    assert (code, out) == (1, "")
    assert words in err
    assert name in err
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(capsys, plugin, tmp_path):
    name = plugin("plugin_debug", SPEC.format(body="return 1 / 0"))
    (tmp_path / "spec.json").write_text(json.dumps({"kind": f"{name}.Mine"}))
    assert "Traceback" in call(capsys, "--debug", "run", "spec.json", "--plugin", name)[2]
    assert "Traceback" not in call(capsys, "run", "spec.json", "--plugin", name)[2]


def test_a_sweep_with_a_map_that_raises_is_valid_json(capsys, plugin, tmp_path):
    name = plugin("plugin_sweep", MAP.format(name="own_sweep", body="print('noise'); raise KeyError('gone')"))
    task = {"kind": "training.Induction", "vocab": 6, "tokens": 3, "train": 8, "evaluate": 8}
    spec = {"kind": "training.Run", "task": task, "map": "own_sweep", "width": 8, "heads": 1, "epochs": 1}
    (tmp_path / "specs.json").write_text(json.dumps([spec]))
    code, out, _ = call(capsys, "sweep", "specs.json", "--jobs", "1", "--json", "--plugin", name)
    assert code == 1
    (run,) = json.loads(out)["runs"]
    assert "plugin 'plugin_sweep', function own_sweep, line 7: KeyError" in run["sentence"]


def test_an_error_of_ours_is_not_blamed_on_a_user():
    with pytest.raises(sl.SpecError) as raised:
        sl.attention.Compare([[1.0]])
    assert not isinstance(raised.value, UserCodeError)


def test_plugins_of_the_tests_are_not_remembered():
    assert not [name for name in plugins.remembered() if name.startswith("plugin_")]
