"""How signals end the program: SIGTERM and SIGHUP as Ctrl-C does, each with its own exit code."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

_ended_by = int(signal.SIGINT)  # the signal that ended the program, if one did


@contextlib.contextmanager
def ends_like_ctrl_c() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the program as Ctrl-C does; a hang-up that is ignored, as under nohup, stays so."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    is_main = threading.current_thread() is threading.main_thread()  # no other thread may set handlers
    ours = [number for number in numbers if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def leave(is_program: bool) -> None:
    """End with the exit code of the signal; the program does so without taking apart all that it has imported.

    That would take more than a second, and several on a busy machine.
    """
    if is_program:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # whoever read it is gone
                stream.flush()
        os._exit(128 + _ended_by)
    sys.exit(128 + _ended_by)


def _interrupt(number: int, frame: object) -> None:
    global _ended_by
    _ended_by = number
    signal.signal(number, signal.SIG_IGN)  # the end has begun
    raise KeyboardInterrupt
