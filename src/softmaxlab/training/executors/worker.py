"""The process that makes runs for the local executor, one after another.

A byte on stdout asks for a run, a line on stdin brings one. The end of stdin is the end of the process, at any
moment: the sweep is over, or whoever ran it is gone, even by kill -9.
"""

import json
import math
import os
import queue
import sys
import threading

from softmaxlab.core import progress
from softmaxlab.training.attempts import run_one


def main(store: str, device: str) -> None:
    asks = os.dup(1)
    os.dup2(2, 1)  # what a run prints must not ask for the next one
    progress.QUIET_SECONDS = math.inf  # the sweep counts whole runs
    brought: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(brought,), daemon=True).start()
    while True:
        os.write(asks, b".")
        key, spec = brought.get()
        run_one(key, spec, store, device)


def _listen(brought: queue.SimpleQueue) -> None:
    for line in sys.stdin.buffer:
        brought.put(tuple(json.loads(line)))
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
