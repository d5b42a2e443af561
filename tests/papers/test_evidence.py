"""What findings allow together, stored findings, and the rule for verdicts against a paper."""

import dataclasses
import importlib
import json

import pytest

from softmaxlab.papers import records
from softmaxlab.papers.claim import Check, Claim, Evidence, Finding, Verdict, check, refine, stored
from softmaxlab.papers.evidence import AGAINST, Settled, settle
from softmaxlab.papers.index import CLAIMS

LIMIT = 0.5


def below(value: float) -> Finding:
    return Finding(Verdict.HOLDS if value < LIMIT else Verdict.FAILS, f"{value:g}")


def claim(**changes) -> Claim:
    fields = {"id": "attention/fake", "source": "varre2026polarization", "place": "nowhere", "statement": "small"}
    fields |= {"tolerance": "0.5", "judge": below, "subject": 0.1, "control": 0.9, "control_is": "large"}
    return Claim(**(fields | changes))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "path_of", lambda id, judge: tmp_path / "refined" / f"{id.split('/')[1]}.json")
    return tmp_path


def keep(of: Claim) -> Check:
    records.write(of.id, of.judge, refine(of))
    return check(of)


def test_a_refined_finding_that_agrees_is_named_and_one_that_does_not_leaves_it_undecided(folder):
    refined = Evidence("refined", samples=4096, horizon=4e4)
    done = keep(claim(refined=0.2, refined_evidence=refined))
    assert done.ok
    assert done.evidence.startswith("own + refined (stored 20")
    done = keep(claim(refined=0.7, refined_evidence=refined, expected=Verdict.UNDECIDED))
    assert done.ok
    assert done.settled.reason == "at the level 'refined' it fails as stated"
    own, other = done.plain()["findings"]
    assert (own["measured"], other["measured"]) == ("0.1", "0.7")
    assert other["evidence"] == {"level": "refined", "samples": 4096, "horizon": 4e4}


def test_a_stale_record_does_not_count(folder):
    first = claim(refined=0.7, refined_evidence=Evidence("refined"))
    assert keep(first).verdict is Verdict.UNDECIDED
    other = check(dataclasses.replace(first, refined=0.8))  # the record is of another subject
    assert other.verdict is Verdict.HOLDS
    assert "refined (stale" in other.evidence
    path = records.path_of(first.id, first.judge)
    told = json.loads(path.read_text())
    told["findings"]["refined"]["digest"] = "0" * 16
    path.write_text(json.dumps(told))
    assert check(first).stale("refined")


def test_a_verdict_against_a_paper_needs_refinement_and_protocol_or_a_proof(folder):
    against = {"subject": 0.9, "control": 0.1, "expected": Verdict.FAILS}
    bare = check(claim(**against))
    assert (bare.verdict, bare.ok) == (Verdict.UNDECIDED, False)
    assert bare.settled.reason == "no refined evidence and not at the paper's protocol yet"
    half = keep(claim(**against, refined=0.8, refined_evidence=Evidence("refined")))
    assert half.settled.reason == "not at the paper's protocol yet"
    protocol = {"protocol": 0.7, "protocol_evidence": Evidence("paper protocol")}
    assert keep(claim(**against, refined=0.8, refined_evidence=Evidence("refined"), **protocol)).ok
    assert check(claim(**against, id="attention/proved", proof="by hand")).ok
    assert check(claim(**against, id="attention/ours", source="softmaxlab")).ok


def test_the_rule_over_all_claims_sees_a_verdict_that_stands_on_one_computation(folder, monkeypatch):
    against = {"subject": 0.9, "control": 0.1, "expected": Verdict.FAILS}
    refined = {"refined": 0.8, "refined_evidence": Evidence("refined")}
    monkeypatch.setattr("softmaxlab.papers.claim.settle", lambda findings, **rules: Settled(findings["own"].verdict))
    bare, half = check(claim(**against)), keep(claim(**against, **refined))
    assert (bare.verdict, half.verdict) == (Verdict.FAILS, Verdict.FAILS)
    assert not bare.supported
    assert not half.supported
    assert keep(claim(**against, **refined, evidence=Evidence("paper protocol"))).supported
    assert check(claim(**against, id="attention/proved", proof="by hand")).supported


