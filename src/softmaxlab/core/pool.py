"""The one process pool: pieces of work, shared by processes of one thread each.

A process that dies (killed, out of memory, crashed) costs its own piece of work one attempt and costs no other piece
anything. Such pieces are tried again alone, so one that needs all the memory can have it. Workers, and whatever they
have started, end with the process that started them, even if that one is killed (orphan_guard.py).
"""

import contextlib
import math
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from softmaxlab.core import plugins, progress
from softmaxlab.core.orphan_guard import Guard, kill_group

Work = Callable[[], Any]
Finished = Callable[[str, Any], None]

ATTEMPTS = 3
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
EXIT_SECONDS = 10.0  # for an idle worker to end by itself; importing and leaving torch takes under two


@dataclass(frozen=True)
class Died:
    """The outcome of a piece of work whose process died at every attempt."""

    attempts: int
    how: str

    def __str__(self) -> str:
        return f"the worker died {self.attempts} times, last with {self.how}"


@dataclass(frozen=True)
class TimedOut:
    """The outcome of a piece of work that was ended at its time limit."""

    seconds: float

    def __str__(self) -> str:
        return f"stopped after {self.seconds:g} s, the time limit of a run"


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    work: Mapping[str, Work],
    jobs: int,
    finished: Finished | None = None,
    threads: int = 1,
    attempts: int = ATTEMPTS,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Return name → what its work returned, or how it `Died`; `finished` is called with both as soon as they are known.

    `jobs` processes of `threads` threads each share the work in its order. Functions and what they return are pickled.
    What a piece of work raises is raised here, and ends the others. One that takes more than `timeout` seconds is
    ended, and not tried again: its outcome is `TimedOut`.
    """
    outcomes: dict[str, Any] = {}

    def record(name: str, outcome: Any) -> None:
        outcomes[name] = outcome
        if finished is not None:
            finished(name, outcome)

    left, died = work, {}
    with Guard() as guard:
        for at_once in (jobs, *[1] * (attempts - 1)):
            died = _run_once(left, at_once, record, threads, guard, timeout) if left else {}
            left = {name: work[name] for name in died}
    for name, how in died.items():
        record(name, Died(attempts, how))
    return outcomes


def _run_once(
    work: Mapping[str, Work], jobs: int, record: Finished, threads: int, guard: Guard, timeout: float | None
) -> dict[str, str]:
    """Record what each piece of work returns; return name → how its process died, for those whose process did."""
    waiting, died = deque(work.items()), {}
    busy: dict[Connection, _Worker] = {}
    leaving: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                worker = _Worker(threads, guard)
                busy[worker.connection] = worker
                worker.begin(*waiting.popleft())
            for ready in wait(list(busy), _until_next(busy.values(), timeout)):
                worker = busy[cast(Connection, ready)]
                try:
                    raised, value = worker.outcome()
                except (EOFError, OSError):
                    del busy[worker.connection]
                    died[worker.name] = worker.kill()
                    continue
                if raised:
                    raise value
                record(worker.name, value)
                if waiting:
                    worker.begin(*waiting.popleft())
                else:
                    leaving.append(busy.pop(worker.connection))
                    worker.release()
            for worker in [each for each in busy.values() if timeout is not None and each.seconds() >= timeout]:
                del busy[worker.connection]
                worker.kill()
                record(worker.name, TimedOut(timeout or 0.0))
        for worker in leaving:
            worker.wait()
    finally:
        for worker in (*busy.values(), *leaving):
            worker.kill()
    return died


def _until_next(workers: "Iterable[_Worker]", timeout: float | None) -> float | None:
    """Return the seconds until the first worker is at its time limit."""
    if timeout is None:
        return None
    return max(0.0, min(timeout - worker.seconds() for worker in workers))


class _Worker:
    """A process that runs `serve`, with a process group of its own, and the name of the work it does."""

    def __init__(self, threads: int, guard: Guard):
        self.name, self.began, self.guard = "", time.monotonic(), guard
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            handle = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from softmaxlab.core.pool import serve; serve({handle})"],
                stdin=subprocess.DEVNULL,
                pass_fds=[handle],
                env=os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | plugins.worker_environment(),
                process_group=0,  # Ctrl-C reaches the process that started the workers, which ends them itself
            )
        guard.add(self._process.pid)

    def begin(self, name: str, work: Work) -> None:
        self.name, self.began = name, time.monotonic()
        self._send(pickle.dumps(work))

    def seconds(self) -> float:
        """Return how long it has been at its work."""
        return time.monotonic() - self.began

    def outcome(self) -> tuple[bool, Any]:
        """Return whether the work raised, and what it raised or returned; EOFError or OSError if the process died."""
        return pickle.loads(self.connection.recv_bytes())

    def release(self) -> None:
        """Let an idle process end by itself, so that it removes its temporary files."""
        self._send(b"")

    def wait(self) -> None:
        """Wait for a released process, but not for ever."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)

    def kill(self) -> str:
        """End the process if it has not ended, and all that it has started; return how it ended."""
        kill_group(self._process.pid)
        code = self._process.wait()
        self.guard.remove(self._process.pid)
        self.connection.close()
        if code >= 0:
            return f"exit code {code}"
        return f"signal {-code}{' (out of memory?)' if -code == signal.SIGKILL else ''}"

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has died, as reading will show
            self.connection.send_bytes(message)


def serve(handle: int) -> None:
    """Do the work that comes through a connection, until an empty message: the main function of a worker."""
    os.set_inheritable(handle, False)
    os.dup2(2, 1)  # what work prints does not belong into the output of a command
    progress.QUIET_SECONDS = math.inf  # the display belongs to the process that started the workers
    connection, received = Connection(handle), queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, received), daemon=True).start()
    while message := received.get():
        connection.send_bytes(_outcome(message))


def _receive(connection: Connection, received: queue.SimpleQueue) -> None:
    """Pass messages on; end this process at once when the other side is gone, whatever it is doing."""
    message = b"before the first"
    while message:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)
        received.put(message)


def _outcome(message: bytes) -> bytes:
    """Return the pickled outcome of a pickled piece of work; an error that cannot be pickled is sent as its text."""
    try:
        return pickle.dumps((False, pickle.loads(message)()))
    except Exception as error:
        error.add_note(traceback.format_exc())
        try:
            outcome = pickle.dumps((True, error))
            pickle.loads(outcome)
        except Exception:
            outcome = pickle.dumps((True, RuntimeError(traceback.format_exc())))
        return outcome
