"""Study 3: what its numbers are on tables made up for it, and that its rows are of the models they say."""

from functools import partial

import numpy as np
import pandas
import pytest
import torch

from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Verdict
from softmaxlab.studies.claims.mitigation import (
    bias_for,
    falls_again,
    gone_with_the_loss,
    leads,
    mirrored,
    near_the_best,
    worse_away_from_zero,
)
from softmaxlab.studies.figures import bias_rule, mitigation, small_models
from softmaxlab.studies.figures.bias_rule import RULE, TASKS, BiasRule, HeldBias, excess
from softmaxlab.studies.figures.bumps import Bumps, bumps
from softmaxlab.studies.figures.mitigation import Mitigation, losses, recovered, steepest_fall
from softmaxlab.studies.figures.small_models import SmallModels, seeds_led
from softmaxlab.training import Induction, Run
from softmaxlab.training.language_model import LanguageModel, build, corpus

TINY = {"vocab": 300, "layers": 1, "heads": 2, "width": 16, "context": 64, "batch": 4}


def made_up(gap=1.0, first=0.3, prefix=0.25, bias=0.9, texts=12, bump=0.3, slope=0.01):
    """Losses 3 in float, a gap in int8, parts of it left by folds; softmax-1 with a bump at b = −2 in all heads."""
    noise = np.random.default_rng(0).normal(0, 0.01, texts)
    rows = []
    for text in range(texts):
        for change, left in {"none": 1.0, "first": first, "prefix": prefix, "bias": bias}.items():
            for weights, added in {"float": 0.0, "int8": gap * left}.items():
                rows.append((0, text, change, weights, np.nan, "all", 3.0 + added * (1 + noise[text])))
        for b in (-4.0, -2.0, 0.0):
            for heads in ("all", "sink"):
                rise = bump * (b == -2.0 and heads == "all") + slope * b
                rows.append((0, text, "softmax1", "float", b, heads, 3.0 + rise + noise[(text + int(b)) % texts]))
    return pandas.DataFrame(rows, columns=["draw", "text", "change", "weights", "b", "heads", "loss"])


def test_what_a_fold_recovers():
    value, low, high = recovered(made_up(), "prefix", 0)
    assert value == pytest.approx(0.75)
    assert low <= value <= high
    assert recovered(made_up(), "bias", 0)[0] == pytest.approx(0.1)
    assert recovered(bias_for(made_up(), "prefix"), "bias", 0)[0] > 0.7


def test_what_is_reported_is_over_all_texts():
    one = made_up()
    found = {number.name: number for number in Mitigation.numbers(pandas.concat([one, one.assign(draw=1)]))}
    prefix, alone = found["int8 gap closed by a prefix"], recovered(one, "prefix", 0)
    assert prefix.value == pytest.approx(alone[0])
    assert prefix.high - prefix.low < alone[2] - alone[1], "twice the texts"
    assert found["rise of the loss with softmax-1 at b = -2"].value == pytest.approx(0.28, abs=0.01)


def test_a_bump_is_a_fall():
    fall = steepest_fall(made_up(), 0, "all")
    assert (fall.b, fall.larger) == (-2.0, 0.0)
    assert fall.errors > 10
    assert steepest_fall(made_up(), 0, "sink").errors < 2
    assert steepest_fall(made_up(bump=0.0), 0, "all").errors < 2
    assert steepest_fall(mirrored(made_up(bump=0.0, slope=0.02)), 0, "sink").errors > 2, (
        "what rises falls in the mirror"
    )


def test_bumps_and_what_is_gone_at_them():
    b = [-np.inf, -2.0, 0.0]
    parts = {"bump": ([3.0, 3.4, 3.1], [100.0, 10.0, 90.0]), "kept": ([3.0, 3.4, 3.1], [100.0, 99.0, 98.0]),
             "rise": ([3.0, 3.1, 3.4], [100.0, 10.0, 90.0])}  # fmt: skip
    table = pandas.concat(
        [pandas.DataFrame({"text": text, "b": b, "loss": loss, "top": top}) for text, (loss, top) in parts.items()]
    )
    found = bumps(table).set_index("text")
    assert found["small"].to_dict() == {"bump": True, "kept": False}
    assert found.loc["bump", ["b", "larger"]].tolist() == [-2.0, 0.0]
    assert found.loc["bump", "fall"] == pytest.approx(0.3)
    assert bumps(gone_with_the_loss(table))["small"].all()
    two = pandas.DataFrame({"text": 0, "b": b, "loss": [3.4, 3.0, 3.1], "top": 1.0})
    assert bumps(two).empty, "a loss below softmax's is no fall between biases"
    with pytest.raises(SpecError, match=r"Bumps.biases must have 2 items or more, got \(0.0,\)"):
        Bumps(runs="made", biases=(0.0,))


