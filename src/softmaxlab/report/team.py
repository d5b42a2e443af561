"""Work shared by processes of one thread each. One that dies costs its own piece of work and no other."""

import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from softmaxlab.core.progress import Progress
from softmaxlab.training.executors.local import THREADS

Work = Callable[[], Any]


def share(work: Mapping[str, Work], jobs: int, progress: Progress) -> dict[str, Any]:
    """Name → what its work gives; names whose process died are missing.

    When a process dies the pool does not say whose it was: what was not finished is then done one by one, each in a
    process of its own.
    """
    done = _together(work, jobs, progress)
    for name in work:
        if name not in done:
            done |= _together({name: work[name]}, 1, progress)
            if name not in done:
                progress.advance(failed=True)
    return done


def _together(work: Mapping[str, Work], jobs: int, progress: Progress) -> dict[str, Any]:
    done: dict[str, Any] = {}
    if not work:
        return done
    others = set(multiprocessing.active_children())
    with _one_thread_each():
        # spawned, since a fork of a process with threads may hang
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(work)), mp_context=context, initializer=_prepare)
        try:
            futures = {pool.submit(piece): name for name, piece in work.items()}
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                progress.advance()
        except BrokenProcessPool:
            pass
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()  # results are written whole or not at all, so nothing is left half done
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return done


class _NoTerminal(io.TextIOWrapper):
    """Standard error of a worker, so that it draws no bar into the one display there is."""

    def isatty(self) -> bool:
        return False


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that shares the work
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _NoTerminal(sys.stderr.buffer, encoding="utf-8", errors="replace", line_buffering=True)


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
