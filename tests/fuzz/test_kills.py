"""A few ends of each command by each signal; `python -m tests.fuzz.kills` makes twenty."""

import sys

import pytest

from tests.fuzz.kills import COMMANDS, SIGNALS, drill

BUSY = 60.0  # seconds: other tests use the cores too, and what is left for ever is found all the same

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_left_however_a_command_ends(command):
    counts, faults = drill((command,), 1, seed=1, longest=3.0, gone=BUSY)
    assert counts.total() == len(SIGNALS)
    assert faults == []
