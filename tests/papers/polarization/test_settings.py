"""Tables 1 to 3 of the paper are what our sweeps hold, but for the control; a changed preset would be told."""

from softmaxlab.papers.polarization import settings
from softmaxlab.training import Classification, Run


def test_every_setting_of_tables_2_and_3_is_that_of_the_sweep():
    for task in ("induction", "classification"):
        rows = {name: (paper, ours) for name, paper, ours in settings.compare_settings(task)}
        paper, ours = rows.pop("map")
        assert set(ours) - set(paper) == {"uniform"}
        assert len(paper) == 11
        assert all(paper == ours for paper, ours in rows.values())


def test_every_map_of_table_1_is_registered_and_swept():
    assert all(registered and swept for _, registered, swept in settings.compare_maps())


def test_another_sweep_is_told_apart(monkeypatch):
    other = [Run(task=Classification(vocab=81), layers=1, heads=1)]
    monkeypatch.setattr(settings, "preset", lambda task, name: other)
    rows = {name: paper == ours for name, paper, ours in settings.compare_settings("classification")}
    assert not rows["task.vocab"]
    assert not rows["seed"]
    assert rows["width"]
