"""The notebooks of the lessons run from top to bottom and are committed without outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = sorted((Path(__file__).parents[1] / "docs" / "lessons").glob("*.ipynb"))


def cells(lesson: Path, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(lesson.read_text())["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs(lesson):
    """Through stdin, as in a notebook: workers have no file of a program to import."""
    program = "\n".join(cells(lesson, "code"))
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_lessons_are_numbered_and_hold_nothing_that_was_not_computed_now():
    assert [int(lesson.stem.split("-")[0]) for lesson in LESSONS] == [1, 2, 3, 4, 5]
    for lesson in LESSONS:
        notebook = json.loads(lesson.read_text())
        assert cells(lesson, "markdown")[0].startswith(f"# Lesson {lesson.stem.split('-')[0]}: ")
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
