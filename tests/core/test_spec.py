import json
import subprocess
import sys
from typing import Annotated

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

import softmaxlab as sl
from softmaxlab import Result
from softmaxlab.attention import Compare
from softmaxlab.core.arrays import READABLE, Array
from softmaxlab.core.spec import Record, Spec, from_json
from softmaxlab.errors import SpecError
from softmaxlab.papers.index import figure
from softmaxlab.specialization import FlippingSpike, SingleLocation
from tests.core.random_specs import random_spec

MANY = 10_000


class Part(Record):
    """A family of parts, to test fields that hold any of its leaves."""


class Leaf(Part):
    vocab: Annotated[int, Field(gt=0)] = 51


class OtherLeaf(Part):
    width: float = 1.0


class Whole(Spec):
    part: Part = Leaf()
    lr: float = 0.1
    points: Array = np.zeros(2)

    def _run(self, device):
        return Result({"lr": self.lr}, {})


READ_KEYS = """
import sys
from softmaxlab.core.spec import from_json
for line in sys.stdin:
    spec = from_json(line)
    print(spec.key, spec.json_text() == line.strip())
"""


def test_random_specs_round_trip_and_keep_their_key_in_a_new_process():
    rng = np.random.default_rng(0)
    specs = [random_spec(rng) for _ in range(MANY)]
    texts = [spec.json_text() for spec in specs]
    assert [from_json(text) for text in texts] == specs
    done = subprocess.run(
        [sys.executable, "-c", READ_KEYS], input="\n".join(texts), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [word for spec in specs for word in (spec.key, "True")]
    assert len({spec.key for spec in specs}) == len(set(texts))


OF_EVERY_LABORATORY = (  # laboratories do not import one another, papers import all
    sl.attention.Compare([[[0.5, -1.0]]]),
    sl.polarization.Flow("logistic", beta=np.ones(2), V=np.eye(2), a=np.zeros(2), t_end=1.0),
    sl.specialization.Flow(SingleLocation(prior=FlippingSpike(nu=(1.0, 1.0)), length=3, heads=2)),
    sl.training.Run(task=sl.training.Induction()),
    sl.probing.LanguageModel(map="softmax1"),
    figure("polarization/fig02").preset("quick"),
)


def test_a_new_process_knows_every_laboratory():
    lines = "\n".join(spec.json_text() for spec in OF_EVERY_LABORATORY)
    done = subprocess.run([sys.executable, "-c", READ_KEYS], input=lines, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [word for spec in OF_EVERY_LABORATORY for word in (spec.key, "True")]


def test_the_key_is_what_it_always_was():
    """A literal: a change of Python, pydantic or our code that moves keys would orphan every stored result."""
    assert Compare([[[0.5, -1.0]]], maps=("softmax",)).key == "996a53e3b3ba72a3eca15207"


def test_equal_numbers_have_equal_keys():
    assert Whole(lr=1).key == Whole(lr=1.0).key
    assert Whole(points=[0, -0.0]).key == Whole(points=torch.zeros(2)).key
    assert Whole(lr=1).key != Whole(lr=2).key


def test_zero_has_one_sign():
    assert Whole(lr=-0.0).key == Whole(lr=0.0).key


MINE = """
import softmaxlab as sl

class Mine(sl.Spec):
    x: float = 1.0

    def _run(self, device):
        return sl.Result({"x": FACTOR * self.x}, {})

print(sl.simulate(Mine(), store="runs")["x"].item())
"""


def test_a_users_own_spec_is_keyed_by_its_source(tmp_path):
    for factor in (1, 2):
        script = tmp_path / "script.py"
        script.write_text(MINE.replace("FACTOR", str(factor)))
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        assert done.stdout == f"{float(factor)}\n", done.stderr


BASE = "import softmaxlab as sl\n\nclass Base(sl.Spec):\n    def double(self):\n        return FACTOR\n"
LEAF = "from base import Base\n\nclass Leaf(Base):\n    pass\n\nprint(Leaf().key)\n"


def test_a_users_base_class_is_part_of_the_key(tmp_path):
    keys = []
    (tmp_path / "leaf.py").write_text(LEAF)
    for factor in (1, 2):
        (tmp_path / "base.py").write_text(BASE.replace("FACTOR", str(factor)))
        done = subprocess.run([sys.executable, "-B", "leaf.py"], cwd=tmp_path, capture_output=True, text=True)
        keys.append(done.stdout)
        assert len(done.stdout) == 25, done.stderr
    assert keys[0] != keys[1]


def test_two_classes_cannot_share_a_kind():
    with pytest.raises(TypeError, match="is taken by"):
        type("Compare", (Spec,), {"__module__": "softmaxlab.attention.elsewhere", "__annotations__": {}})


def test_a_new_engine_version_moves_the_key(monkeypatch):
    before = Whole().key
    monkeypatch.setattr(Whole, "version", 2)
    assert Whole().key != before


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=3 * READABLE))
def test_arrays_round_trip_exactly(numbers):
    spec = Whole(points=numbers)
    back = from_json(spec.json_text())
    assert np.array_equal(back.points, np.array(numbers))
    assert back == spec


