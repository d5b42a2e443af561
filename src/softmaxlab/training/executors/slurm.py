"""A SLURM cluster: one array job, each element of which runs its share of the sweep with the local executor.

Elements that are preempted or out of time are put back in the queue; what they had finished is in the store and is
not made again. The store must lie on a file system that all nodes share.
"""

import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from softmaxlab.core import plugins
from softmaxlab.errors import SpecError
from softmaxlab.training.attempts import failure, record_failure
from softmaxlab.training.executors import check_gpus, check_positive
from softmaxlab.training.executors.local import Local

SETUP = ["export PYTHONSAFEPATH=1"]  # elements do not import from the folder that they are started in
LOGS = "slurm"  # the folder in the store with the elements' output
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Element:
    """One array element at work on its share of the specs; submitit puts it back in the queue by its `checkpoint`."""

    store: str
    device: str
    jobs: int
    path: tuple[str, ...]  # where the user's plugins are found

    def __call__(self, specs: dict[str, str]) -> None:
        sys.path[:] = dict.fromkeys([*sys.path, *self.path])
        Local(self.jobs).run(specs, self.store, self.device, lambda key: None)

    def checkpoint(self, specs: dict[str, str]) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, specs)


@dataclass(frozen=True)
class Slurm:
    """At most `elements` array elements of `jobs` cores, each for `time` at most (sbatch's forms: minutes, H:MM:SS,
    D-HH:MM:SS). `cluster="local"` tries it out on this machine without SLURM."""

    jobs: int = 4
    elements: int = 100
    partition: str | None = None
    account: str | None = None
    time: str = "4:00:00"
    gpus_per_task: float = 0
    cluster: str = "slurm"
    _minutes: int = field(init=False, repr=False)

    def __post_init__(self):
        check_positive("jobs", self.jobs)
        check_positive("elements", self.elements)
        check_gpus(self.gpus_per_task)
        if self.gpus_per_task != int(self.gpus_per_task):
            raise SpecError(f"gpus_per_task is a whole number on SLURM, got {self.gpus_per_task:g}")
        object.__setattr__(self, "_minutes", minutes(self.time))

    def run(self, specs: Mapping[str, str], store: str, device: str, finished: Callable[[str], None]) -> None:
        size, items = self.size(len(specs)), list(specs.items())
        parts = [dict(items[i::size]) for i in range(size)]  # dealt out in turn: the first specs are the first made
        failed_before = {key: failure(store, key) for key in specs}
        element = Element(store, device, self.jobs, tuple(sys.path))
        with plugins.safe_path():
            jobs = self._submitter(Path(store) / LOGS).map_array(element, parts)
        try:
            left = _await(jobs, set(specs), store, finished)
        except BaseException:
            for job in jobs:
                job.cancel()
            raise
        finally:
            _remove_pickles(jobs)
        for job, part in zip(jobs, parts):
            for key in left.intersection(part):
                if failure(store, key) == failed_before[key]:
                    reason = f"element {job.job_id} ended before it ({job.state}), see {LOGS}/ in the store"
                    record_failure(key, specs[key], store, reason)
                finished(key)

    def script(self, runs: int, store: str) -> str:
        """The batch script for so many runs."""
        submitit, folder, size = _imported(), Path(store).resolve() / LOGS, self.size(runs)
        command = f"{shlex.quote(sys.executable)} -u -m submitit.core._submit {shlex.quote(str(folder))}"
        parameters = self._parameters() | ({"map_count": size} if size > 1 else {})
        return submitit.slurm.slurm._make_sbatch_string(command=command, folder=folder, **parameters)

    def size(self, runs: int) -> int:
        """The number of elements for so many runs."""
        return min(self.elements, -(-runs // self.jobs))

    def core_hours(self, runs: int) -> float:
        """The core-hours of the array if every element uses all its time."""
        return self.size(runs) * self.jobs * self._minutes / 60

    def _parameters(self) -> dict[str, Any]:
        given = {"partition": self.partition, "account": self.account, "gpus_per_task": int(self.gpus_per_task) or None}
        fixed = {"job_name": "softmaxlab", "time": self._minutes, "cpus_per_task": self.jobs, "setup": SETUP}
        return fixed | {name: value for name, value in given.items() if value is not None}

    def _submitter(self, folder: Path) -> Any:
        submitit = _imported()
        if self.cluster == "local":
            submitter = submitit.LocalExecutor(folder)
            submitter.update_parameters(timeout_min=self._minutes)
            return submitter
        try:
            submitter = submitit.SlurmExecutor(folder)
        except RuntimeError:
            raise SpecError("executor 'slurm' needs srun and sbatch, which are not on this machine") from None
        submitter.update_parameters(**self._parameters())
        return submitter


def minutes(text: str) -> int:
    """The minutes of a time limit as sbatch writes it."""
    match = re.fullmatch(r"(?:([0-9]{1,4})-)?([0-9]{1,7})(?::([0-5]?[0-9]))?(?::([0-5]?[0-9]))?", text)
    if match is None:
        raise SpecError(f"time is minutes, H:MM:SS or D-HH:MM:SS, got {text!r}")
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is not None or match[4] is not None:  # D-HH[:MM[:SS]] or H:MM:SS
        total = (days * 24 + first) * 60 + second + (third > 0)
    else:  # M or M:SS
        total = first + (second > 0)
    if total < 1:
        raise SpecError(f"time must be at least a minute, got {text!r}")
    return total


def _await(jobs: list, waiting: set[str], store: str, finished: Callable[[str], None]) -> set[str]:
    """Wait until all jobs have ended; return the keys of the runs that then have no result."""
    while True:
        over = all(job.done() for job in jobs)  # before the look at the store, which then misses nothing
        for key in sorted(key for key in waiting if (Path(store) / key).exists()):
            waiting.remove(key)
            finished(key)
        if over:
            return waiting
        time.sleep(POLL_SECONDS)


def _remove_pickles(jobs: list) -> None:
    """Delete what submitit hands an element and gets back from it: files that run code when read."""
    for job in jobs:
        for file in (job.paths.submitted_pickle, job.paths.result_pickle):
            file.unlink(missing_ok=True)


def _imported() -> ModuleType:
    try:
        import submitit
    except ImportError:
        raise SpecError("executor 'slurm' needs the extra 'slurm': pip install 'softmaxlab[slurm]'") from None
    return submitit
