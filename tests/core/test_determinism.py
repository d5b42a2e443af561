"""What is equal to the last bit, what agrees to rounding, and what a content key depends on."""

import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.core.provenance import differences, of_stored, sentence
from softmaxlab.core.result import Result

ROUNDING = 1e-4  # relative: two hundred float32 steps magnify 1e-7 some hundred times
PROBLEM = {"loss": "logistic", "beta": [1.0, -0.5], "V": [[0.1, 0.3], [-0.2, 0.1]], "a": [0.0, 0.1]}
MODEL = sl.specialization.SingleLocation(prior=sl.specialization.FlippingSpike(nu=(2.0, 2.0)), length=4, heads=2)
TASK = sl.training.Induction(vocab=12, tokens=5, train=512, evaluate=64)
SPECS = {
    "flow": sl.polarization.Flow(**PROBLEM, t_end=1e4, points=20),
    "descent": sl.polarization.Descent(**PROBLEM, lr=0.1, steps=1000),
    "order parameters": sl.specialization.Flow(MODEL, tau_end=2.0, samples=256),
    "sgd": sl.specialization.SGD(MODEL, dim=100, batch=200, tau_end=0.4),
    "direct": sl.specialization.SGD(MODEL, dim=30, batch=20, tau_end=0.2, method="direct"),
    "training": sl.training.Run(task=TASK, width=32, heads=2, epochs=2),
}
OTHER_PROCESS = """
import sys, torch
import softmaxlab as sl
torch.set_num_threads(1)
torch.rand(3)
spec = sl.from_json(sys.stdin.read())
sl.simulate(spec.replace(**({"seed": 7} if "seed" in type(spec).model_fields else {})))
sl.simulate(spec, store="runs")
"""


def equal(one: Result, other: Result) -> bool:
    return set(one) == set(other) and all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


@pytest.mark.parametrize("name", SPECS)
def test_another_process_with_another_past_gives_the_same_bits(name):
    spec = SPECS[name]
    subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS], input=spec.json_text(), text=True, check=True,
        env=os.environ | {"SOFTMAXLAB_KERNEL": "torch"},
    )  # fmt: skip
    stored = sl.Store("runs").get(spec)
    assert stored is not None
    os.environ["SOFTMAXLAB_KERNEL"] = "torch"
    try:
        assert equal(stored, sl.simulate(spec))
    finally:
        del os.environ["SOFTMAXLAB_KERNEL"]


def test_another_seed_does_not():
    assert not equal(sl.simulate(SPECS["sgd"]), sl.simulate(SPECS["sgd"].replace(seed=1)))


@pytest.mark.parametrize("name", ["flow", "descent", "order parameters", "sgd"])
def test_theory_does_not_depend_on_the_threads_of_torch(name):
    one = sl.simulate(SPECS[name])
    torch.set_num_threads(2)
    try:
        assert equal(one, sl.simulate(SPECS[name]))
    finally:
        torch.set_num_threads(1)


def test_training_agrees_to_rounding_with_more_threads():
    one = sl.simulate(SPECS["training"])
    torch.set_num_threads(2)
    try:
        two = sl.simulate(SPECS["training"])
    finally:
        torch.set_num_threads(1)
    np.testing.assert_allclose(two["train_loss"], one["train_loss"], rtol=ROUNDING)
    other = sl.simulate(SPECS["training"].replace(seed=1))
    assert np.abs(other["train_loss"] / one["train_loss"] - 1).max() > ROUNDING


def test_the_key_does_not_depend_on_threads_device_or_versions(tmp_path):
    spec = SPECS["descent"]
    key = spec.key
    result = sl.simulate(spec, store=tmp_path / "runs")
    assert spec.key == key
    assert {"versions", "threads", "device", "kernels", "machine", "python"} <= result.provenance.keys()
    assert spec.replace(lr=0.2).key != key


def with_versions(result: Result, **versions: str) -> Result:
    made = dict(result.provenance) | {"versions": dict(result.provenance["versions"]) | versions}
    return Result(result.arrays, result.axes, result.status, result.notes, result.spec, made)


def test_a_stored_result_of_other_versions_is_named_when_it_is_used(tmp_path, caplog):
    spec = SPECS["descent"]
    with_versions(sl.simulate(spec), numpy="1.0.0").write(tmp_path / spec.key, spec.key)
    with caplog.at_level(logging.INFO, "softmaxlab"):
        sl.simulate(spec, store=tmp_path)
    assert f"the stored result {spec.key} was computed with other versions (numpy 1.0.0, now {np.__version__})" in (
        caplog.text
    )
    caplog.clear()
    sl.simulate(spec.replace(lr=0.2), store=tmp_path)
    with caplog.at_level(logging.INFO, "softmaxlab"):
        sl.simulate(spec.replace(lr=0.2), store=tmp_path)
    assert caplog.text == ""


def test_results_that_were_not_computed_alike_are_told_apart(tmp_path):
    store, specs = sl.Store(tmp_path), [SPECS["descent"].replace(lr=lr) for lr in (0.1, 0.2)]
    for spec, version in zip(specs, ("1.0.0", "2.0.0")):
        with_versions(sl.simulate(spec), numpy=version).write(tmp_path / spec.key, spec.key)
    keys = [spec.key for spec in specs]
    different = differences(of_stored(store, keys))
    assert different == {"numpy": ["1.0.0", "2.0.0"]}
    assert "numpy: 1.0.0, 2.0.0" in sentence(different)
    assert differences(of_stored(store, keys[:1])) == {}
    assert json.dumps(different)
