"""The points of the errata, by id ("polarization/16"), read from docs/errata.md, which a wheel brings along."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import softmaxlab
from softmaxlab.errors import SoftmaxlabError

PACKAGE = Path(softmaxlab.__file__).parent
PLACES = (PACKAGE / "papers" / "errata.md", PACKAGE.parents[1] / "docs" / "errata.md")  # of a wheel, of a clone
POINT = re.compile(r"^### (\d+)\. (.+): \*(.+)\*$")


@dataclass(frozen=True)
class Erratum:
    """One point of the errata."""

    id: str  # "polarization/16"
    place: str  # Markdown, "Section 3.2, KL divergence"
    grade: str  # "condition needed"
    text: str  # Markdown

    @property
    def anchor(self) -> str:
        """The name of its heading in a page of the errata."""
        return self.id.replace("/", "-")

    def __str__(self) -> str:
        return f"{self.id}, {self.place} ({self.grade}): {self.text}"


def errata_file() -> Path:
    """Return the file of the errata."""
    for place in PLACES:
        if place.is_file():
            return place
    raise SoftmaxlabError(f"the errata are missing from this installation: no file {PLACES[0]}")


@functools.cache
def errata() -> dict[str, Erratum]:
    """Read every point, by id."""
    points: dict[str, Erratum] = {}
    paper, heading, lines = "", None, []

    def close() -> None:
        if heading is not None:
            number, place, grade = heading.groups()
            points[f"{paper}/{number}"] = Erratum(f"{paper}/{number}", place, grade, " ".join(" ".join(lines).split()))

    for line in [*errata_file().read_text(encoding="utf-8").splitlines(), "## end"]:
        if line.startswith("## "):
            close()
            paper, heading = line.removeprefix("## ").strip().lower(), None
        elif match := POINT.match(line):
            close()
            heading, lines = match, []
        else:
            lines.append(line)
    return points
