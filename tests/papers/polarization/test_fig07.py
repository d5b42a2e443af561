"""Figure 7: the committed tables of heads, and anyone's."""

import numpy as np
import pandas
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.papers.polarization.figures.fig07 import Fig07


def heads(path, **subjects):
    rows = [
        {"subject": name, "layer": 0, "head": h, "sparsity": s, "sink": 0.1, "more": 1}
        for name, values in subjects.items()
        for h, s in enumerate(values)
    ]
    pandas.DataFrame(rows).to_csv(path, index=False)
    return str(path)


def test_softmax_heads_are_sparser_than_sigmoid_heads_in_models_trained_with_either():
    found = sl.simulate(Fig07())
    mean = {
        (str(panel), str(model).rsplit("/", 1)[-1]): np.nanmean(row)
        for panel, model, row in zip(found["panel"], found["model"], found["sparsity"])
    }
    assert mean["small", "softmax"] > mean["small", "sigmoid"] + 0.05
    assert mean["smollm2", "smollm2"] > mean["smollm2", "sigmoid:calibrated"]
    assert np.isfinite(found["sparsity"]).sum() == 3 * 16 + 3 * 270


def test_any_two_tables_are_drawn(tmp_path):
    both = heads(tmp_path / "both.csv", softmax=[0.9, 0.8], sigmoid=[0.2, 0.3, 0.1])
    alone = tmp_path / "alone" / "heads.csv"
    alone.parent.mkdir()
    pandas.read_csv(both).query("subject == 'softmax'").drop(columns="subject").to_csv(alone, index=False)
    found = sl.simulate(Fig07(heads=(both, str(alone))))
    assert list(found["model"]) == ["softmax", "sigmoid", "alone"]
    np.testing.assert_array_equal(found["sparsity"][0], [0.9, 0.8, np.nan])
    axes = Fig07.draw(found).axes
    assert [text.get_text() for text in axes[0].get_legend().texts] == [
        "softmax: 2 heads, mean 0.85", "sigmoid: 3 heads, mean 0.20",
    ]  # fmt: skip
    assert len(axes) == 2


def test_a_table_that_changed_is_noticed(tmp_path):
    spec = Fig07(heads=(heads(tmp_path / "one.csv", softmax=[0.9]),))
    heads(tmp_path / "one.csv", softmax=[0.1])
    with pytest.raises(SpecError, match="have changed"):
        sl.simulate(spec)
    assert spec.replace(heads=spec.heads).digest != spec.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "must be smollm2 or small, or the path of a heads.csv"), ("a,b\n1,2\n", "it lacks head")],
)
def test_bad_tables(tmp_path, text, message):
    path = tmp_path / "heads.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpecError, match=message):
        Fig07(heads=(str(path),))
