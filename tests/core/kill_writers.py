"""kill -9 in the middle of concurrent store writes: every visible entry must load and equal what was written.

Several processes write overlapping sets of results; all are killed at a random moment.
Long form: python -m tests.core.kill_writers [--rounds 20] [--writes 200]
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softmaxlab.attention import Compare
from softmaxlab.core.simulate import simulate
from softmaxlab.core.store import Store

WRITERS = 4
READY = "ready"


@dataclass(frozen=True)
class Seen:
    entries: int
    drafts: int


def spec(index: int) -> Compare:
    return Compare(np.random.default_rng(index).standard_normal((2, 30, 30)), maps=("softmax", "relu"))


def write(root: str, writer: int, writes: int) -> None:
    """One writer: its own results, and every fourth of the next writer's, so that some keys are raced for."""
    store = Store(root)
    own = [writer * writes + i for i in range(writes)]
    shared = [(writer + 1) % WRITERS * writes + i for i in range(0, writes, 4)]
    results = [simulate(spec(i)) for i in random.Random(writer).sample(own + shared, len(own) + len(shared))]
    print(READY, flush=True)
    sys.stdin.readline()
    for result in results:
        store.put(result)


def kill_round(root: Path, writes: int, seed: int) -> Seen:
    """Start the writers, kill them all at a random moment, then check every entry that can be seen."""
    code = "import sys; from tests.core.kill_writers import write; write(sys.argv[1], *map(int, sys.argv[2:]))"
    each = writes // WRITERS
    project = str(Path(__file__).parents[2])
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(root.absolute()), str(i), str(each)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=project,
        )
        for i in range(WRITERS)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout.readline().strip() == READY
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    _wait_for_entries(root, random.Random(seed).randint(1, max(2, writes // 3)))
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
    for worker in workers:
        worker.communicate()
    return check(root, writes)


def _wait_for_entries(root: Path, count: int) -> None:
    """Until some entries are there: a kill by the clock would come before the first or after the last write."""
    patience = time.monotonic() + 60
    while len(list(root.glob("[0-9a-f]*"))) < count and time.monotonic() < patience:
        time.sleep(0.002)


def check(root: Path, writes: int) -> Seen:
    """Every visible entry loads and equals what its spec gives when computed here."""
    drafts = len(list(root.glob(".writing-*")))
    store = Store(root)
    known = {spec(i).key: i for i in range(writes)}
    entries = store.keys()
    for key in entries:
        stored, fresh = store.load(key), simulate(spec(known[key]))
        assert stored.spec == fresh.spec
        np.testing.assert_array_equal(stored["weights"], fresh["weights"])
    return Seen(len(entries), drafts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writes", type=int, default=200)
    asked = parser.parse_args()
    for round in range(asked.rounds):
        with tempfile.TemporaryDirectory() as folder:
            seen = kill_round(Path(folder) / "runs", asked.writes, round)
        print(f"round {round}: {seen.entries} entries whole, {seen.drafts} drafts abandoned", flush=True)
    print(f"{asked.rounds} passed, 0 failed")


if __name__ == "__main__":
    main()
