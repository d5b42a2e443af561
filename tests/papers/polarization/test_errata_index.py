"""docs/errata.md and the tests of the errata name each other."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "errata.md"
GRADES = ("typo", "proof gap with fix", "condition needed", "remark", "not reproduced", "withdrawn")


def test_every_erratum_names_its_tests_and_has_a_grade():
    tests = {
        name for file in HERE.glob("test_errata_*.py") for name in re.findall(r"def (test_\d\d\w+)", file.read_text())
    }
    section = PAGE.read_text().split("## Polarization")[1].split("\n## ")[0]
    points = re.findall(r"^### (\d+)\. [^\n]* \*([^\n]+)\*\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _, _ in points] == list(range(1, 26))
    named = set()
    for number, grade, text in points:
        assert grade in GRADES
        of_point = set(re.findall(r"`(test_\d\d\w+)`", text))
        assert of_point
        assert all(name.startswith(f"test_{int(number):02d}_") for name in of_point)
        named |= of_point
    assert named == tests
