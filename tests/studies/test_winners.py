"""Early winners and the key a head ends on, on tracks made up for it; runs of a study that fail."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Verdict
from softmaxlab.papers.index import claims
from softmaxlab.studies.claims.optimizers import follows_the_flow
from softmaxlab.studies.figures.winners import LAYER, Winners, last_above, rows_of, run_of
from softmaxlab.studies.rerun import results_of
from softmaxlab.training import Induction

KEYS = 12
STEPS = np.array([0, 5, 10, 20, 30])


def test_the_last_above_the_mean():
    u = np.array([3.0, 1.2, 0.0, -4.0])
    assert last_above(u, np.full(4, 0.25)) == 1  # the mean is 0.05
    assert last_above(u, np.array([0.0, 0.0, 0.5, 0.5])) == 2  # −2
    assert last_above(u, np.array([0.5, 0.5, 0.0, 0.0])) == 0  # 2.1: none but the largest


def tracked(optimizer, loss, drive, share):
    """One layer-2 head of a run with the given drive before step 10 and share by step; other heads attend to key 0."""
    spec = run_of(Induction(), 0, optimizer)
    shape = (len(STEPS), spec.layers, spec.heads, KEYS)
    drives, shares = np.zeros(shape), np.zeros(shape)
    shares[..., 0] = 1.0
    drives[:3, LAYER, 1], shares[:, LAYER, 1] = drive, share
    drives[3:, LAYER, 1, -1] = 100.0  # too late to be read
    arrays = {"track_step": STEPS, "track_loss": loss, "track_drive": drives, "track_share": shares}
    axes = {"track_step": ("track_step",), "track_loss": ("track_step",)}
    axes |= dict.fromkeys(("track_drive", "track_share"), ("track_step", "layer", "head", "key"))
    return sl.Result(arrays, axes, spec=spec)


def test_rows_have_early_winners_and_the_key_at_the_matched_loss():
    drive = np.zeros(KEYS)
    drive[[2, 5]] = 3.0, 1.0
    share = np.full((5, KEYS), 1e-3)
    share[np.arange(5), [1, 4, 2, 3, 6]] = 1.0
    slow = tracked("sgd", np.array([4.0, 3.9, 3.5, 3.2, 3.0]), drive, share)
    fast = tracked("adamw", np.array([4.0, 3.0, 2.5, 2.2, 2.0]), drive, share)
    rows = rows_of([slow, fast]).query("head == 1").set_index(["optimizer", "matched"])
    assert set(rows["flow"]) == {2}
    assert set(rows["adam"]) == {5}
    assert rows["step"].to_dict() == {
        ("sgd", "97 %"): 10, ("sgd", "lowest"): 30, ("adamw", "97 %"): 5, ("adamw", "lowest"): 5,
    }  # fmt: skip
    assert rows.loc[("sgd", "lowest"), "token"] == 6
    assert rows.loc[("adamw", "lowest"), "token"] == 4, "where it reached what the other did, not its own end"


def test_a_loss_that_is_not_reached_has_no_row():
    still = [tracked(name, np.full(5, 4.0), np.zeros(KEYS), np.zeros((5, KEYS))) for name in ("sgd", "adamw")]
    with pytest.raises(SpecError, match=r"sgd with seed 0 never reaches the loss 3.88 \(97 %\)"):
        rows_of(still)


def test_rows_of_one_setting_are_judged_by_themselves():
    table = Winners.read()
    verdicts = {
        shifted: follows_the_flow(lambda _, shifted=shifted: table.loc[table["shifted"] == shifted]).verdict
        for shifted in (True, False)
    }
    assert verdicts == {True: Verdict.HOLDS, False: Verdict.FAILS}
    assert follows_the_flow(lambda _: table).verdict is Verdict.CONDITION


@pytest.mark.parametrize("claim", claims(["studies"]), ids=lambda claim: claim.id)
def test_a_claim_without_its_rows_says_so(claim):
    with pytest.raises(SpecError):
        claim.judge(lambda table: table[:0])


def test_a_study_says_why_its_runs_failed():
    bad = run_of(Induction(train=256, evaluate=32), 0, "sgd").replace(lr=1e30, width=8, batch=32, layernorm=False)
    with pytest.raises(SpecError, match="1 of 1 runs of the study failed, the first: the loss is not finite"):
        results_of([bad], "cpu")
