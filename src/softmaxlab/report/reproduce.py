"""Run every figure and claim, then write the report."""

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.store import Store
from softmaxlab.errors import unknown
from softmaxlab.papers.catalogue import CLAIMS, FIGURES
from softmaxlab.papers.claim import Check, check
from softmaxlab.papers.style import save
from softmaxlab.report import pages

PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class Reproduction:
    """All that was computed for one report."""

    preset: str
    figures: dict[str, Result]
    checks: list[Check]
    seconds: float
    index: Path

    @property
    def ok(self) -> bool:
        """Whether everything we promise came out: figures computed, verdicts as stored, controls told apart."""
        return all(r.status.ok for r in self.figures.values()) and all(c.ok for c in self.checks)

    def summary(self) -> str:
        return f"{self.counts()}; {self.seconds:.0f} s; report: {self.index}"

    def counts(self) -> str:
        """How many figures, and how many claims of each verdict."""
        verdicts = Counter(str(c.finding.verdict) for c in self.checks)
        told = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        expected = sum(c.ok for c in self.checks)
        return f"{len(self.figures)} figures, {len(self.checks)} claims ({told}; {expected} as expected)"


def reproduce(preset: str, out: str, report: str) -> Reproduction:
    """Compute every figure at `preset` into the store `out`, check every claim, write `report`/index.html."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    began = time.monotonic()
    store, folder = Store(out), Path(report)
    figures: dict[str, Result] = {}
    checks: list[Check] = []
    with Progress(len(FIGURES) + len(CLAIMS), "reproducing") as progress:
        for id, figure in FIGURES.items():
            figures[id] = simulate(figure.preset(preset), store=store)
            save(figure.draw(figures[id]), folder / id, "svg")
            progress.advance()
        for claim in CLAIMS.values():
            checks.append(check(claim))
            progress.advance()
    done = Reproduction(preset, figures, checks, time.monotonic() - began, folder / "index.html")
    pages.write(done, folder)
    return done
