"""The places where the runs of a sweep are made. The store is the queue; an executor has each run attempted."""

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol

from softmaxlab.errors import SpecError, unknown

HOMES = {"local": "Local", "ray": "Ray", "slurm": "Slurm"}


class Executor(Protocol):
    """Anything with this method may be given to `sweep`."""

    def run(self, specs: Mapping[str, str], store: str, device: str, finished: Callable[[str], None]) -> None:
        """Have `attempts.run_one` called for each spec (key → JSON) and tell `finished` the key after each."""


def executor_named(name: str, **options: Any) -> Executor:
    """An executor by name; options that are None are left to their defaults."""
    if name not in HOMES:
        raise unknown("executor", name, HOMES)
    kind = getattr(importlib.import_module(f"softmaxlab.training.executors.{name}"), HOMES[name])
    given = {option: value for option, value in options.items() if value is not None}
    known = [field.name for field in fields(kind)]
    for option in given:
        if option not in known:
            raise SpecError(f"executor {name!r} has no option {option!r}, it has: {', '.join(known)}")
    return kind(**given)


def check_positive(name: str, value: Any) -> None:
    """Refuse what is not a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SpecError(f"{name} must be a whole number from 1, got {value!r}")


def check_gpus(value: float) -> None:
    """Refuse what is not a finite number from 0."""
    if not (math.isfinite(value) and value >= 0):
        raise SpecError(f"gpus_per_task must be a finite number from 0, got {value:g}")
