"""One progress display for everything that takes more than two seconds.

A bar on a terminal that can draw; elsewhere one log line every half minute; nothing for short work.
"""

import logging
import os
import sys
import time
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)
QUIET_SECONDS = 2.0
LOG_SECONDS = 30.0


class Progress:
    """`with Progress(total, "label") as progress: progress.advance()`

    Steps may cost differently: `cost` is that of all, and `advance` says what was done. The time left is the cost left
    over the rate of cost done; before anything is done it is what is left of `guess` seconds, or not known yet.
    """

    def __init__(self, total: int, label: str, cost: float | None = None, guess: float | None = None):
        self.total, self.label, self.done, self.failed = total, label, 0, 0
        self._cost_left, self._cost_done, self._guess = float(total) if cost is None else cost, 0.0, guess
        self._began = self._logged = time.monotonic()
        self._bar = None

    def __enter__(self) -> Self:
        if self._guess is not None and self._guess > LOG_SECONDS:
            self._show(0.0) if _draws() else self._log(0.0)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, steps: int = 1, failed: bool = False, cost: float | None = None) -> None:
        """Count steps, and what they cost if that is not their number; what failed says nothing of the rate."""
        cost = steps if cost is None else cost
        self.done += steps
        self.failed += failed
        self._cost_left -= cost
        self._cost_done += 0.0 if failed else cost
        elapsed = time.monotonic() - self._began
        if elapsed < QUIET_SECONDS:
            return
        if _draws():
            self._show(elapsed)
        elif time.monotonic() - self._logged > LOG_SECONDS:
            self._log(elapsed)

    def left(self, elapsed: float) -> float | None:
        """Return the seconds that are left after so many; None if nothing is known of the rate."""
        if self._cost_done > 0:
            return elapsed * max(self._cost_left, 0.0) / self._cost_done
        return None if self._guess is None else max(self._guess - elapsed, 0.0)

    def _log(self, elapsed: float) -> None:
        self._logged = time.monotonic()
        counts = (self.label, self.done, self.total, self.failed)
        log.info("%s: %d/%d, %d failed, %s, %s", *counts, self._rate(elapsed), time_left(self.left(elapsed)))

    def _rate(self, elapsed: float) -> str:
        if not elapsed:
            return "just begun"
        rate = self.done / elapsed
        return f"{rate:.3g}/s" if rate >= 1 else f"{60 * rate:.3g}/min"

    def _show(self, elapsed: float) -> None:
        line = f"{self._rate(elapsed)}, {time_left(self.left(elapsed))}"
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            texts = progress.MofNCompleteColumn(), progress.TextColumn("{task.fields[rate]}")
            columns = (*progress.Progress.get_default_columns()[:-1], *texts)  # the last is rich's own time left
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self.label, total=self.total, rate=line)
            self._bar.start()
        label = f"{self.label}, {self.failed} failed" if self.failed else self.label
        self._bar.update(self._bar.task_ids[0], description=label, completed=self.done, rate=line)


def _draws() -> bool:
    """Whether a bar would be seen: rich draws none on a terminal that cannot move back."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def time_left(seconds: float | None) -> str:
    """A time left in a unit that suits it."""
    if seconds is None:
        return "time left not known yet"
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"about {seconds / length:.0f} {unit} left"
    return f"{seconds:.0f} s left"
