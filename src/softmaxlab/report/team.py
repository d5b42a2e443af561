"""Work shared by processes of one thread each. One that dies costs its own piece of work and no other."""

import io
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from softmaxlab.core.progress import Progress
from softmaxlab.training.executors.local import THREADS

Work = Callable[[], Any]
Failed = Callable[[Any], bool]


def share(work: Mapping[str, Work], jobs: int, progress: Progress, failed: Failed) -> dict[str, Any]:
    """Name → what its work gives; names whose process died are missing. `failed` judges what was given.

    When a process dies the pool does not say whose it was: what was running is then done one by one, each in a process
    of its own, and the rest together again.
    """
    done: dict[str, Any] = {}
    left = dict(work)
    while left:
        found, suspects = _together(left, jobs, progress, failed)
        done |= found
        for name in suspects:
            found, died = _together({name: work[name]}, 1, progress, failed)
            done |= found
            if died:
                progress.advance(failed=True)
        left = {name: piece for name, piece in left.items() if name not in done and name not in suspects}
    return done


def _together(work: Mapping[str, Work], jobs: int, progress: Progress, failed: Failed) -> tuple[dict, list[str]]:
    """What the pieces give until a process dies, and the names of those that were running then."""
    others = set(multiprocessing.active_children())
    with _one_thread_each():
        # spawned, since a fork of a process with threads may hang
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(work)), mp_context=context, initializer=_prepare)
        try:
            return _submitted(pool, work, jobs, progress, failed)
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()  # results are written whole or not at all, so nothing is left half done
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _submitted(
    pool: ProcessPoolExecutor, work: Mapping[str, Work], jobs: int, progress: Progress, failed: Failed
) -> tuple[dict, list[str]]:
    """No more pieces at once than processes, so that all that were begun are known."""
    done: dict[str, Any] = {}
    waiting, running = list(work), {}
    broken = False
    while not broken and (waiting or running):
        try:
            while waiting and len(running) < jobs:
                future = pool.submit(work[waiting[0]])
                running[future] = waiting.pop(0)
        except BrokenProcessPool:
            broken = True
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            if isinstance(future.exception(), BrokenProcessPool):
                broken = True
                continue
            name = running.pop(future)
            done[name] = future.result()
            progress.advance(failed=failed(done[name]))
    return done, list(running.values())


class _NoTerminal(io.TextIOWrapper):
    """Standard error of a worker, so that it draws no bar into the one display there is."""

    def isatty(self) -> bool:
        return False


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that shares the work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _NoTerminal(sys.stderr.buffer, encoding="utf-8", errors="replace", line_buffering=True)


def _end_with_parent() -> None:
    """A worker outlives a killed parent otherwise: it would go on computing for nobody."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside have numerical libraries of one thread, so that they do not disturb each other."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
