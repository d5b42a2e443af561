"""Rows and columns: every field, every number, and back from the file as they were."""

import json

import numpy as np
import pandas
import pytest

from softmaxlab import SpecError, Store
from softmaxlab.attention import Compare
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.simulate import simulate
from softmaxlab.core.tables import write_table
from softmaxlab.training import Classification, Run
from softmaxlab.training.attempts import record_failure
from softmaxlab.training.table import LARGEST, frame, has_result, row

SPEC = Compare([[[1.0, 2.0]]], maps=("softmax", "linear"))
RUN = Run(task=Classification(vocab=81), heads=2)


def stored(spec, arrays, axes, **more) -> dict:
    """The row of a result of our own making."""
    made = Result(arrays, axes, spec=spec, provenance={"seconds": 1.5}, **more)
    Store("runs").put(made)
    return row(spec, spec.key, Store("runs"))


def test_every_field_of_a_run_is_a_column():
    cells = row(RUN, RUN.key, Store("runs"))
    assert {name for name in Run.model_fields if name != "task"} <= cells.keys()
    assert {f"task.{name}" for name in Classification.model_fields} <= cells.keys()
    assert (cells["task.kind"], cells["task.vocab"], cells["heads"]) == ("training.Classification", 81, 2)
    assert (cells["status"], cells["positions"], cells["measure"]) == ("not run", None, '["heads"]')
    assert not has_result(cells)


def test_numbers_become_numbers_and_small_arrays_json():
    values = np.array([[1 / 3, np.nan], [np.inf, -2e-9]])
    arrays = {"accuracy": 0.5, "score": values, "count": np.arange(3), "large": np.zeros(LARGEST + 1)}
    axes = {"score": ("layer", "head"), "count": ("n",), "large": ("m",)}
    status = Status(Outcome.DIVERGED, "too far")
    cells = stored(RUN, arrays, axes, notes={"steps": 7, "heads": 1, "where": [1]}, status=status)
    assert (cells["accuracy"], cells["count"], cells["steps"]) == (0.5, "[0, 1, 2]", 7)
    assert cells["score"] == "[[0.333333, null], [1e999, -2e-09]]"
    np.testing.assert_array_equal(np.array(json.loads(cells["score"]), dtype=float)[:, 1], [np.nan, -2e-9])
    assert json.loads(cells["score"])[1][0] == np.inf
    assert "large" not in cells
    assert (cells["heads"], cells["notes.heads"], cells["where"]) == (2, 1, "[1]")
    assert (cells["status"], cells["sentence"], cells["seconds"]) == ("diverged", "too far", 1.5)


def test_a_name_that_the_spec_has_too_is_told_apart():
    simulate(SPEC, store="runs")
    cells = row(SPEC, SPEC.key, Store("runs"))
    assert cells["scores"] == "[[[1.0, 2.0]]]"
    assert cells["maps"] == '["softmax", "linear"]'
    assert "weights" in cells
    assert any(name.startswith("result.") for name in cells)


def test_a_failure_says_why_and_adds_up():
    for _ in range(2):
        record_failure(RUN.key, RUN.json_text(), "runs", "RuntimeError: no")
    cells = row(RUN, RUN.key, Store("runs"))
    assert (cells["status"], cells["sentence"], cells["seconds"]) == ("failed", "RuntimeError: no", None)
    record = json.loads(next((Store("runs").root / "failures").iterdir()).read_text())
    assert (record["attempts"], record["spec"]) == (2, RUN.plain())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_comes_back_from_its_file(tmp_path, suffix):
    good = stored(RUN, {"accuracy": 1 / 3, "score": np.array([0.25])}, {"score": ("head",)}, notes={"stopped_at": None})
    other = RUN.replace(heads=4)
    table = frame([good, row(other, other.key, Store("runs"))])
    path = write_table(table, tmp_path / "new" / f"table{suffix}")
    if suffix == ".csv":
        back = pandas.read_csv(path)
    else:
        import duckdb

        back = duckdb.sql(f"SELECT * FROM '{path}'").df()
    assert list(back.columns) == list(table.columns)
    assert list(back["heads"]) == [2, 4]
    assert list(back["mlp"]) == [True, True]
    assert back["accuracy"][0] == 1 / 3
    assert np.isnan(back["accuracy"][1])
    assert back["score"][0] == "[0.25]"
    assert list(back["status"]) == ["done", "not run"]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_table_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    table = frame([row(RUN, RUN.key, Store("runs"))])
    with pytest.raises(SpecError, match=r"\.csv or \.parquet file, got 'table.xlsx'"):
        write_table(table, "table.xlsx")
    monkeypatch.setattr("softmaxlab.core.tables._has_duckdb", lambda: False)
    with pytest.raises(SpecError, match="extra 'tables'"):
        write_table(table, "table.parquet")
    assert not list(tmp_path.iterdir())
