"""Pieces of work for the process pool, importable by its workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def process() -> int:
    return os.getpid()


def threads() -> str:
    return os.environ["OMP_NUM_THREADS"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(9)


def die_once(mark: str) -> int:
    if not Path(mark).exists():
        Path(mark).touch()
        die()
    return os.getpid()


def refuse() -> None:
    raise ValueError("no such value")


class Unpicklable(Exception):
    def __init__(self, number: int, reason: str):
        super().__init__(f"{number}: {reason}")


def refuse_oddly() -> None:
    raise Unpicklable(3, "of two arguments")


def sleep(mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    time.sleep(600)


def speak() -> int:
    print("not for the output of a command", flush=True)
    return 7


def spawn_and_sleep(mark: str) -> None:
    """Start a process that would live on, and write down both."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    draft = Path(f"{mark}.draft")
    draft.write_text(f"{os.getpid()} {child.pid}")
    draft.rename(mark)
    time.sleep(600)
