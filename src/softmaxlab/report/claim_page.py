"""One page per claim, and how its verdict is shown everywhere."""

from html import escape
from typing import TYPE_CHECKING

from softmaxlab.papers.claim import Check
from softmaxlab.papers.evidence import Verdict
from softmaxlab.report.places import PAPERS, numbers, paper_of
from softmaxlab.report.prose import plain
from softmaxlab.report.shell import copyable, facts, note, row, table

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

UP = "../../"
LOOKS = {
    Verdict.HOLDS: ("holds", "✓"),
    Verdict.CONDITION: ("part", "◐"),
    Verdict.FAILS: ("fails", "✗"),
    Verdict.UNDECIDED: ("open", "?"),
}


def chip(done: "Reproduction", id: str) -> str:
    """The verdict in colour and words; one that is not the stored one says so."""
    check, claim = done.checks[id], done.claims[id]
    if check is None:
        return '<span class="chip fails">! not judged</span>'
    kind, sign = LOOKS[check.verdict]
    told = f'<span class="chip {kind}">{sign} {check.verdict}</span>'
    if not check.as_expected:
        told += f' <span class="chip fails">! stored: {claim.expected}</span>'
    return told if check.control_failed else f'{told} <span class="chip fails">! the control passes too</span>'


def claim_body(done: "Reproduction", id: str) -> str:
    claim, check, judged = done.claims[id], done.checks[id], done.judged[id]
    says = "We say" if claim.source == "softmaxlab" else "The paper says"
    told = [(says, plain(claim.statement)), ("Measured", plain(judged.measured) or "nothing")]
    told += [("Tolerance", plain(claim.tolerance)), ("Verdict", chip(done, id))]
    told += [(name, plain(text)) for name, text in (("Proof", claim.proof), ("Remark of ours", claim.remark)) if text]
    if check is not None:
        told += [("Why", plain(check.settled.reason))] if check.settled.reason else []
        told += [
            ("Evidence", plain(check.evidence)),
            ("Control", f"{plain(claim.control_is)}: {check.control_told}"),
            ("Control measured", plain(judged.control_measured)),
        ]
    told += [("Processor seconds", f"{judged.cpu:.1f}")]
    program = (
        "from softmaxlab.papers.index import CLAIMS\nfrom softmaxlab.papers.claim import check\n\n"
        f'print(check(CLAIMS["{id}"]).plain())'
    )
    error = note("<b>It could not be judged.</b>", bad=True) + copyable(judged.error, "error") if judged.error else ""
    return (
        f'<p class="lead">{escape(PAPERS.get(claim.source, claim.source))}, {plain(claim.place)}</p>{error}'
        f"{facts(told)}{_findings(check) if check else ''}{_figures(done, id)}"
        f"<h2>Check it again</h2>{copyable(f'softmaxlab check {id}', 'command')}{copyable(program, 'Python')}"
        f'<p><a href="{UP}index.html#verdicts">All verdicts</a></p>'
    )


def _findings(check: Check) -> str:
    """All findings side by side; nothing if there is only one."""
    if not check.stored:
        return ""
    own = [("own", check.finding.verdict, check.finding.measured, str(check.claim.evidence), "each time")]
    made = [
        (
            level,
            record.verdict,
            record.measured,
            str(record.effort),
            f"{'stale, ' if check.stale(level) else ''}{record.date}",
        )
        for level, record in check.stored.items()
    ]
    rows = [row([plain(str(cell)) for cell in cells]) for cells in (*own, *made)]
    header = ("Level", "Finding", "Measured", "Samples, horizon, runs, tolerance", "Computed")
    again = copyable(f"softmaxlab check --refined {check.claim.id}", "command")
    return f"<h2>Findings side by side</h2>{table(header, rows)}<p>The stored ones are made anew by</p>{again}"


def _figures(done: "Reproduction", id: str) -> str:
    """Links to the figures that the claim names."""
    wanted = numbers(done.claims[id].place)
    found = [f for f in done.figures.values() if paper_of(f.id) == paper_of(id) and wanted & numbers(f.place)]
    if not found:
        return ""
    items = "".join(f'<li><a href="{UP}{f.id}.html">{plain(f.place)}: {plain(f.title)}</a></li>' for f in found)
    return f"<h2>Figures</h2><ul>{items}</ul>"
