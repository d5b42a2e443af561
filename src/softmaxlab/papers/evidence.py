"""The evidence for a verdict: findings at several levels, each with samples, horizon, runs and tolerance."""

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["own", "refined", "paper protocol", "proof"]
Amount = int | float | str | None


class Verdict(enum.StrEnum):
    """The outcome of a check: the claim holds, holds with a condition, fails as stated, or is undecided."""

    HOLDS = "holds"
    CONDITION = "holds with condition"
    FAILS = "fails as stated"
    UNDECIDED = "undecided"


AGAINST = (Verdict.CONDITION, Verdict.FAILS)  # verdicts against a paper, which need more than one computation


@dataclass(frozen=True)
class Finding:
    """The outcome of one judgement: its verdict, and the measured quantity in words and numbers.

    `lacking` says what is missing for any verdict, as "it has 3 pairs and needs 12"; such a finding is undecided and,
    at a level other than a claim's own, does not count.
    """

    verdict: Verdict
    measured: str
    lacking: str = ""


@dataclass(frozen=True)
class Evidence:
    """The effort behind a finding: how many samples, to which time, how many runs or seeds, at which tolerance."""

    level: Level
    samples: Amount = None
    horizon: Amount = None
    runs: Amount = None
    tolerance: Amount = None

    def __str__(self) -> str:
        amounts = {name: amount for name, amount in asdict(self).items() if name != "level" and amount is not None}
        return ", ".join(f"{name} {_shown(amount)}" for name, amount in amounts.items())

    def plain(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def _shown(amount: Amount) -> str:
    return amount if isinstance(amount, str) else f"{amount:g}" if isinstance(amount, float) else f"{amount}"


@dataclass(frozen=True)
class Settled:
    """A verdict and, where it is undecided, the reason."""

    verdict: Verdict
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}" if self.reason else str(self.verdict)


def settle(findings: Mapping[Level, Finding], *, on_paper: bool, proved: bool, own_level: Level = "own") -> Settled:
    """Return the verdict that findings allow together.

    `findings` has "own" and, where they were made, "refined" and "paper protocol"; `own_level` is "paper protocol"
    where the claim's own level is that. Two that disagree decide nothing. A verdict against a paper needs a proof, or
    a refined finding and one at the paper's own protocol.
    """
    own = findings["own"]
    if own.lacking:
        return Settled(Verdict.UNDECIDED, own.lacking)
    counted = {level: finding for level, finding in findings.items() if not finding.lacking}
    for level, finding in counted.items():
        if finding.verdict is not own.verdict:
            return Settled(Verdict.UNDECIDED, f"at the level {level!r} it {_says(finding.verdict)}")
    if not on_paper or own.verdict not in AGAINST or proved:
        return Settled(own.verdict)
    lacking = {level: f" ({finding.lacking})" for level, finding in findings.items() if finding.lacking}
    needed: list[Level] = [level for level in _NEEDED if level not in (*counted, own_level)]
    missing = [_NEEDED[level] + lacking.get(level, "") for level in needed]
    return Settled(Verdict.UNDECIDED, " and ".join(missing)) if missing else Settled(own.verdict)


_NEEDED: dict[Level, str] = {"refined": "no refined evidence", "paper protocol": "not at the paper's protocol yet"}


def _says(verdict: Verdict) -> str:
    return "is undecided" if verdict is Verdict.UNDECIDED else str(verdict)
