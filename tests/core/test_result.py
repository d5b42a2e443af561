import numpy as np
import pytest

from softmaxlab import Result, Status, StoreError, simulate
from softmaxlab.attention import Compare
from softmaxlab.core.result import Outcome
from softmaxlab.errors import DamagedError, SpecError
from softmaxlab.polarization import Flow


def example() -> Result:
    return Result(
        {
            "t": np.array([0.0, 1.0, np.inf]),
            "a": np.arange(6.0).reshape(3, 2),
            "token": np.array(["BOS", "ü"]),
            "count": np.int64(3),
            "flag": np.array([True, False, True]),
            "empty": np.zeros((3, 0)),
            "gap": np.array([np.nan, 1.0, 2.0], dtype=np.float32),
        },
        {
            "t": ("t",),
            "a": ("t", "token"),
            "token": ("token",),
            "flag": ("t",),
            "empty": ("t", "none"),
            "gap": ("t",),
        },
        status=Status(Outcome.DIVERGED, "step 3 is not finite; lower lr"),
        notes={"solver": "DOP853", "evaluations": 7},
    )


def test_save_and_load_keep_everything(tmp_path):
    before = example()
    after = Result.load(before.save(tmp_path / "entry"))
    assert set(after) == set(before)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])
        assert after[name].dtype.kind == before[name].dtype.kind
        assert after.axes[name] == before.axes[name]
    assert after.status == before.status
    assert not after.status.ok
    assert after.notes == before.notes


def test_the_spec_and_provenance_are_kept(tmp_path):
    result = simulate(Compare(np.zeros((1, 2, 2))))
    after = Result.load(result.save(tmp_path / "entry"))
    assert after.spec == result.spec
    assert after.provenance == result.provenance
    assert after.provenance["versions"]["torch"]


@pytest.mark.parametrize("file", ["result.nc", "result.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_damage_is_noticed(tmp_path, file, damage):
    path = example().save(tmp_path / "entry") / file
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.unlink()
    with pytest.raises(StoreError):
        Result.load(tmp_path / "entry")


def test_what_cannot_be_saved_is_refused_when_made():
    with pytest.raises(SpecError, match="notes hold JSON values only"):
        Result({}, {}, notes={"n": np.int64(3)})
    with pytest.raises(SpecError, match="without a slash, got 'a/b'"):
        Result({"a/b": np.zeros(1)}, {"a/b": ("t",)})
    with pytest.raises(SpecError, match="unknown array in axes 'aa', did you mean 'a'"):
        Result({"a": np.zeros(1)}, {"a": ("t",), "aa": ("t",)})


def test_results_are_not_overwritten(tmp_path):
    example().save(tmp_path / "entry")
    with pytest.raises(StoreError, match="exists already"):
        example().save(tmp_path / "entry")


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        example()["a"][0] = 1


def test_a_newer_format_is_refused_not_called_damage(tmp_path):
    folder = example().save(tmp_path / "entry")
    record = folder / "result.json"
    record.write_text(record.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(StoreError, match="has format 2, this softmaxlab reads 1") as caught:
        Result.load(folder)
    assert not isinstance(caught.value, DamagedError)


def test_axes_must_fit():
    with pytest.raises(SpecError, match="'a' has 2 dimensions"):
        Result({"a": np.zeros((2, 2))}, {"a": ("t",)})
    with pytest.raises(SpecError, match="axis 't' has length 3 in 'b' but 2 in 'a'"):
        Result({"a": np.zeros(2), "b": np.zeros(3)}, {"a": ("t",), "b": ("t",)})


def test_an_unknown_array_suggests_the_nearest():
    with pytest.raises(SpecError, match="unknown array 'countt', did you mean 'count'"):
        example()["countt"]


def test_the_old_name_of_weights_is_understood_with_a_warning(tmp_path):
    flow = simulate(Flow("logistic", beta=[1.0], V=[[0.1, 0.0]], a=[0.0, 0.0], t_end=1.0, points=3))
    with pytest.warns(FutureWarning, match="array 'scores' is now 'weights'"):
        assert flow["scores"] is flow["weights"]
    assert "scores" not in set(flow)

    arrays = {"scores" if name == "weights" else name: array for name, array in flow.arrays.items()}
    axes = {"scores" if name == "weights" else name: names for name, names in flow.axes.items()}
    stored = Result.load(Result(arrays, axes, spec=flow.spec).save(tmp_path / "of an earlier version"))
    np.testing.assert_array_equal(stored["weights"], flow["weights"])
    assert dict(stored.axes) == dict(flow.axes)

    longer = Result({"descent_scores": np.ones(2)}, {"descent_scores": ("token",)}, spec=flow.spec)
    stored = Result.load(longer.save(tmp_path / "with a longer name"))
    assert list(stored) == ["descent_weights"]
    assert "descent_scores" in stored


def test_scores_that_are_scores_keep_their_name(tmp_path):
    compared = simulate(Compare(np.ones((1, 2, 2))))
    assert not np.array_equal(compared["scores"], compared["weights"][0])
    assert "scores" in Result.load(compared.save(tmp_path / "entry"))
    own = Result({"scores": np.ones(2)}, {"scores": ("token",)})
    assert list(Result.load(own.save(tmp_path / "own"))) == ["scores"]


def test_views_name_arrays_axes_and_status():
    for view in (repr(example()), example()._repr_html_()):
        assert "t: 3, token: 2" in view
        assert "diverged: step 3 is not finite; lower lr" in view


def test_conversions():
    result = simulate(Compare(np.zeros((1, 2, 2)), maps=("softmax", "sigmoid")))
    data = result.to_xarray()
    assert data["weights"].sel(map="softmax").values.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    frame = result.to_pandas()
    assert len(frame) == 8
    assert set(frame[frame["map"] == "sigmoid"]["weights"]) == {0.5}
