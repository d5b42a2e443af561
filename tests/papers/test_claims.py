"""Every registered claim comes out as stored and tells its broken model apart; the machinery notices if not."""

import dataclasses
import pickle

import pytest

from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Verdict, check, within
from softmaxlab.papers.evidence import AGAINST
from softmaxlab.papers.index import CLAIMS, claims


@pytest.mark.parametrize("id", CLAIMS)
def test_the_claim_comes_out_as_stored_and_its_control_fails(id):
    done = check(CLAIMS[id])
    assert done.as_expected, (done.settled, done.finding.measured)
    assert done.control_failed, done.control.measured
    assert not CLAIMS[id].on_paper or done.verdict not in AGAINST or done.supported, done.evidence


@pytest.mark.parametrize("id", CLAIMS)
def test_a_claim_can_be_sent_to_another_process(id):
    assert pickle.loads(pickle.dumps(CLAIMS[id])).id == id


def test_a_wrong_verdict_or_a_void_control_is_not_ok():
    claim = CLAIMS["attention/bayes-mean"]
    assert check(claim).ok
    assert not check(dataclasses.replace(claim, expected=Verdict.FAILS)).ok
    assert not check(dataclasses.replace(claim, control=claim.subject)).ok
    assert not check(dataclasses.replace(claim, subject=claim.control)).ok


def test_nan_does_not_hold():
    assert within(float("nan"), 1.0, "").verdict is Verdict.FAILS


def test_claims_are_found_by_id_and_group():
    assert [c.id for c in claims(["attention/bayes-mean"])] == ["attention/bayes-mean"]
    assert {c.id.split("/")[0] for c in claims(["attention"])} == {"attention"}
    assert len(claims()) == len(CLAIMS)
    with pytest.raises(SpecError, match="unknown claim 'atention', did you mean 'attention'"):
        claims(["atention"])
