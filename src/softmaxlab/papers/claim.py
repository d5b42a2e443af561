"""A claim is a statement that a computation can confirm or refute, with a broken model on which it must not pass.

It is judged at its own level, whenever it is checked, and at a refined level and at the paper's own protocol, which
take longer: those findings are stored records (records.py). What they allow together is the verdict (evidence.settle).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from softmaxlab.papers import records
from softmaxlab.papers.errata import errata
from softmaxlab.papers.evidence import Evidence as Evidence
from softmaxlab.papers.evidence import Finding as Finding
from softmaxlab.papers.evidence import Level, Settled, settle
from softmaxlab.papers.evidence import Verdict as Verdict
from softmaxlab.papers.records import Record

OURS = "softmaxlab"  # the source of claims that are no paper's
OWN = Evidence("own")  # of a claim whose tolerance says all


@dataclass(frozen=True)
class Claim:
    """`judge(subject)` gives the finding; `judge(control)`, on a broken model, must not give the same verdict.

    `refined` is another subject for the same judge, with at least 4 times the samples and the horizon and other seeds;
    `protocol` is one at the settings of the paper. Each is there if its evidence is, and its finding is a stored record
    unless `live`: then it is judged at every check. `evidence` may itself be at the level of the paper's protocol.

    `expected` is the stored verdict. A claim on tables of runs that still grow (`grows`) whose stored verdict is
    "undecided" may come to any other once it lacks nothing.
    """

    id: str  # "polarization/thm3.2a"
    source: str  # key in references.bib, or "softmaxlab"
    place: str  # "Theorem 3.2a"
    statement: str
    tolerance: str  # the tolerance and its reason
    judge: Callable[[Any], Finding]
    subject: Any
    control: Any
    control_is: str  # the broken model in words
    expected: Verdict = Verdict.HOLDS
    evidence: Evidence = OWN
    refined: Any = None
    refined_evidence: Evidence | None = None
    protocol: Any = None
    protocol_evidence: Evidence | None = None
    live: bool = False
    grows: bool = False
    proof: str = ""  # one sentence, with where the proof or the exact counterexample is
    remark: str = ""  # what we found outside the assumptions of the claim
    condition: str = ""  # under which it holds; of a verdict "holds with condition"
    why: str = ""  # the reason for a verdict against it, in one sentence
    erratum: tuple[str, ...] = ()  # ids of points of the errata, "polarization/25"
    figures: tuple[str, ...] = ()  # ids of the figures that show it, "polarization/fig02"

    @property
    def on_paper(self) -> bool:
        return self.source != OURS

    @property
    def slow(self) -> dict[Level, tuple[Any, Evidence]]:
        """The subjects, with their evidence, whose findings are stored."""
        given: dict[Level, tuple[Any, Evidence | None]] = {
            "refined": (self.refined, self.refined_evidence),
            "paper protocol": (self.protocol, self.protocol_evidence),
        }
        return {level: (subject, evidence) for level, (subject, evidence) in given.items() if evidence is not None}


@dataclass(frozen=True)
class Check:
    """A claim, checked: on its subject and on its control, with its stored findings."""

    claim: Claim
    finding: Finding
    control: Finding
    stored: Mapping[Level, Record] = field(default_factory=dict)

    def stale(self, level: Level) -> bool:
        """Whether a stored finding is of another judge or subject than today's."""
        subject, _ = self.claim.slow.get(level, (None, None))
        return level not in self.claim.slow or self.stored[level].digest != records.digest(self.claim.judge, subject)

    @property
    def findings(self) -> dict[Level, Finding]:
        """Return the findings of today's judge and subjects."""
        fresh: dict[Level, Finding] = {
            level: record.finding for level, record in self.stored.items() if not self.stale(level)
        }
        return {"own": self.finding, **fresh}

    @property
    def settled(self) -> Settled:
        claim = self.claim
        levels = {"on_paper": claim.on_paper, "proved": bool(claim.proof), "own_level": claim.evidence.level}
        return settle(self.findings, **levels)

    @property
    def supported(self) -> bool:
        """Whether a verdict against a paper may stand on it: a proof, or findings at all levels that agree."""
        agreeing = [level for level, finding in self.findings.items() if finding.verdict is self.finding.verdict]
        return bool(self.claim.proof) or {"own", "refined", "paper protocol"} <= {*agreeing, self.claim.evidence.level}

    @property
    def verdict(self) -> Verdict:
        return self.settled.verdict

    @property
    def evidence(self) -> str:
        """The levels in words: "own + refined (stored 2026-11-18)", "own + proof"."""
        parts = ["own" if self.claim.evidence.level == "own" else f"own ({self.claim.evidence.level})"]
        for level in self.claim.slow:
            if level not in self.stored:
                parts.append(f"{level} (not stored)")
            elif self.stored[level].lacking:
                parts.append(f"{level} (too little)")
            elif self.claim.live:
                parts.append(level)
            else:
                parts.append(f"{level} ({'stale' if self.stale(level) else 'stored'} {self.stored[level].date})")
        return " + ".join([*parts, *(["proof"] if self.claim.proof else [])])

    @property
    def control_failed(self) -> bool:
        """Whether the broken model was told apart, as it must be; an undecided finding has no need."""
        return self.finding.verdict is Verdict.UNDECIDED or self.control.verdict is not self.finding.verdict

    @property
    def control_told(self) -> str:
        """Return in words what came of the control."""
        if not self.control_failed:
            return "the same verdict, so the check is void"
        if self.finding.verdict is Verdict.UNDECIDED:
            return f"{self.control.verdict}, and there is no finding to tell it from"
        return "fails, as it must" if self.control.verdict is Verdict.FAILS else f"{self.control.verdict}, as it must"

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the stored one, or the first one of a claim on tables that grow."""
        open_until_now = self.claim.grows and self.claim.expected is Verdict.UNDECIDED and not self.finding.lacking
        return self.verdict is self.claim.expected or open_until_now

    @property
    def ok(self) -> bool:
        return self.as_expected and self.control_failed

    def plain(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "id": claim.id,
            "source": claim.source,
            "place": claim.place,
            "statement": claim.statement,
            "measured": self.finding.measured,
            "tolerance": claim.tolerance,
            "verdict": str(self.verdict),
            "reason": self.settled.reason,
            "expected": str(claim.expected),
            "evidence": self.evidence,
            "findings": self._plain_findings(),
            "proof": claim.proof,
            "remark": claim.remark,
            "condition": claim.condition,
            "why": claim.why,
            "erratum": [asdict(errata()[id]) for id in claim.erratum],
            "figures": list(claim.figures),
            "control": claim.control_is,
            "control_measured": self.control.measured,
            "control_failed": self.control_failed,
            "ok": self.ok,
        }

    def _plain_findings(self) -> list[dict[str, Any]]:
        own = {"verdict": str(self.finding.verdict), "measured": self.finding.measured}
        rows = [own | {"evidence": self.claim.evidence.plain()}]
        for level, record in self.stored.items():
            finding = {"verdict": record.verdict, "measured": record.measured, "evidence": record.evidence}
            rows.append(finding | {"date": record.date, "command": record.command, "stale": self.stale(level)})
        return rows


def check(claim: Claim) -> Check:
    """Judge a claim at its own level, with its stored findings; those of a live claim are made now."""
    others = refine(claim) if claim.live else stored(claim)
    return Check(claim, claim.judge(claim.subject), claim.judge(claim.control), others)


def stored(claim: Claim) -> dict[Level, Record]:
    return records.read(claim.id, claim.judge)


def refine(claim: Claim) -> dict[Level, Record]:
    """Make the refined finding and the one at the paper's protocol."""
    made: dict[Level, Record] = {}
    for level, (subject, evidence) in claim.slow.items():
        began = time.process_time()
        finding = claim.judge(subject)
        made[level] = Record(
            verdict=str(finding.verdict),
            measured=finding.measured,
            lacking=finding.lacking,
            evidence=evidence.plain(),
            digest=records.digest(claim.judge, subject),
            command=f"softmaxlab check {'' if claim.live else '--refined --write '}{claim.id}",
            date=date.today().isoformat(),
            seconds=round(time.process_time() - began, 1),
        )
    return made


def within(value: float, limit: float, measured: str) -> Finding:
    """Return the most common finding: the claim holds if a number is at most its tolerance (NaN is not)."""
    return Finding(Verdict.HOLDS if value <= limit else Verdict.FAILS, measured)
