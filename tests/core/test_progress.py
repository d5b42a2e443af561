import io
import logging

import pytest

from softmaxlab.core import progress
from softmaxlab.core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves, and a terminal that can draw."""
    now = [0.0]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def count(clock, seconds, steps=10):
    with Progress(steps, "work") as counter:
        for _ in range(steps):
            clock[0] += seconds / steps
            counter.advance()


@pytest.mark.parametrize(("seconds", "drawn"), [(1.0, False), (20.0, True)])
def test_a_terminal_sees_a_bar_for_long_work_only(clock, monkeypatch, seconds, drawn):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    count(clock, seconds)
    assert ("work" in screen.getvalue()) == drawn


def test_the_bar_shows_rate_and_failures(clock, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(4, "work") as counter:
        for failed in (False, True, True):
            clock[0] += 0.8
            counter.advance(failed=failed)
    assert "work, 2 failed" in screen.getvalue()
    assert "1.25/s" in screen.getvalue()


@pytest.mark.parametrize("dumb", [False, True])
def test_elsewhere_a_line_is_logged_every_half_minute(clock, monkeypatch, caplog, dumb):
    quiet = Terminal() if dumb else io.StringIO()
    monkeypatch.setattr("sys.stderr", quiet)
    if dumb:
        monkeypatch.setenv("TERM", "dumb")
    with caplog.at_level(logging.INFO):
        count(clock, 100.0)
    assert quiet.getvalue() == ""
    assert [r.message for r in caplog.records] == [
        "work: 4/10, 0 failed, 6/min, 60 s left",
        "work: 8/10, 0 failed, 6/min, 20 s left",
    ]