@pytest.mark.slow
def test_rows_are_losses_of_the_changed_model(tmp_path, monkeypatch):
    build(LanguageModel(**TINY)).save_pretrained(tmp_path / "model")
    corpus(TINY["vocab"])[0].save_pretrained(tmp_path / "model")
    monkeypatch.setattr(mitigation, "MODEL", str(tmp_path / "model"))
    study = Mitigation(runs="made", draws=(0,), texts=3, length=32, biases=(-20.0, 3.0))
    table = study.made("cpu")
    assert len(table) == 3 * (8 + 2 * 2)
    plain = losses(table, 0, "none")
    np.testing.assert_allclose(losses(table, 0, "first"), plain, rtol=1e-5)  # float32, the first token on its own
    assert np.abs(losses(table, 0, "none", "int8") - plain).max() > 1e-5
    curve = mitigation.curve(table, 0, "all")
    np.testing.assert_allclose(curve[-20.0], plain, rtol=1e-5)  # e^−20 beside a sum of at least one exponential
    assert np.abs(curve[3.0] - plain).max() > 1e-4
    monkeypatch.setattr("softmaxlab.studies.figures.bumps.MODEL", mitigation.MODEL)
    monkeypatch.setattr("softmaxlab.studies.figures.bumps.LAYER", 0)
    single = Bumps(runs="made", draw_number=0, texts=3, length=32, biases=(0.0, 3.0)).made("cpu")
    np.testing.assert_allclose(single["loss"][:3], plain, rtol=1e-5)
    np.testing.assert_allclose(single["loss"][6:], curve[3.0], rtol=1e-5)
    assert Mitigation.draw(study._run("cpu")).axes[0].get_ylabel().startswith("rise of the loss")


def test_who_leads():
    table = pandas.DataFrame({
        "kind": ["softmax", "sigmoid"] * 3, "seed": [0, 0, 1, 1, 2, 2], "loss": 3.0,
        "int8_loss": [3.2, 3.1, 3.2, 3.1, 3.0, 3.1], "sink": [0.9, 0.1] * 3, "massive": [5.0, 6.0] * 3,
    })  # fmt: skip
    assert [seeds_led(table, "softmax", name) for name in ("sink", "massive", "gap")] == [3, 0, 2]


def test_the_rule_is_judged_where_biases_differ():
    table = pandas.DataFrame([(task, b, 1.0) for task in TASKS for b in (0.0, 3.0, 5.0)], columns=["task", "b", "loss"])
    language = table["task"] == "language model"

    def judged(losses):
        changed = table.copy()
        changed.loc[language, "loss"] = losses
        return near_the_best(lambda _: changed).verdict

    assert judged([1.0, 1.3, 1.2]) is Verdict.HOLDS, "induction, on which all are equal, does not count"
    assert judged([1.2, 1.0, 1.3]) is Verdict.FAILS
    assert judged([1.0, 1.0, 1.0]) is Verdict.FAILS, "nothing is left that counts"
    alone = near_the_best(lambda _: table.loc[language].assign(loss=[1.0, 1.3, 1.2]))
    assert alone.verdict is Verdict.HOLDS
    assert "induction" not in alone.measured
    with pytest.raises(SpecError, match="this claim is about the rule's bias, 0, of which these rows have none"):
        near_the_best(lambda _: table.loc[table["b"] > 0])


def test_losses_that_are_missing_are_not_skipped():
    table = made_up()
    table.loc[table["b"] == -2.0, "loss"] = np.nan
    with pytest.raises(SpecError, match="a text of draw 0 has no loss at one of its biases"):
        steepest_fall(table, 0, "all")
    single = pandas.DataFrame({"text": 3, "b": [-np.inf, -2.0, 0.0], "loss": [3.0, np.nan, 3.1], "top": 1.0})
    with pytest.raises(SpecError, match="text 3 has no loss at one of its biases"):
        bumps(single)


