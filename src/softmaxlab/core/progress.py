"""One progress display for everything that takes more than two seconds.

A bar on a terminal; elsewhere one log line every half minute; nothing for short work.
"""

import logging
import sys
import time
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)
QUIET_SECONDS = 2.0
LOG_SECONDS = 30.0


class Progress:
    """`with Progress(total, "label") as progress: progress.advance()`"""

    def __init__(self, total: int, label: str):
        self.total, self.label, self.done, self.failed = total, label, 0, 0
        self._began = self._logged = time.monotonic()
        self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, steps: int = 1, failed: bool = False) -> None:
        self.done += steps
        self.failed += failed
        elapsed = time.monotonic() - self._began
        if elapsed < QUIET_SECONDS:
            return
        if sys.stderr.isatty():
            self._draw(self._rate(elapsed))
        elif time.monotonic() - self._logged > LOG_SECONDS:
            self._logged = time.monotonic()
            left = elapsed * (self.total - self.done) / max(self.done, 1)
            counts = (self.label, self.done, self.total, self.failed)
            log.info("%s: %d/%d, %d failed, %s, %.0f s left", *counts, self._rate(elapsed), left)

    def _rate(self, elapsed: float) -> str:
        rate = self.done / elapsed
        return f"{rate:.3g}/s" if rate >= 1 else f"{60 * rate:.3g}/min"

    def _draw(self, rate: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            texts = progress.MofNCompleteColumn(), progress.TextColumn("{task.fields[rate]}")
            columns = (*progress.Progress.get_default_columns(), *texts)
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self.label, total=self.total, rate=rate)
            self._bar.start()
        label = f"{self.label}, {self.failed} failed" if self.failed else self.label
        self._bar.update(self._bar.task_ids[0], description=label, completed=self.done, rate=rate)
