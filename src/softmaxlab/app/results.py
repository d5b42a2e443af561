"""Saved probe results below one folder: which there are, and what they hold. Nothing outside the folder is read.

A result is a folder with a report.json, as `softmaxlab probe MODEL --out FOLDER` writes it. Beside it there may be
profile.csv (mean weight by position) and patterns.json: {"tokens": [text, …], "patterns": {"layer.head": [[w, …], …]}}.
"""

import csv
import json
import re
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing.report import DOCUMENT, PATTERNS

PROFILE = "profile.csv"
DEEPEST = 3  # levels of folders that are searched
OURS = re.compile(rb'\s*\{\s*"schema"\s*:\s*"softmaxlab\.probe/')  # how a report of a probe begins
BEGINNING = 200  # bytes
FRESH = 3.0  # seconds for which the list of results is kept: each drag of a slider asks for it


@dataclass(frozen=True, eq=False)
class Saved:
    """One result: its report, its profile by (subject, layer, head), and the patterns that were saved."""

    name: str
    report: dict[str, Any]
    profile: dict[tuple[str, int, int], list[tuple[int, float]]]
    tokens: list[str] = field(default_factory=list)
    patterns: dict[str, list[list[float]]] = field(default_factory=dict)

    @property
    def subjects(self) -> list[str]:
        return [row["subject"] for row in self.report["subjects"]]

    def heads(self, subject: int) -> list[dict[str, Any]]:
        """The rows of one subject; with a single one they carry no name."""
        label = self.subjects[subject]
        return [row for row in self.report["heads"] if row.get("subject", label) == label]

    def profile_of(self, subject: int, layer: int, head: int) -> list[tuple[int, float]]:
        named = "" if len(self.subjects) == 1 else self.subjects[subject]
        return self.profile.get((named, layer, head), [])


def names(root: Path) -> list[str]:
    """The results below a folder, by their path from it; '.' is the folder itself."""
    return list(_names(root, int(time.monotonic() / FRESH)))


def load(root: Path, name: str) -> Saved:
    """A result by its name, one of `names`; the empty name is the first."""
    known = names(root)
    if not known:
        raise SpecError(
            f"no probe result below {str(root)!r}; write one: softmaxlab probe smollm2 --out {root}/smollm2"
        )
    if name and name not in known:
        raise unknown("result", name, known)
    folder = root / (name or known[0])
    try:
        return _load(folder, name or known[0], (folder / DOCUMENT).stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise SpecError(f"result {name or known[0]!r} cannot be read: {type(error).__name__}: {error}") from None


@lru_cache(maxsize=2)
def _names(root: Path, _when: int) -> tuple[str, ...]:
    paths = [path for depth in range(DEEPEST + 1) for path in root.glob("*/" * depth + DOCUMENT)]
    inside = [path for path in paths if path.resolve().is_relative_to(root.resolve()) and _is_ours(path)]
    return tuple(sorted(str(path.parent.relative_to(root)) for path in inside))


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return OURS.match(file.read(BEGINNING)) is not None
    except OSError:
        return False


@lru_cache(maxsize=8)
def _load(folder: Path, name: str, _changed: int) -> Saved:
    report = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
    drawn = _beside(folder, PATTERNS)
    saved = {"tokens": [], "patterns": {}} | (json.loads(drawn.read_text(encoding="utf-8")) if drawn else {})
    result = Saved(name, report, _profile(_beside(folder, PROFILE)), saved["tokens"], saved["patterns"])
    _check(result)
    return result


def _check(saved: Saved) -> None:
    """Refuse what the page could not show: a report without its text, its model, or heads with their sink scores."""
    named = saved.report["text"]["name"], saved.report["model"]["name"], *saved.subjects
    if not all(isinstance(name, str) for name in named) or not saved.subjects:
        raise ValueError(f"text, model and its changes are called {named}")
    for subject, label in enumerate(saved.subjects):
        if not [(row["layer"], row["head"], row["sink"]) for row in saved.heads(subject)]:
            raise ValueError(f"no heads of {label!r}")


def _beside(folder: Path, file: str) -> Path | None:
    """A file of a result, if it is there and no link to elsewhere."""
    path = folder / file
    return path if path.is_file() and path.resolve().parent == folder.resolve() else None


def _profile(path: Path | None) -> dict[tuple[str, int, int], list[tuple[int, float]]]:
    rows: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    if path is None:
        return rows
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = row.get("subject", ""), int(row["layer"]), int(row["head"])
            rows.setdefault(key, []).append((int(row["position"]), float(row["weight"] or "nan")))
    return rows
