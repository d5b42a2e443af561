"""A claim is a statement that a computation can confirm or refute, with a broken model on which it must not pass."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Verdict(enum.StrEnum):
    HOLDS = "holds"
    CONDITION = "holds with condition"
    FAILS = "fails as stated"


@dataclass(frozen=True)
class Finding:
    """What a check saw: its verdict and the measured quantity in words and numbers."""

    verdict: Verdict
    measured: str


@dataclass(frozen=True)
class Claim:
    """`judge(subject)` gives the finding; `judge(control)`, on a broken model, must not give the expected verdict."""

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


@dataclass(frozen=True)
class Check:
    """A claim, checked: on its subject and on its control."""

    claim: Claim
    finding: Finding
    control: Finding

    @property
    def control_failed(self) -> bool:
        """Whether the broken model was told apart, as it must be."""
        return self.control.verdict is not self.claim.expected

    @property
    def control_told(self) -> str:
        """What came of the control, in words."""
        if not self.control_failed:
            return "the same verdict, so the check is void"
        return "fails, as it must" if self.control.verdict is Verdict.FAILS else f"{self.control.verdict}, as it must"

    @property
    def ok(self) -> bool:
        return self.finding.verdict is self.claim.expected and self.control_failed

    def plain(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "id": claim.id,
            "source": claim.source,
            "place": claim.place,
            "statement": claim.statement,
            "measured": self.finding.measured,
            "tolerance": claim.tolerance,
            "verdict": str(self.finding.verdict),
            "expected": str(claim.expected),
            "control": claim.control_is,
            "control_measured": self.control.measured,
            "control_failed": self.control_failed,
            "ok": self.ok,
        }


def check(claim: Claim) -> Check:
    return Check(claim, claim.judge(claim.subject), claim.judge(claim.control))


def within(value: float, limit: float, measured: str) -> Finding:
    """The commonest finding: holds if a number is at most its tolerance (NaN is not)."""
    return Finding(Verdict.HOLDS if value <= limit else Verdict.FAILS, measured)
