"""python -m tests.fuzz.soak --minutes 60: four clients use the explorer while sweeps are killed; print levels.

Memory and open files of the explorer are read after the first tenth of the time, when everything is imported and
compiled, and at the end. The exit code is 1 if one has grown by more than GROWTH, an answer was wrong, or a kill left
something behind.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.fuzz.kills import SIGNALS, end, resumed, write_specs

CLIENTS = 4
GROWTH = 1.2  # times the level after the first tenth
ANSWER = 60.0  # seconds
VIEWS = (
    "data/polarization.csv?p={small}&seed={seed}",
    "data/polarization.json?p={small}",
    "data/attention.csv?seed={seed}",
    "data/specialization.json?heads={heads}",
    "data/polarization.csv?no_such_field={seed}",
    "_dash-layout",
    "_dash-dependencies",
    "polarization",
)


class Clients:
    """Threads that ask for random views until they are stopped."""

    def __init__(self, address: str):
        self.address, self.stop = address, threading.Event()
        self.answers, self.wrong = 0, []
        self.threads = [threading.Thread(target=self._use, args=(i,), daemon=True) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(ANSWER)

    def _use(self, number: int) -> None:
        draw = random.Random(number)
        while not self.stop.is_set():
            view = draw.choice(VIEWS).format(
                small=draw.randint(2, 12), seed=draw.randint(0, 99), heads=draw.randint(1, 3)
            )
            try:
                with urllib.request.urlopen(self.address + view, timeout=ANSWER) as answer:
                    answer.read()
            except urllib.error.HTTPError as error:
                if error.code != 400:  # a view that its fields do not allow
                    self.wrong.append(f"{view}: status {error.code}")
            except OSError as error:
                self.wrong.append(f"{view}: {error}")
            self.answers += 1


def levels(process: int) -> tuple[float, int]:
    """Memory in MiB and open files of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return kib / 1024, len(list(Path(f"/proc/{process}/fd").iterdir()))


def soak(minutes: float, seed: int = 0) -> tuple[list[str], list[str]]:
    """What was seen, line by line, and what was wrong."""
    draw, kills, faults = random.Random(seed), 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        specs = write_specs(folder)
        process, address = explorer(folder)
        clients = Clients(address)
        began, first = time.monotonic(), None
        try:
            while (passed := time.monotonic() - began) < 60 * minutes:
                faults += end("sweep", draw.choice(SIGNALS), folder, draw.uniform(0.0, 8.0))
                kills += 1
                if first is None and passed > 6 * minutes:
                    first = levels(process.pid)
            clients.end()
            first, last = first or levels(process.pid), levels(process.pid)
        finally:
            process.terminate()
            process.wait()
        faults += clients.wrong + resumed(specs, folder)
    seen = [
        f"{clients.answers} answers to {CLIENTS} clients, {len(clients.wrong)} wrong; {kills} sweeps ended at random",
        f"explorer: {first[0]:.0f} MiB and {first[1]} open files after a tenth, {last[0]:.0f} and {last[1]} at the end",
    ]
    for what, before, after in zip(("memory", "open files"), first, last):
        if after > GROWTH * before:
            faults.append(f"{what} of the explorer grew from {before:.0f} to {after:.0f}")
    return seen, faults


def explorer(folder: Path) -> tuple[subprocess.Popen, str]:
    """A running explorer and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "softmaxlab", "explore", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    return process, next(word for word in words if word.startswith("http://"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seen, faults = soak(given.minutes, given.seed)
    print(*seen, f"{len(faults)} faults", *faults, sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
