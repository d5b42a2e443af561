"""Runs in bfloat16: validated by pairs with float32 and by seeds, and drawn only then."""

import json

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core.tables import write_table
from softmaxlab.papers.claim import Verdict, check
from softmaxlab.papers.index import CLAIMS
from softmaxlab.papers.polarization import runs
from softmaxlab.papers.polarization.figures.fig04 import Fig04
from softmaxlab.papers.polarization.precision import precision_pairs
from softmaxlab.papers.polarization.runs import read_runs
from softmaxlab.training import Induction, Run
from softmaxlab.training.presets import MAPS
from softmaxlab.training.table import frame, row

SEEDS = range(3)
BASE = np.linspace(0.5, 0.99, len(MAPS))  # the score of each map: some are sinks


def run(map, seed, score, precision, accuracy=1.0):
    scores = json.dumps([[0.1] * 4, [score] * 4])
    cells = {"induction_accuracy": accuracy, "sink_score": scores, "sink_score_pooled": scores}
    return Run(task=Induction(), map=map, seed=seed, precision=precision), cells


def table(tmp_path, moved=0.0, maps=MAPS):
    """Every map in float32 with three seeds, and in bfloat16 with one or two, `moved` away."""
    draw = np.random.default_rng(0)
    noise = dict(zip(MAPS, 0.05 * draw.standard_normal((len(MAPS), 5))))
    level = dict(zip(MAPS, BASE))
    full = [run(map, seed, level[map] + noise[map][seed], "float32") for map in MAPS for seed in SEEDS]
    half = [
        run(map, seed, level[map] + noise[map][seed] + 0.2 * noise[map][3 + seed] - moved, "bfloat16")
        for map in maps
        for seed in SEEDS[:2]
    ]
    only = run("softmax", 4, 0.99, "bfloat16")
    store = sl.Store(tmp_path / "none")
    rows = [row(spec, spec.key, store) | {"status": "done"} | cells for spec, cells in (*full, *half, only)]
    return str(write_table(frame(rows), tmp_path / "induction.csv"))


@pytest.fixture(autouse=True)
def _no_committed_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "TABLES", tmp_path)


def counted(path):
    return Fig04(runs=path)._run("cpu")


def test_small_differences_are_validated_and_drawn_with_a_mark(tmp_path):
    path = table(tmp_path)
    pairs = precision_pairs(read_runs(path, "induction"))
    assert (pairs.pairs, len(pairs.maps), pairs.seed_pairs) == (2 * len(MAPS), len(MAPS), 3 * len(MAPS))
    assert pairs.validated, list(map(str, pairs.differences))
    result = counted(path)
    assert result["bfloat16"].sum() == 1  # where a setting has both, float32 is drawn
    texts = [text.get_text() for ax in Fig04.draw(result).axes for text in ax.texts]
    assert "4b" in texts
    assert "3" in texts
    done = check(CLAIMS["polarization/bfloat16"])
    assert (done.verdict, done.ok) == (Verdict.HOLDS, True)


def test_a_shift_is_refused_and_not_drawn(tmp_path):
    path = table(tmp_path, moved=0.2)
    assert not precision_pairs(read_runs(path, "induction")).validated
    result = counted(path)
    assert result["bfloat16"].sum() == 0
    assert "left out: not validated" in Fig04.draw(result).get_suptitle()
    assert check(CLAIMS["polarization/bfloat16"]).verdict is Verdict.FAILS


def test_too_few_pairs_validate_nothing(tmp_path):
    path = table(tmp_path, maps=MAPS[:3])
    pairs = precision_pairs(read_runs(path, "induction"))
    assert "it has 6 pairs in both precisions, of 3 maps" in pairs.lacking
    assert not pairs.validated
    assert counted(path)["bfloat16"].sum() == 0
    assert check(CLAIMS["polarization/bfloat16"]).settled.reason == pairs.lacking