def test_one_seed_cannot_lead_in_two():
    with pytest.raises(SpecError, match="this claim is about 2 seeds and more, these rows have 1"):
        leads(lambda table: table.query("seed == 0"))


def test_one_draw_that_falls_again_is_enough():
    flat, bumpy = made_up(bump=0.0), made_up().assign(draw=1)
    assert falls_again(lambda _: pandas.concat([flat, bumpy])).verdict is Verdict.HOLDS
    assert falls_again(lambda _: flat).verdict is Verdict.FAILS


def test_the_excess_is_over_the_best_mean():
    table = pandas.DataFrame({"task": "induction", "b": [0.0, 0.0, 3.0, 3.0], "loss": [1.0, 3.0, 2.0, 3.0]})
    assert excess(table, "induction").to_dict() == pytest.approx({0.0: 0.0, 3.0: 0.25})
    assert excess(worse_away_from_zero(table), "induction").to_dict() == pytest.approx({0.0: 0.0, 3.0: 0.625})


@pytest.mark.parametrize("study", [BiasRule(), BiasRule(runs="made", heads=2, context=32)])
def test_the_rule_conserves_what_softmax_1_does(study):
    for task, length in zip(TASKS, (12, study.context)):
        b = study.rule(task)
        v = 1 + np.exp(b) / length
        assert b - length * np.exp(-b) + v**2 / (2 * study.heads) == pytest.approx(
            -length + 0.5 / study.heads, abs=1e-12
        )
        assert b == pytest.approx(RULE, abs=0.01), "the sweep's b = 0 stands for it"


def test_the_rule_s_distance_is_from_the_bias_that_is_best_in_the_mean():
    table = pandas.DataFrame({
        "task": "language model", "b": [0.0, 3.0] * 2, "seed": [0, 0, 1, 1], "loss": [3.0, 2.0, 2.0, 2.5],
    })  # fmt: skip
    *_, above = BiasRule.numbers(table)
    assert (above.name, above.value) == ("language model, the rule above the best", pytest.approx((0.5 - 0.2) / 2))
    assert len(BiasRule.numbers(table.query("b == 3"))) == 1


def test_a_fixed_bias_of_induction_is_held_and_matters(monkeypatch):
    held = []
    import softmaxlab.training.loop as loop

    step = loop.train
    monkeypatch.setattr(loop, "train", lambda model, *rest: held.append(model) or step(model, *rest))
    run = Run(task=Induction(train=512, evaluate=64), map="softmax1", epochs=2)
    found = [simulate(HeldBias(run=run, b=b)) for b in (0.0, 5.0)]
    for model, b in zip(held, (0.0, 5.0)):
        torch.testing.assert_close(model.blocks[-1].attention.bias, torch.full((4,), b))
        assert model.blocks[0].attention.bias.abs().max() > 0, "layer 1 learns its own"
    assert found[0]["loss"] != found[1]["loss"]
    assert all(one["last_loss"] < one["loss"] for one in found)


@pytest.mark.slow
def test_models_are_trained_as_they_are_asked_for(monkeypatch):
    """In processes of their own: the smallest that the specs allow."""
    monkeypatch.setattr(bias_rule, "STEPS", 3)
    monkeypatch.setattr(bias_rule, "Induction", partial(Induction, train=512, evaluate=64))
    size = {"context": 16, "batch": 2, "steps": 3}
    found = SmallModels(runs="made", seeds=(0,), **size).made("cpu")
    assert found["kind"].tolist() == list(small_models.KINDS)
    assert found["loss"].nunique() == 4
    assert (found["massive"] > 1).all()
    plain = simulate(LanguageModel(map="softmax", seed=0, **size))
    assert found["loss"][0] == pytest.approx(float(plain["loss"]), rel=1e-4)  # one thread here, more there
    swept = BiasRule(runs="made", heads=2, context=16, biases=(0.0, 2.0), seeds=(0,)).made("cpu")
    assert swept["loss"].nunique() == 4
    assert swept["last_loss"].isna().tolist() == [False, False, True, True]
