"""Claims about training on tables made here: told apart from their controls, and silent where there is no data."""

import json
from dataclasses import replace

import pytest

import softmaxlab as sl
from softmaxlab.core.tables import write_table
from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Verdict, check
from softmaxlab.papers.polarization import runs
from softmaxlab.papers.polarization.claims import training as claims_training
from softmaxlab.papers.polarization.claims.training import CLAIMS
from softmaxlab.papers.polarization.run_groups import NORMALISED, OTHERS
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.table import frame, row

CLAIM = {claim.id.removeprefix("polarization/"): claim for claim in CLAIMS}
ALIKE, UNLIKE = 1.0, 0.2


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Commit these cells instead of the tables that come with softmaxlab."""
    monkeypatch.setattr(runs, "TABLES", tmp_path)

    monkeypatch.setattr(claims_training, "PAIRS", 1)  # what a judge says of enough pairs is seen on few

    def commit(cells, task="induction"):
        store = sl.Store(tmp_path / "none")
        rows = [row(spec, spec.key, store) | {"status": "done"} | given for spec, given in cells]
        write_table(frame(rows), tmp_path / f"{task}.csv")

    return commit


def induction(score, similarity=UNLIKE, accuracy=1.0, task=None, **fields):
    """A run of four heads, all with one score in the second layer, that attend to the previous token in the first."""
    scores = [[0.1] * 4, score if isinstance(score, list) else [score] * 4]
    alike = [[[1.0 if i == j else similarity for j in range(4)] for i in range(4)]] * 2
    cells = {"sink_score": scores, "similarity": alike, "previous_token": [[0.99] * 4, [0.1] * 4]}
    given = {name: json.dumps(value) for name, value in cells.items()}
    return Run(task=task or Induction(), **fields), given | {"induction_accuracy": accuracy}


def flips(rate, layers=1, heads=1, **fields):
    run = Run(task=Classification(), layers=layers, heads=heads, **fields)
    return run, {"flip_rate": json.dumps([[rate] * heads] * layers)}


def of_all_maps(high, low, **more):
    return [*(induction(high, map=map, **more) for map in NORMALISED), *(induction(low, map=map) for map in OTHERS)]


def grid(rates):
    return [flips(rate, *which, mlp=False, layernorm=False) for which, rate in rates.items()]


FALLING = {(1, 1): 1.0, (2, 1): 0.6, (1, 2): 0.6, (2, 2): 0.3, (1, 4): 0.3, (2, 4): 0.1}
FULL = {
    "sinks-maps": ("induction", of_all_maps(0.95, 0.2)),
    "previous-token": ("induction", of_all_maps(0.95, 0.2)),
    "sinks-aux": ("induction", [induction(0.95), induction(0.1, ALIKE, task=Induction(aux=0.0))]),
    "sinks-shifted": ("induction", [induction(0.5), induction(0.95, task=Induction(shifted=False))]),
    "sinks-positions": ("induction", [induction(0.5), induction(0.95, positions="none")]),
    "flips-one-head": ("classification", [flips(0.95), flips(0.1, map="sigmoid"), flips(0.5, map="elu_norm")]),
    "flips-fall": ("classification", grid(FALLING)),
}


@pytest.mark.parametrize("name", CLAIM)
def test_a_claim_holds_on_tables_that_show_it_and_not_on_its_control(tables, name):
    task, cells = FULL[name]
    tables(cells, task)
    assert check(replace(CLAIM[name], expected=Verdict.HOLDS)).ok


@pytest.mark.parametrize("name", CLAIM)
def test_without_a_group_to_compare_there_is_no_verdict(tables, name):
    task, cells = FULL[name]
    unnormalised = len(NORMALISED)  # the place of a run that is in no group of normalised maps
    one = unnormalised if name in ("previous-token", "sinks-maps") else 0
    tables(cells[one : one + 1], task)
    for given in (CLAIM[name].subject, CLAIM[name].control):
        with pytest.raises(SpecError, match=rf"claim polarization/{name} needs .*, the tables have none"):
            CLAIM[name].judge(given)


def test_runs_without_scores_are_neither_sinks_nor_none(tables):
    tables([*of_all_maps(0.95, 0.2), induction([0.99, 0.99, 0.99, None], map="softmax", seed=1),
            induction([0.99] * 4, map="linear", accuracy=0.5, seed=1)])  # fmt: skip
    finding = check(CLAIM["sinks-maps"]).finding
    assert finding.verdict is Verdict.HOLDS
    assert "over 11 runs: softmax 1.00" in finding.measured


def test_maps_that_nobody_solved_are_named(tables):
    tables([*of_all_maps(0.95, 0.2)[:-1], induction(0.99, map="linear_norm", accuracy=0.4)])
    finding = CLAIM["sinks-maps"].judge({})
    assert finding.verdict is Verdict.HOLDS
    assert "(no solved run: linear_norm)" in finding.measured


def test_a_signed_map_with_sinks_makes_it_a_condition(tables):
    tables([*of_all_maps(0.95, 0.2)[:-1], induction(1.0, map="linear_norm")])
    assert CLAIM["sinks-maps"].judge({}).verdict is Verdict.CONDITION
    tables([*of_all_maps(0.95, 0.2), *(induction(1.0, map="sigmoid", seed=seed) for seed in range(1, 4))])
    assert CLAIM["sinks-maps"].judge({}).verdict is Verdict.HOLDS  # of four runs three have sinks, softmax all
    tables(of_all_maps(0.95, 0.95))
    assert CLAIM["sinks-maps"].judge({}).verdict is Verdict.FAILS


def test_diverged_runs_have_no_flip_rate(tables):
    diverged = {"status": "diverged", "flip_rate": None}
    cells = [*FULL["flips-one-head"][1], (Run(task=Classification(), layers=1, heads=1, map="mlp"), diverged)]
    tables(cells, "classification")
    finding = check(CLAIM["flips-one-head"]).finding
    assert (
        finding.measured
        == "mean flip rate over 3 runs: softmax 0.95 (0.95 with 41 symbols), next of 2 other maps elu_norm 0.50"
    )


def test_fewer_than_twelve_pairs_decide_nothing():
    for name in ("sinks-aux", "sinks-shifted", "sinks-positions"):
        assert CLAIM[name].judge({}).verdict is Verdict.UNDECIDED
