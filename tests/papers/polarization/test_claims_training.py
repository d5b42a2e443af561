"""Claims about induction runs on tables made here: decided by enough pairs, and told apart from their controls."""

import json

import pytest

import softmaxlab as sl
from softmaxlab.core.tables import write_table
from softmaxlab.papers.claim import Verdict, check
from softmaxlab.papers.evidence import AGAINST
from softmaxlab.papers.polarization import runs
from softmaxlab.papers.polarization.claims.training import CLAIMS
from softmaxlab.papers.polarization.pairs import LEAST_PAIRS
from softmaxlab.papers.polarization.run_groups import NORMALISED, OTHERS
from softmaxlab.training import Induction, Run
from softmaxlab.training.table import frame, row

CLAIM = {claim.id.removeprefix("polarization/"): claim for claim in CLAIMS}
ALIKE, UNLIKE = 1.0, 0.2
SEEDS = range(5)


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """Put these cells in place of the table that comes with softmaxlab."""
    monkeypatch.setattr(runs, "TABLES", tmp_path)

    def written(cells):
        store = sl.Store(tmp_path / "none")
        rows = [row(spec, spec.key, store) | {"status": "done"} | given for spec, given in cells]
        write_table(frame(rows), tmp_path / "induction.csv")

    return written


def induction(sinks, similarity=UNLIKE, accuracy=1.0, first=0.99, task=None, **fields):
    """A run of four heads: `sinks` in the second layer, and in the first `first` of the weight on the token before."""
    scores = [[0.1] * 4, [0.95] * sinks + [0.3 + 0.1 * sinks] * (4 - sinks)]
    alike = [[[1.0 if i == j else similarity for j in range(4)] for i in range(4)]] * 2
    cells = {"sink_score": scores, "similarity": alike, "previous_token": [[first] * 4, [0.1] * 4]}
    given = {name: json.dumps(value) for name, value in cells.items()}
    return Run(task=task or Induction(), **fields), given | {"induction_accuracy": accuracy}


def of_maps(more, fewer, seeds):
    """Normalised positive maps with `more` sinks, the others with `fewer`."""
    kinds = ((NORMALISED, more), (OTHERS, fewer))
    return [induction(sinks, map=map, seed=seed) for maps, sinks in kinds for map in maps for seed in seeds]


def pairs(one, other, seeds, **change):
    """Two runs of each normalised map and seed, the second with the change."""
    each = [(map, seed) for map in NORMALISED for seed in seeds]
    return [
        *(induction(*one, map=map, seed=seed) for map, seed in each),
        *(induction(*other, map=map, seed=seed, **change) for map, seed in each),
    ]


SHOWN = {
    "sinks-maps": lambda seeds: of_maps(4, 1, seeds),
    "sinks-aux": lambda seeds: pairs((4,), (0, ALIKE), seeds, task=Induction(aux=0.0)),
    "sinks-shifted": lambda seeds: pairs((1,), (4,), seeds, task=Induction(shifted=False)),
    "sinks-positions": lambda seeds: pairs((1,), (4,), seeds, positions="none"),
    "previous-token": lambda seeds: of_maps(4, 1, seeds),
}
REFUTED = {
    "sinks-maps": lambda seeds: of_maps(1, 4, seeds),
    "sinks-aux": lambda seeds: pairs((1,), (4, ALIKE), seeds, task=Induction(aux=0.0)),
    "sinks-shifted": lambda seeds: pairs((4,), (1,), seeds, task=Induction(shifted=False)),
    "sinks-positions": lambda seeds: pairs((4,), (1,), seeds, positions="none"),
    "previous-token": lambda seeds: [induction(4, first=0.2, map=map, seed=s) for map in NORMALISED for s in seeds],
}


@pytest.mark.parametrize("name", CLAIM)
def test_a_claim_is_decided_when_there_are_enough_runs_though_none_is_stored(commit, name):
    commit(SHOWN[name](SEEDS))
    done = check(CLAIM[name])
    assert (done.verdict, done.ok, CLAIM[name].expected) == (Verdict.HOLDS, True, Verdict.UNDECIDED)
    assert done.control_failed


@pytest.mark.parametrize("name", CLAIM)
def test_a_verdict_against_the_paper_needs_other_seeds_that_agree(commit, name):
    commit(REFUTED[name](SEEDS))
    done = check(CLAIM[name])
    assert done.verdict in AGAINST
    assert done.supported
    longer = range(1) if name == "previous-token" else ()
    commit([*REFUTED[name](range(2)), *REFUTED[name](longer)])  # of other seeds only one, which is too few
    done = check(CLAIM[name])
    assert done.verdict is Verdict.UNDECIDED
    assert done.settled.reason


@pytest.mark.parametrize("name", CLAIM)
def test_too_few_runs_decide_nothing_and_say_how_many_are_needed(commit, name):
    commit(SHOWN[name](range(1)))
    done = check(CLAIM[name])
    assert done.verdict is Verdict.UNDECIDED
    assert done.ok
    assert "it has" in done.settled.reason
    assert f"needs {LEAST_PAIRS}" in done.settled.reason


def test_signed_maps_with_more_sinks_than_softmax_make_it_a_condition(commit):
    signed = ("mlp", "mlp_norm", "linear", "linear_norm")
    cells = [(run, given) for run, given in of_maps(3, 1, SEEDS) if run.map not in signed]
    commit([*cells, *(induction(4, map=map, seed=seed) for map in signed for seed in SEEDS)])
    assert check(CLAIM["sinks-maps"]).verdict is Verdict.CONDITION


def test_runs_that_did_not_solve_the_task_make_no_pair(commit):
    commit(pairs((1,), (4, UNLIKE, 0.5), SEEDS, positions="none"))
    assert "it has 0 pairs" in check(CLAIM["sinks-positions"]).settled.reason
