"""Tables: no cell of text is a formula for a spreadsheet, and numbers stay numbers."""

import csv
import io

import pandas
import pytest

from softmaxlab.core.tables import csv_text, neutral, write_table

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
KEPT = ["-1.5", "+3", "-inf", "1e-3", "word", "a=b", "", "[-1, 2]", "'quoted"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_formulas_become_text(cell):
    assert neutral(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", [*KEPT, -1.5, None, 3, True])
def test_everything_else_stays(cell):
    assert neutral(cell) == cell


def test_a_table_is_neutral_in_cells_and_names_and_keeps_its_numbers(tmp_path):
    table = pandas.DataFrame({"token": FORMULAS, "=x": [-1.5] * len(FORMULAS), "mixed": [-2, "=y", None, 1, 2, 3]})
    path = write_table(table, tmp_path / "table.csv")
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))
    assert [row["token"] for row in rows] == [f"'{cell}" for cell in FORMULAS]
    assert {row["'=x"] for row in rows} == {"-1.5"}
    assert [row["mixed"] for row in rows] == ["-2", "'=y", "", "1", "2", "3"]
    assert list(table["token"]) == FORMULAS


def test_numbers_are_written_as_pandas_writes_them():
    table = pandas.DataFrame({"x": [0.1 + 0.2, -1e-300, float("nan")], "n": [1, -2, 3]})
    assert csv_text(table) == table.to_csv(index=False, lineterminator="\n")
