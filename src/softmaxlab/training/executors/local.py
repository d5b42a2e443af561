"""This machine: the runs are shared by the process pool, and those whose worker died are recorded as failed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from softmaxlab.core.files import remove_abandoned
from softmaxlab.core.pool import Died, TimedOut, cores, run_all
from softmaxlab.core.simulate import check_device
from softmaxlab.errors import SpecError
from softmaxlab.training.attempts import FOLDER, record_failure, run_one
from softmaxlab.training.executors import check_positive


@dataclass(frozen=True)
class Local:
    """At most `jobs` processes at once; as many as there are cores if not given. A run that takes more than `timeout`
    seconds is ended and recorded as failed."""

    jobs: int | None = None
    timeout: float | None = None

    def __post_init__(self):
        if self.jobs is not None:
            check_positive("jobs", self.jobs)
        if self.timeout is not None and not (math.isfinite(self.timeout) and self.timeout > 0):
            raise SpecError(f"timeout must be a finite number of seconds above 0, got {self.timeout:g}")

    def at_once(self) -> int:
        """Return how many runs are made at the same time."""
        return self.jobs or cores()

    def run(self, specs: Mapping[str, str], store: str, device: str, finished: Callable[[str], None]) -> None:
        check_device(device)

        def end(key: str, outcome: Any) -> None:
            if isinstance(outcome, Died):
                record_failure(key, specs[key], store, str(outcome), attempts=outcome.attempts)
            elif isinstance(outcome, TimedOut):
                record_failure(key, specs[key], store, str(outcome))
            finished(key)

        work = {key: partial(run_one, key, spec, store, device) for key, spec in specs.items()}
        try:
            run_all(work, self.at_once(), end, threads=cores() if len(specs) == 1 else 1, timeout=self.timeout)
        finally:
            for folder in (Path(store), Path(store) / FOLDER):
                remove_abandoned(folder)  # what killed workers were writing
