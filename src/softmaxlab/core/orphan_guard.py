"""Kill the workers when their parent has ended, however it ended: a small process that watches it.

It waits at the end of a pipe that its parent holds, which closes however the parent ends, even by kill -9. It is run as
a file by itself, with the standard library alone, so that it is there at once and has nothing that could fail.
"""

import contextlib
import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self


class Guard:
    """`with Guard() as guard: guard.add(group)` kills the groups when the parent ends; `remove` takes one out."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # no Ctrl-C and no hang-up of a terminal reaches it
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def add(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # someone killed it: what it guards ends in its own ways
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


def kill_group(group: int) -> None:
    """Kill every process of a group, if there is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the second: macOS, of a group of zombies
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        kill_group(group)


if __name__ == "__main__":
    main()
