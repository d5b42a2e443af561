"""What is kept of a piece of work, by which code it was made, and what goes wrong with it."""

import dataclasses
import sys
from importlib.metadata import version

import numpy as np
import pytest

from softmaxlab.core.files import DATA
from softmaxlab.core.result import Result
from softmaxlab.core.store import Store
from softmaxlab.errors import MissingExtra, SpecError
from softmaxlab.probing import extra, session
from softmaxlab.report import records, tasks
from tests.report import catalogue


def test_arrays_of_other_code_are_computed_again(tmp_path):
    spec, store, path = catalogue.Line.preset("quick"), Store(tmp_path / "runs"), tmp_path / "report/attention/line"
    store.put(Result({"x": np.full(3, 99)}, {"x": ("x",)}, spec=spec))
    drawn = tasks.draw(spec, str(store.root), path)
    assert drawn.ok, drawn.error
    assert store.get(spec)["x"].tolist() == [0, 1, 2]
    assert path.with_suffix(".nc").read_bytes() == (store.folder(spec.key) / DATA).read_bytes()


def test_a_probe_has_a_digest_of_its_own(monkeypatch):
    assert records.probe_digest() != records.code_digest()
    own = {path.name for pattern in records.PROBING for path in records._root().glob(pattern)}
    assert own >= {"probe_files.py", "probe_page.py", "probe_pictures.py", "probe.html"}
    monkeypatch.setattr(records, "version", lambda name: "other" if name == "transformers" else version(name))
    assert records.probe_digest.__wrapped__() != records.probe_digest()
    assert records.code_digest.__wrapped__() == records.code_digest()


def test_a_probe_is_kept_with_its_command_its_code_and_its_files(tmp_path, monkeypatch):
    probe, out = tasks.Probe("tiny", "softmaxlab probe tiny", catalogue.write_document), str(tmp_path)
    record = tasks.measure(probe, out)
    assert record.error == ""
    assert tasks.probed_already(probe, out) == record
    assert tasks.probed_already(dataclasses.replace(probe, command="softmaxlab probe tiny --length 9"), out) is None
    with monkeypatch.context() as patch:
        patch.setattr(records, "probe_digest", lambda: "other")
        assert tasks.probed_already(probe, out) is None
    (tmp_path / "probe/tiny" / tasks.DOCUMENT).unlink()
    assert tasks.probed_already(probe, out) is None


@pytest.mark.parametrize(
    ("error", "missing"), [(MissingExtra("not installed"), "not installed"), (SpecError("broken"), "")]
)
def test_only_a_missing_extra_excuses_the_probe(tmp_path, monkeypatch, error, missing):
    def raise_error(*_, **__):
        raise error

    monkeypatch.setattr(session.ProbeSession, "run", raise_error)
    record = tasks.measure(tasks.DEMO_PROBE, str(tmp_path))
    assert record.missing == missing
    assert ("SpecError: broken" in record.error) is not bool(missing)


def test_missing_and_broken_transformers_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match="pip install"):
        extra.transformers()
    monkeypatch.delitem(sys.modules, "transformers")
    (tmp_path / "transformers.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match="no_such_dependency") as broken:
        extra.transformers()
    assert not isinstance(broken.value, MissingExtra)


def test_what_cannot_be_written_is_an_error_of_its_piece(tmp_path):
    out = tmp_path / "runs"
    out.mkdir()
    for file in (out / "claims", out / "probe", tmp_path / "report"):
        file.write_text("a file, where a folder is needed")
    judged = tasks.judge(catalogue.CLAIMS["attention/holds"], str(out))
    measured = tasks.measure(tasks.Probe("tiny", "", catalogue.write_document), str(out))
    drawn = tasks.draw(catalogue.Line.preset("quick"), str(out), tmp_path / "report/attention/line")
    assert all("Error" in record.error for record in (judged, measured, drawn))
    assert not drawn.ok
