"""docs/errata.md and the tests of its section on specialization name each other."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "errata.md"
LANDSCAPE = HERE.parents[1] / "specialization" / "landscape" / "test_errata.py"  # equations (25) to (70)
GRADES = ("typo", "proof gap with fix", "condition needed", "remark", "not reproduced", "withdrawn")
POINTS = 26


def test_every_erratum_names_its_tests_and_has_a_grade():
    numbered = {
        name for file in HERE.glob("test_errata_*.py") for name in re.findall(r"def (test_\d\d\w+)", file.read_text())
    }
    of_equations = set(re.findall(r"def (test_\w+)", LANDSCAPE.read_text()))
    section = PAGE.read_text().split("## Specialization")[1].split("\n## ")[0]
    points = re.findall(r"^### (\d+)\. [^\n]* \*([^\n]+)\*\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _, _ in points] == list(range(1, POINTS + 1))
    named = set()
    for number, grade, text in points:
        assert grade in GRADES
        of_point = set(re.findall(r"`(test_\w+)`", text))
        assert of_point
        assert all(name in of_equations or name.startswith(f"test_{int(number):02d}_") for name in of_point)
        named |= of_point
    assert named == numbered | of_equations
