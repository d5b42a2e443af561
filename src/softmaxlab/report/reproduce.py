"""Run every figure and claim, then write the report."""

import re
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from softmaxlab.core.files import check_writable, remove_abandoned
from softmaxlab.core.pool import Died, Work, cores, run_all
from softmaxlab.core.progress import Progress
from softmaxlab.core.store import Store
from softmaxlab.errors import unknown
from softmaxlab.papers.claim import Check, Claim
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.index import CLAIMS, FIGURES
from softmaxlab.report import pages, records, tasks
from softmaxlab.report.records import ClaimRecord, FigureRecord, ProbeRecord, code_digest, probe_digest
from softmaxlab.report.tasks import Probe, claim_record, drawn_already, probe_record, probed_already

PRESETS = ("quick", "paper")
DIED = "its process died: out of memory, or killed from outside"
ATTEMPTS = 2  # a figure that kills its process twice, the second time alone, would kill it again
PROBE = "probe"  # the name of its work


@dataclass(frozen=True)
class Reproduction:
    """The records that one report shows."""

    preset: str
    figures: dict[str, type[FigureSpec]]
    claims: dict[str, Claim]
    drawn: dict[str, FigureRecord]
    judged: dict[str, ClaimRecord]
    probed: ProbeRecord | None
    seconds: float
    index: Path

    @cached_property
    def checks(self) -> dict[str, Check | None]:
        """Return the checks; None where a claim could not be judged."""
        return {id: self.judged[id].check(claim) for id, claim in self.claims.items()}

    @property
    def failures(self) -> list[str]:
        """Return what is not as promised: figures drawn, verdicts as stored, the probe made or known to be missing."""
        wrong = [id for id, check in self.checks.items() if check is None or not check.ok]
        probe = [PROBE] if self.probed is not None and self.probed.error else []
        return [id for id, drawn in self.drawn.items() if not drawn.ok] + wrong + probe

    @property
    def ok(self) -> bool:
        return not self.failures

    def summary(self) -> str:
        failed = f"\nnot as promised: {', '.join(self.failures)}" if self.failures else ""
        return f"{self.counts()}; {self.seconds:.0f} s; report: {self.index}{failed}"

    def counts(self) -> str:
        """Return how many figures there are, and how many claims of each verdict."""
        verdicts = Counter(str(c.verdict) if c else "not judged" for c in self.checks.values())
        by_verdict = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        expected = sum(c is not None and c.ok for c in self.checks.values())
        return f"{len(self.drawn)} figures, {len(self.checks)} claims ({by_verdict}; {expected} as expected)"


def reproduce(preset: str, out: str, report: str, jobs: int | None = None, probe: Probe | None = None) -> Reproduction:
    """Compute every figure at `preset` into the store `out`, check every claim, write `report`/index.html.

    The work is shared by `jobs` processes, as many as processors if not given. What is there already is not done again.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    began, folder = time.monotonic(), Path(report)
    store = Store(out)
    check_writable(folder, f"the report {folder}")
    specs, drawn = _specs(preset)
    drawn |= {id: record for id, spec in specs.items() if (record := drawn_already(spec, out, folder / id))}
    judged = {
        id: record for id, claim in CLAIMS.items() if (record := records.read(ClaimRecord, claim_record(claim, out)))
    }
    probed = probed_already(probe, out) if probe else None
    work = {} if probe is None or probed else {PROBE: partial(tasks.measure, probe, out)}
    work |= _figures_left({id: spec for id, spec in specs.items() if id not in drawn}, out, folder)
    work |= {f"claim {id}": partial(tasks.judge, claim, out) for id, claim in CLAIMS.items() if id not in judged}
    if work:
        store.check_writable()
    made = _shared(work, jobs or cores(), _written(specs, out, folder, probe))
    drawn |= {id: made.get(f"figure {id}") or _undrawn(id, DIED) for id in specs if id not in drawn}
    judged |= {id: made.get(f"claim {id}") or _unjudged(id) for id in CLAIMS if id not in judged}
    if probe and not probed:
        probed = made.get(PROBE) or ProbeRecord(probe.name, probe.command, probe_digest(), error=DIED)
    drawn, judged = {id: drawn[id] for id in FIGURES}, {id: judged[id] for id in CLAIMS}
    seconds = time.monotonic() - began
    done = Reproduction(preset, dict(FIGURES), dict(CLAIMS), drawn, judged, probed, seconds, folder / "index.html")
    pages.write(done, folder, Path(out))
    return done


def _written(specs: Iterable[str], out: str, report: Path, probe: Probe | None) -> set[Path]:
    """All folders that workers write into."""
    folders = {Path(out), *((report / id).parent for id in specs)}
    folders |= {claim_record(claim, out).parent for claim in CLAIMS.values()}
    record = probe_record(probe, out) if probe else None
    return folders | ({record.parent, record.with_suffix("")} if record else set())


def _specs(preset: str) -> tuple[dict[str, FigureSpec], dict[str, FigureRecord]]:
    """The specs of all figures; and records of those that cannot even be built, say since their table is damaged."""
    specs, undrawn = {}, {}
    for id, figure in FIGURES.items():
        try:
            specs[id] = figure.preset(figure.shown_at(preset))
        except Exception:
            undrawn[id] = _undrawn(id, traceback.format_exc())
    return specs, undrawn


def _figures_left(specs: dict[str, FigureSpec], out: str, folder: Path) -> dict[str, Work]:
    """Return the figures that are left, the longest first, so that no core waits at the end."""
    ordered = sorted(specs, key=lambda id: -_stated_seconds(specs[id]))
    return {f"figure {id}": partial(tasks.draw, specs[id], out, folder / id) for id in ordered}


def _stated_seconds(spec: FigureSpec) -> float:
    """Return the seconds stated for the quick preset; the longest at quick are the longest at paper too."""
    match = re.search(r"(\d+) (s|min)", spec.cost[spec.shown_at("quick")])
    return float(match[1]) * (60 if match[2] == "min" else 1) if match else 0.0


def _shared(work: dict[str, Work], jobs: int, written: Iterable[Path]) -> dict:
    """Return name → record, without those whose process died."""
    try:
        with Progress(len(work), "reproducing") as progress:

            def advance(name: str, record: Any) -> None:
                progress.advance(failed=isinstance(record, Died) or bool(record.error))

            outcomes = run_all(work, jobs, advance, attempts=ATTEMPTS)
        return {name: record for name, record in outcomes.items() if not isinstance(record, Died)}
    finally:
        for folder in written:
            remove_abandoned(folder)  # what killed workers were writing


def _undrawn(id: str, error: str) -> FigureRecord:
    return FigureRecord(id, "", code_digest(), False, "failed: it raised an error", {}, error=error)


def _unjudged(id: str) -> ClaimRecord:
    return ClaimRecord(id, code_digest(), error=DIED)
