"""One page per claim, and how its verdict is shown everywhere."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from softmaxlab.papers.claim import Check
from softmaxlab.papers.errata import errata
from softmaxlab.papers.evidence import Verdict
from softmaxlab.report.cross_references import figures_of
from softmaxlab.report.render import render_page

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

PAPERS = {
    "varre2026polarization": "Polarization",
    "sagitova2026specialization": "Specialization",
    "softmaxlab": "softmaxlab",
}
LOOKS = {
    Verdict.HOLDS: ("holds", "✓"),
    Verdict.CONDITION: ("part", "◐"),
    Verdict.FAILS: ("fails", "✗"),
    Verdict.UNDECIDED: ("open", "?"),
}
UNJUDGED = "unjudged"  # the rows of claims whose check raised


@dataclass(frozen=True)
class Chip:
    """A verdict as it is shown: `kind` chooses the colour, `kind_of_row` what a filter shows."""

    kind: str
    kind_of_row: str
    sign: str
    text: str
    stored: str = ""  # the stored verdict, if it is another
    control_passes: bool = False


def chip(done: "Reproduction", id: str) -> Chip:
    """Return how the verdict of a claim is shown."""
    check, expected = done.checks[id], done.claims[id].expected
    if check is None:
        return Chip("fails", UNJUDGED, "!", "not judged")
    kind, sign = LOOKS[check.verdict]
    stored = "" if check.as_expected else str(expected)
    return Chip(kind, kind, sign, str(check.verdict), stored, not check.control_failed)


def claim_page(done: "Reproduction", id: str) -> str:
    """Return the page of a claim."""
    claim, check, record = done.claims[id], done.checks[id], done.judged[id]
    explained = [("Condition", claim.condition), ("Why", claim.why)]
    explained += [("Proof", claim.proof), ("Remark of ours", claim.remark)]
    if check is not None:
        explained += [
            ("Undecided because", check.settled.reason),
            ("Evidence", check.evidence),
            ("Control", f"{claim.control_is}: {check.control_told}"),
            ("Control measured", record.control_measured),
        ]
    program = (
        "from softmaxlab.papers.index import CLAIMS\nfrom softmaxlab.papers.claim import check\n\n"
        f'print(check(CLAIMS["{id}"]).plain())'
    )
    return render_page(
        "claim.html",
        f"claims/{id}.html",
        id,
        paper=PAPERS.get(claim.source, claim.source),
        claim=claim,
        record=record,
        verdict=chip(done, id),
        explained=[(name, text) for name, text in explained if text],
        findings=_findings(check) if check is not None and check.stored else [],
        errata=[errata()[id] for id in claim.erratum],
        figures=figures_of(claim, done.figures.values()),
        program=program,
    )


def _findings(check: Check) -> list[list[str]]:
    """Return the cells of all findings side by side."""
    own = ["own", str(check.finding.verdict), check.finding.measured, str(check.claim.evidence), "each time"]
    stored = [
        [level, record.verdict, record.measured, str(record.effort), f"{'stale, ' * check.stale(level)}{record.date}"]
        for level, record in check.stored.items()
    ]
    return [own, *stored]
