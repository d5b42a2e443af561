"""Tables and pictures of a probe, from tables of heads made by hand."""

import json
import math

import numpy as np
import pandas
import pytest

from softmaxlab.probing import report as probe_report
from softmaxlab.probing.definitions import FULL
from softmaxlab.probing.heads import HeadTables
from softmaxlab.probing.report import ProbeReport, to_json
from softmaxlab.probing.summary import Subject, layers_table, uniform_profile
from softmaxlab.report import probe_pictures

EXACT = 1e-12  # sums of a few numbers in float64
T = 16


def head_tables(heads_of_layer=(2, 3), sink=0.5) -> HeadTables:
    """Layers with different numbers of heads; head h of layer l has sink score `sink`·(h + 1)/3, one entropy is NaN."""
    rows = [
        {name: 0.25 for name in FULL} | {f"{name}_se": 0.01 for name in FULL}
        | {"layer": layer, "head": head, "sink": sink * (head + 1) / 3, "queries": T, "sequences": 1, "module": "m"}
        for layer, heads in enumerate(heads_of_layer)
        for head in range(heads)
    ]  # fmt: skip
    heads = pandas.DataFrame(rows)
    heads.loc[0, "entropy"] = math.nan
    top = {"top": [10.0, 5000.0], "median": [1.0, 1.0], "ratio": [10.0, 5000.0], "position": 0, "token": 5}
    activations = pandas.DataFrame({"layer": [0, 1], **top, "dimension": 7, "kurtosis": 3.0, "module": "m"})
    places = [(row["layer"], row["head"], k, 1 / (k + 1)) for row in rows for k in range(T)]
    profile = pandas.DataFrame(places, columns=["layer", "head", "position", "weight"])
    sinks = pandas.DataFrame([{"layer": 1, "head": 2, "position": 0, "token": 5, "share": 1.0}])
    return HeadTables(heads, heads.iloc[:0], activations, profile, sinks, 0.3, T)


def report(*subjects: Subject) -> ProbeReport:
    text = {"name": "a/b.txt", "T": T, "sequences": 1, "lengths": [T], "amount": f"1 × {T} tokens"}
    text |= {"token_0": "token 0 is '<s>'", "uniform_sink": {"causal": 0.2}}
    made = ProbeReport({"name": "a/model"}, text, {"eps": 0.3}, lambda id: f"t{id}")
    made.subjects += subjects or (Subject("model", head_tables()),)
    return made


def test_layers_are_means_over_their_heads():
    table = layers_table(head_tables(sink=0.9), 0.3)
    assert table["sink"].tolist() == pytest.approx([0.45, 0.6], abs=EXACT)
    assert table["sink>0.3"].tolist() == [1, 2], "0.3 itself is not above 0.3"
    assert table["sink>0.9"].tolist() == [0, 0]
    assert table["heads"].tolist() == [2, 3]
    assert table["top"].tolist() == [10.0, 5000.0]


def test_the_document_has_no_nan_and_reads_back():
    document = report().document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["heads"][0]["entropy"] is None
    assert document["kv_cache"]["keep_positions"] == [0]
    assert document["kv_cache"]["sinks"][0]["text"] == "t5"
    assert to_json({"a": (np.float32(1.5), math.inf)}) == {"a": [1.5, None]}


def test_a_long_profile_keeps_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(probe_report, "PROFILE_ROWS", 40)
    report().write_tables(tmp_path, "csv")
    written = pandas.read_csv(tmp_path / "profile.csv")
    assert len(written) <= 40
    kept = sorted(set(written["position"]))
    assert kept[:2] == [0, 1]
    assert kept[-1] == T - 1


def test_what_an_earlier_probe_wrote_does_not_stay(tmp_path):
    first = report()
    first.patterns, first.pattern_tokens = {"0.0": np.eye(2)}, ["a", "b"]
    first.write_tables(tmp_path, "csv")
    probe_pictures.write_pictures(first, tmp_path)
    (tmp_path / "cross.csv").write_text("of an encoder–decoder")
    (tmp_path / "profile.parquet").write_text("of another format")
    (tmp_path / "notes.txt").write_text("not ours")
    again = report()
    written = {
        *again.write_tables(tmp_path, "csv"),
        *(path for path, _ in probe_pictures.write_pictures(again, tmp_path)),
    }
    assert set(tmp_path.iterdir()) == {*written, tmp_path / "notes.txt"}
    assert not {"patterns.json", "attention.png"} & {path.name for path in written}


def test_several_subjects_share_the_tables(tmp_path):
    two = report(Subject("one", head_tables()), Subject("two", head_tables((1, 1))))
    two.write_tables(tmp_path, "csv")
    table = pandas.read_csv(tmp_path / "heads.csv")
    assert table.groupby("subject").size().to_dict() == {"one": 5, "two": 2}
    assert table.columns[0] == "subject"


def test_pictures_of_several_subjects_with_gaps(tmp_path):
    many = report(Subject("one", head_tables()), Subject("x" * 40, head_tables((1, 1))))
    many.patterns = {"0.0": np.tril(np.full((3, 3), 0.3)), "1.0": np.eye(3)}
    many.pattern_tokens = ["$a", "b\n", " longer than that"]
    drawn = probe_pictures.write_pictures(many, tmp_path)
    assert [path.stem for path, _ in drawn] == list(probe_pictures.CAPTIONS)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path, _ in drawn)


def test_the_uniform_profile_is_that_of_uniform_causal_attention():
    weights = np.tril(np.ones((T, T)))
    weights /= weights.sum(axis=1, keepdims=True)
    α = weights.sum(axis=0) / np.arange(T, 0, -1)
    position, mean = uniform_profile(T)
    assert mean == pytest.approx(α, abs=EXACT)
    assert position.tolist() == list(range(T))
