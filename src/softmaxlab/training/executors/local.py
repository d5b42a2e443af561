"""This machine: processes with one thread each, and a supervisor that knows what each of them is at.

A worker that dies (killed, out of memory, crashed) costs its own run one attempt and no other run anything. Such runs
are tried again alone, so that none dies of another's hunger, and after three attempts recorded as failed.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from softmaxlab.core.files import remove_abandoned
from softmaxlab.core.simulate import check_device
from softmaxlab.training.attempts import FOLDER, record_failure
from softmaxlab.training.executors import check_positive

ATTEMPTS = 3
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Local:
    """So many processes at once; as many as there are cores if not given."""

    jobs: int | None = None

    def __post_init__(self):
        if self.jobs is not None:
            check_positive("jobs", self.jobs)

    def at_once(self) -> int:
        """The number of runs at the same time."""
        return self.jobs or cores()

    def run(self, specs: Mapping[str, str], store: str, device: str, finished: Callable[[str], None]) -> None:
        check_device(device)
        threads = cores() if len(specs) == 1 else 1
        waiting, died = specs, {}
        for jobs in (self.at_once(), *[1] * (ATTEMPTS - 1)):
            died = _Team(store, device, threads, finished).work(waiting, jobs)
            waiting = {key: specs[key] for key in died}
        for key, how in died.items():
            reason = f"the worker died {ATTEMPTS} times, last with {how}"
            record_failure(key, specs[key], store, reason, attempts=ATTEMPTS)
            finished(key)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class _Team:
    """Workers that share a queue of runs."""

    store: str
    device: str
    threads: int
    finished: Callable[[str], None]

    def work(self, specs: Mapping[str, str], jobs: int) -> dict[str, str]:
        """Make the runs; key → how its worker died, of those whose worker did."""
        waiting, died = deque(specs.items()), {}
        with selectors.DefaultSelector() as watched:
            try:
                for _ in range(min(jobs, len(waiting))):
                    self._hire(watched)
                while watched.get_map():
                    for event, _ in watched.select():
                        if os.read(event.fd, 1):
                            self._serve(event.data, waiting)
                            continue
                        watched.unregister(event.fd)
                        died |= _lost(event.data, waiting)
                        if waiting:
                            self._hire(watched)
            finally:
                for event in list(watched.get_map().values()):
                    event.data.dismiss()
                for folder in (Path(self.store), Path(self.store) / FOLDER):
                    remove_abandoned(folder)  # what killed workers were writing
        return died

    def _hire(self, watched: selectors.BaseSelector) -> None:
        worker = _Worker(self.store, self.device, self.threads)
        watched.register(worker.asks, selectors.EVENT_READ, worker)

    def _serve(self, worker: "_Worker", waiting: deque) -> None:
        """A worker asks: what it was at is finished."""
        if worker.key is not None:
            self.finished(worker.key)
        worker.bring(*waiting.popleft()) if waiting else worker.let_go()


def _lost(worker: "_Worker", waiting: deque) -> dict[str, str]:
    """The run that an ended process was at, and how it ended; nothing if it was let go."""
    how = worker.dismiss()
    if not worker.spoke and waiting:
        worker.key = waiting.popleft()[0]  # it died on its way to this one
    return {} if worker.key is None else {worker.key: how}


class _Worker:
    """A process (worker.py), and the key of the run it is at."""

    def __init__(self, store: str, device: str, threads: int):
        self.key: str | None = None
        self.spoke = False
        environment = os.environ | dict.fromkeys(THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "softmaxlab.training.executors.worker", store, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            process_group=0,  # Ctrl-C is for the supervisor, which ends its workers itself
        )
        self._stdin, self.asks = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)

    def bring(self, key: str, spec: str) -> None:
        self.key, self.spoke = key, True
        with contextlib.suppress(BrokenPipeError):  # it has died just now, which the other pipe will tell
            self._stdin.write(json.dumps([key, spec]).encode() + b"\n")
            self._stdin.flush()

    def let_go(self) -> None:
        self.key, self.spoke = None, True
        self._stdin.close()

    def dismiss(self) -> str:
        """End the process if it has not ended, and say how it did."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._stdin, self.asks):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if code >= 0:
            return f"exit code {code}"
        return f"signal {-code}{' (out of memory?)' if -code == signal.SIGKILL else ''}"
