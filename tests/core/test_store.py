import dataclasses
import logging
import os
import socket
import subprocess

import numpy as np
import pytest

from softmaxlab import Store, StoreError, simulate
from softmaxlab.attention import Compare
from softmaxlab.core.store import remove_damaged
from tests.core.kill_writers import kill_round


def spec(seed=0):
    return Compare(np.random.default_rng(seed).standard_normal((1, 2, 3)), maps=("softmax",))


def test_simulate_with_a_store_computes_once(tmp_path, monkeypatch):
    store = Store(tmp_path / "runs")
    first = simulate(spec(), store=store)
    monkeypatch.setattr(Compare, "_run", lambda self, device: pytest.fail("computed again"))
    again = simulate(spec(), store=store)
    np.testing.assert_array_equal(again["weights"], first["weights"])
    assert store.keys() == (spec().key,)
    assert spec() in store
    assert spec(1) not in store


def test_nothing_is_written_without_a_put(tmp_path):
    assert Store(tmp_path / "runs").get(spec()) is None
    simulate(spec())
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_entry_is_reported_and_computed_again(tmp_path, caplog):
    store = Store(tmp_path)
    good = simulate(spec(), store=store)
    data = store.folder(spec().key) / "result.nc"
    data.write_bytes(data.read_bytes()[:-10])
    with caplog.at_level(logging.WARNING):
        again = simulate(spec(), store=store)
    assert "does not match its checksum; it will be computed again" in caplog.text
    np.testing.assert_array_equal(again["weights"], good["weights"])
    np.testing.assert_array_equal(store.load(spec().key)["weights"], good["weights"])
    assert [p.name for p in tmp_path.iterdir()] == [spec().key]


def test_an_entry_under_a_wrong_name_is_not_trusted(tmp_path):
    store = Store(tmp_path)
    simulate(spec(0), store=store)
    os.rename(store.folder(spec(0).key), store.folder(spec(1).key))
    with pytest.raises(StoreError, match="another key"):
        store.load(spec(1).key)
    assert store.get(spec(1)) is None


def test_the_first_of_two_writers_stays(tmp_path):
    store = Store(tmp_path)
    for writer in ("first", "second"):
        store.put(dataclasses.replace(simulate(spec()), notes={"writer": writer}))
    assert store.load(spec().key).notes == {"writer": "first"}
    assert len(store) == 1


def test_a_whole_entry_written_meanwhile_survives_the_removal_of_a_damaged_one(tmp_path):
    """Two processes find the same damage; the slower one must not delete the faster one's result."""
    store = Store(tmp_path)
    simulate(spec(), store=store)
    remove_damaged(store.folder(spec().key), spec().key)
    assert spec() in store


def test_only_drafts_of_dead_writers_on_this_host_are_removed(tmp_path):
    host, dead = socket.gethostname(), subprocess.Popen(["true"])
    dead.wait()
    drafts = {
        "dead": f".writing-{dead.pid}-x@{host}",
        "alive": f".writing-{os.getpid()}-x@{host}",
        "elsewhere": f".writing-{dead.pid}-x@{host}2",
        "strange": ".writing-notes",
    }
    for name in drafts.values():
        (tmp_path / name).mkdir()
    Store(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == set(drafts.values()) - {drafts["dead"]}


def test_entries_can_be_read_by_others(tmp_path):
    store = Store(tmp_path)
    simulate(spec(), store=store)
    plain = tmp_path / "plain"
    plain.mkdir()
    assert store.folder(spec().key).stat().st_mode == plain.stat().st_mode


def test_results_of_an_older_engine_can_still_be_read_by_key(tmp_path, monkeypatch):
    store = Store(tmp_path)
    simulate(spec(), store=store)
    (old,) = store.keys()
    monkeypatch.setattr(Compare, "version", 2)
    assert spec() not in store
    assert store.load(old).spec == spec()
    assert len(list(store)) == 1


def test_a_full_disk_or_unwritable_folder_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        Store(tmp_path / "file" / "runs").put(simulate(spec()))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("softmaxlab.core.files._write_record", full)
    with pytest.raises(StoreError, match="No space left"):
        Store(tmp_path / "runs").put(simulate(spec()))
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("softmaxlab.core.files._write_record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path).put(simulate(spec()))
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(Compare, "_run", lambda *_: pytest.fail("it was computed"))
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"the store .* cannot be written: .*file is a file, expected a folder"):
        simulate(spec(), store=tmp_path / "file" / "runs")


@pytest.mark.parametrize("key", ["../x", "", "a" * 23, "Z" * 24])
def test_a_key_cannot_leave_the_store(tmp_path, key):
    with pytest.raises(StoreError, match="not a content key"):
        Store(tmp_path).load(key)


def test_a_file_is_not_a_store(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="is a file, expected a folder"):
        Store(tmp_path / "runs")


def test_kill_9_in_the_middle_of_concurrent_writes(tmp_path):
    """Two short rounds here; `python -m tests.core.kill_writers` is the long form (20 rounds of 200 writes)."""
    for round in range(2):
        seen = kill_round(tmp_path / f"runs{round}", writes=40, seed=round)
        assert seen.entries > 0
    Store(tmp_path / "runs0")  # opening it clears what the killed writers left
    assert not list((tmp_path / "runs0").glob(".writing-*"))
