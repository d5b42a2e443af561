"""The cost of a spec, known before it is computed: its memory and, roughly, its time.

What needs more memory than the machine has is refused with the number; what takes long says so before it starts.
"""

import contextlib
import logging
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    from softmaxlab.core.spec import Spec

log = logging.getLogger(__name__)
SAID_FROM = 120.0  # seconds: shorter runs do not announce themselves
DAY = 86_400.0  # said as 24 hours
CGROUP = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
UNITS = ((365 * DAY, "years"), (DAY, "days"), (3600.0, "hours"), (60.0, "minutes"))
_longest = math.inf


@dataclass(frozen=True)
class Cost:
    """Bytes at the peak, beside what is loaded already; seconds on one core, within a factor of ten, None if unknown.

    Estimates of time tell minutes from days, no more.
    """

    memory: float = 0.0
    seconds: float | None = None


def machine_memory() -> float:
    """Return the most bytes that a process can have here: those of the machine, or of its container."""
    sizes = [float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [math.inf]
    for file in CGROUP:
        with contextlib.suppress(OSError, ValueError):  # absent, or "max"
            sizes.append(float(file.read_text()))
    return min(sizes)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Refuse specs inside that would take longer."""
    global _longest
    before, _longest = _longest, seconds
    try:
        yield
    finally:
        _longest = before


def check_cost(specs: "Iterable[Spec]", say: bool = True) -> None:
    """Refuse what cannot be computed here, before any work; `say` how long it will take if that is long."""
    has, longest = machine_memory(), 0.0
    for spec in specs:
        cost, seconds = spec.estimate(), 0.0
        if not cost.memory <= has:
            raise SpecError(
                f"{spec.kind} needs about {_bytes(cost.memory)} of memory, this machine has {_bytes(has)}: "
                f"make it smaller ({_sizes(spec)})"
            )
        if cost.seconds is not None and (seconds := cost.seconds) > _longest:
            raise SpecError(
                f"{spec.kind} would take about {duration(seconds)}, at most {duration(_longest)} are allowed: make it "
                f"smaller ({_sizes(spec)}), or allow it with --long"
            )
        longest = max(longest, seconds)
    if say and longest > SAID_FROM:
        log.info("this takes long: a run about %s (a rough guess); Ctrl-C ends it", duration(longest))


def duration(seconds: float) -> str:
    """Seconds in a unit that reads well."""
    for unit, name in UNITS:
        if seconds > unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def _bytes(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


def _sizes(spec: "Spec") -> str:
    """The largest whole numbers among the fields, which make a spec large."""
    numbers = sorted(_whole(spec.plain()), key=lambda pair: -pair[1])
    return ", ".join(f"{name} = {value}" for name, value in numbers[:3])


def _whole(fields: dict, prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _whole(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and name != "seed" and value > 1:
            yield f"{prefix}{name}", value
