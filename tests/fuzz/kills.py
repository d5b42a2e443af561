"""python -m tests.fuzz.kills: end sweeps, a reproduction and the explorer by signals at random moments; print counts.

After each end: the exit code is the signal's, no process of ours is left after five seconds, the store is whole. After
all of them the sweep is run to its end, and its results are those of a sweep that nobody disturbed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

import numpy as np

import softmaxlab as sl

MARK = "SOFTMAXLAB_DRILL"  # an environment variable by which all processes of a program are known
GONE = 5.0  # seconds in which all is gone, on a machine with a core to spare
START = 120.0  # seconds in which a program starts on a busy machine
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
RUNS = 12
UNDISTURBED = "undisturbed"  # the store of a sweep that runs to its end
ONE_KERNEL = {"OMP_NUM_THREADS": "1", "SOFTMAXLAB_KERNEL": "torch"}  # what results must share to be equal to the bit
COMMANDS = {
    "sweep": ("sweep", "specs.json", "--jobs", "2", "--out", "runs", "--json"),
    "reproduce": ("reproduce", "--no-model", "--out", "reproduced", "--report", "report", "--jobs", "2"),
    "explore": ("explore", "--no-browser", "--port", "0"),
}


def write_specs(folder: Path) -> list[sl.training.Run]:
    """Runs of a second or so, and the file with them."""
    task = sl.training.Induction(vocab=12, tokens=6, train=4000, evaluate=50)
    specs = [sl.training.Run(task=task, width=32, heads=2, epochs=4, seed=seed) for seed in range(RUNS)]
    (folder / "specs.json").write_text(json.dumps([spec.plain() for spec in specs]))
    return specs


def begin(command: str, folder: Path) -> tuple[subprocess.Popen, str]:
    """The program, its workers begun, and its mark."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", "softmaxlab", *COMMANDS[command]],
        stdout=subprocess.PIPE if command == "explore" else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=os.environ | ONE_KERNEL | {MARK: mark},
        preexec_fn=_heed_signals,
    )
    deadline = time.monotonic() + START
    if command == "explore":
        assert process.stdout is not None
        process.stdout.readline()
    else:
        while len(marked(mark)) < 3 and process.poll() is None and time.monotonic() < deadline:  # guard and a worker
            time.sleep(0.05)
    return process, mark


def _heed_signals() -> None:
    for number in SIGNALS[1:]:  # whoever started us may ignore them
        signal.signal(number, signal.SIG_DFL)


def marked(mark: str) -> list[int]:
    """The processes that were started with a mark, and are not zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment:  # a zombie's is empty
            found.append(int(folder.name))
    return found


def end(command: str, number: signal.Signals, folder: Path, delay: float, gone: float) -> list[str]:
    """What went wrong when a program was ended by a signal after so many seconds."""
    process, mark = begin(command, folder)
    time.sleep(delay)
    if process.poll() is not None:
        return []  # it was done before
    process.send_signal(number)
    deadline = time.monotonic() + gone
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    faults = []
    if left := marked(mark):
        faults.append(f"{len(left)} processes left")
        for each in left:
            os.kill(each, signal.SIGKILL)
    code = process.wait()
    if process.stdout is not None:
        process.stdout.close()
    if code != (-number if number == signal.SIGKILL else 128 + number):
        faults.append(f"exit code {code}")
    for store in ("runs", "reproduced"):
        faults += whole(folder / store)
    return faults


def whole(folder: Path) -> list[str]:
    """Entries of a store that cannot be read, and drafts that the next program that opens it would not remove."""
    store = sl.Store(folder)  # removes the drafts of killed writers
    faults = [f"draft {path.name}" for path in folder.glob(".writing-*")]
    for key in store.keys():  # noqa: SIM118, a store iterates over results
        try:
            store.load(key)
        except sl.StoreError as error:
            faults.append(str(error))
    return faults


def resumed(specs: list[sl.training.Run], folder: Path) -> list[str]:
    """Run the sweep to its end, and once more in another folder; return what differs between the two."""
    faults = []
    for store in ("runs", UNDISTURBED):
        command = [sys.executable, "-m", "softmaxlab", *COMMANDS["sweep"], "--out", store]
        done = subprocess.run(command, cwd=folder, env=os.environ | ONE_KERNEL, capture_output=True)
        if done.returncode:
            faults.append(f"the sweep into {store} ended with {done.returncode}")
    for spec in specs:
        stored, own = (sl.Store(folder / store).get(spec) for store in ("runs", UNDISTURBED))
        if stored is None or own is None:
            faults.append(f"{spec.key} is not there")
        elif not all(np.array_equal(stored[name], own[name], equal_nan=True) for name in own):
            faults.append(f"{spec.key} is not what it would be undisturbed")
    return faults


def drill(
    commands: tuple[str, ...], times: int, seed: int, longest: float = 8.0, gone: float = GONE
) -> tuple[Counter[str], list[str]]:
    """End each command so many times by each signal; return how many of each, and what went wrong."""
    draw, counts, faults = random.Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        specs = write_specs(folder)
        for command in commands:
            for number in SIGNALS:
                for _ in range(times):
                    wrong = end(command, number, folder, draw.uniform(0.0, longest), gone)
                    counts[f"{command} {number.name}"] += 1
                    faults += [f"{command} {number.name}: {fault}" for fault in wrong]
        if "sweep" in commands:
            faults += resumed(specs, folder)
    return counts, faults


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills", description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", choices=[*COMMANDS], action="append")
    given = parser.parse_args()
    counts, faults = drill(tuple(given.command or COMMANDS), given.times, given.seed)
    print(", ".join(f"{name} {number}" for name, number in counts.items()))
    print(f"{counts.total()} ends, {len(faults)} faults", *faults, sep="\n  ")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