def test_a_live_claim_is_refined_at_every_check_and_what_lacks_runs_does_not_count(folder):
    live = {"evidence": Evidence("paper protocol"), "refined_evidence": Evidence("refined"), "live": True}
    against = {"subject": 0.9, "control": 0.1, "expected": Verdict.FAILS}
    assert check(claim(**against, **live, refined=0.8)).ok
    assert check(claim(**against, **live, refined=0.1)).settled.reason == "at the level 'refined' it holds"

    def needs_more(value: float) -> Finding:
        return below(value) if value > 0.7 else Finding(Verdict.UNDECIDED, f"{value:g}", "it has 1 and needs 12")

    few = check(claim(**against, **live, refined=0.2, judge=needs_more))
    assert few.settled.reason == "no refined evidence (it has 1 and needs 12)"
    assert few.evidence == "own (paper protocol) + refined (too little)"
    own = check(claim(subject=0.2, control=0.9, judge=needs_more, grows=True, expected=Verdict.UNDECIDED))
    assert own.settled.reason == "it has 1 and needs 12"
    assert own.ok
    first = claim(subject=0.1, control=0.9, grows=True, expected=Verdict.UNDECIDED)
    assert check(first).ok  # its first verdict
    assert not check(dataclasses.replace(first, grows=False)).ok


def test_two_findings_that_agree_settle():
    fails = Finding(Verdict.FAILS, "")
    both = {"own": fails, "refined": fails, "paper protocol": fails}
    assert settle(both, on_paper=True, proved=False).verdict is Verdict.FAILS


def test_the_digest_sees_a_constant_that_the_judge_uses(monkeypatch):
    before = records.digest(below, 0.1)
    assert before == records.digest(below, 0.1) != records.digest(below, 0.2)
    monkeypatch.setitem(below.__globals__, "LIMIT", 0.6)
    assert records.digest(below, 0.1) != before


JUDGE = "def judge(x):\n    for value in x:\n        total = value {} 2\n    return total\n"
RENAMED = 'def judge(x):\n    """Return a number."""\n    for y in x:\n        result = y {} 2\n    return result\n'


def test_the_digest_sees_what_is_computed_and_no_docstrings_or_names_of_local_variables(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    sources = {"first": JUDGE.format("+"), "renamed": RENAMED.format("+"), "changed": RENAMED.format("-")}
    digests = {}
    for name, source in sources.items():
        (tmp_path / f"judge_{name}.py").write_text(source)
        digests[name] = records.digest(importlib.import_module(f"judge_{name}").judge, 0.1)
    assert digests["first"] == digests["renamed"] != digests["changed"]


@pytest.mark.parametrize("id", [id for id, c in CLAIMS.items() if c.on_paper and c.expected in AGAINST])
def test_no_stored_verdict_against_a_paper_stands_on_one_computation(id):
    """It has a proof, or records of today's judge at a refined level and at the paper's protocol, that agree."""
    judged = CLAIMS[id]
    same = Finding(judged.expected, "")
    done = Check(judged, same, same, stored(judged))
    assert judged.proof or set(done.findings) == {"own", "refined", "paper protocol"}, done.evidence
    assert done.verdict is judged.expected, done.settled


@pytest.mark.parametrize("id", [id for id in CLAIMS if stored(CLAIMS[id])])
def test_stored_findings_are_of_todays_code(id):
    done = Check(CLAIMS[id], Finding(Verdict.HOLDS, ""), Finding(Verdict.FAILS, ""), stored(CLAIMS[id]))
    assert not [level for level in done.stored if done.stale(level)]