def test_arrays_are_frozen_copies():
    points = np.ones(3)
    spec = Whole(points=points)
    points[0] = 7
    assert spec.points[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        spec.points[0] = 2


def test_specs_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        Whole().lr = 2.0


def test_a_field_holds_any_leaf_of_its_family():
    spec = Whole(part=OtherLeaf(width=2))
    assert from_json(spec.json_text()) == spec
    assert isinstance(from_json(spec.json_text()).part, OtherLeaf)


def test_replace_by_dotted_path():
    assert Whole().replace(**{"part.vocab": 81, "lr": 2}) == Whole(part=Leaf(vocab=81), lr=2.0)


def test_fields_by_position():
    assert Whole(Leaf(3), 0.5) == Whole(part=Leaf(vocab=3), lr=0.5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Whole(lr="x"), "Whole.lr must be a valid number, got 'x'"),
        (lambda: Whole(lr=True), "Whole.lr must be a valid number, got True"),
        (lambda: Whole(lr=float("nan")), "Whole.lr must be a finite number, got nan"),
        (lambda: Whole(points=[1.0, np.inf]), "Whole.points: must be finite, found inf at index [1]"),
        (lambda: Whole(points=[[1.0], [2.0, 3.0]]), "Whole.points: must be a rectangular array of numbers"),
        (lambda: Whole(points="abc"), "Whole.points: must be an array of real numbers"),
        (lambda: Whole(prat=Leaf()), "unknown field of Whole 'prat', did you mean 'part'?"),
        (lambda: Whole(part=Leaf(vocab=0)), "Leaf.vocab must be greater than 0, got 0"),
        (lambda: Whole(part={"kind": "tests.core.test_spec.Leef"}), "did you mean 'tests.core.test_spec.Leaf'?"),
        (lambda: Whole(part={"kind": "tests.core.test_spec.Whole"}), "must be a Part, got a Whole"),
        (lambda: Whole(part=3), "Whole.part must be a"),
        (lambda: Whole(Leaf(), part=Leaf()), "Whole.part is given twice"),
        (lambda: Whole(1, 2, 3, 4), "Whole takes at most 3 values, got 4"),
        (lambda: Whole().replace(**{"part.vocap": 3}), "unknown field of Leaf 'vocap', did you mean 'vocab'?"),
        (lambda: Whole().replace(**{"lr.x": 3}), "Whole.lr has no fields of its own"),
        (lambda: Compare(), "Compare.scores is required"),
        (lambda: Compare(score=[[[1.0]]]), "unknown field of Compare 'score', did you mean 'scores'?"),
        (lambda: Compare([[[1.0]]], maps=("sofmax",)), "unknown map 'sofmax', did you mean 'softmax'?"),
        (lambda: from_json("{"), "not a JSON document"),
        (lambda: from_json("[1]"), "a spec is a JSON object with a 'kind', got list"),
        (lambda: from_json('{"kind": "os.system"}'), "unknown kind 'os.system'"),
        (lambda: from_json('{"kind": ["x"]}'), "a kind is a name, got ['x']"),
        (lambda: from_json('{"kind": "tests.core.test_spec.Leaf"}'), "cannot be simulated, it is a part or a family"),
        (lambda: from_json('{"kind": "papers.FigureSpec"}'), "cannot be simulated"),
        (lambda: from_json("[" * 10**5), "nested too deeply"),
        (lambda: from_json('{"kind": "tests.core.test_spec.Whole", "lr": 1' + "0" * 5000 + "}"), "not a JSON document"),
        (lambda: from_json('{"kind": "tests.core.test_spec.Whole", "lr": 1, "lr": 2}'), "'lr' is given twice"),
        (lambda: Whole().replace(self=1), "unknown field of Whole 'self'"),
        (lambda: Whole(self=1), "unknown field of Whole 'self'"),
        (lambda: Whole(points={"shape": [-1], "float64_base64": "AAAAAAAAAAA="}), "must be an array, or an object"),
        (lambda: Whole(points=np.ma.masked_array([1.0], [True])), "must be an array of real numbers"),
        (lambda: from_json(json.dumps({"kind": Whole.kind, "lr": float("inf")})), "finite numbers only, got Infinity"),
    ],
)
def test_bad_input_is_one_line_that_names_the_field(build, message):
    with pytest.raises(SpecError) as caught:
        build()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
