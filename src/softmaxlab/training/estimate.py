"""Estimate roughly how long runs take, from the seconds of earlier runs of their kind; unknown if there are none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from softmaxlab.core.spec import Record, Spec
from softmaxlab.errors import SpecError
from softmaxlab.training.table import has_result
from softmaxlab.training.table_file import spec_of

LIKE = 2.0  # costs within this factor are alike: what a run takes beside its operations depends on its size


def cost_of(spec: Record) -> float | None:
    """Floating-point operations of a spec that knows them (`Run.cost`)."""
    cost: Any = getattr(spec, "cost", None)
    return float(cost()) if callable(cost) else None  # type: ignore[arg-type]


def in_order(specs: Mapping[str, Spec], ranks: Mapping[str, int]) -> dict[str, Spec]:
    """Sort specs rank by rank, seed by seed, the longest first; leave them as they are if a cost is unknown."""
    costs = {key: cost_of(spec) for key, spec in specs.items()}
    if None in costs.values():
        return dict(specs)
    order = {key: (ranks.get(key, 0), getattr(spec, "seed", 0), -(costs[key] or 0)) for key, spec in specs.items()}
    return {key: specs[key] for key in sorted(specs, key=order.__getitem__)}


@dataclass
class Seconds:
    """The cost and the seconds of earlier runs, by kind."""

    known: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Seconds":
        seconds = cls()
        for cells in rows:
            if has_result(cells):
                seconds.add(cells)
        return seconds

    def add(self, cells: Mapping[str, Any]) -> None:
        """Add a row whose spec can be built and knows its cost; other rows say nothing."""
        try:
            spec = spec_of(cells)
        except (SpecError, KeyError, TypeError, ValueError):
            return
        if (cost := cost_of(spec)) and cells["status"] == "done":
            self.known.setdefault(_kind(spec), []).append((cost, float(cells["seconds"])))

    def estimate(self, spec: Spec) -> tuple[float | None, int]:
        """Seconds of a run and from how many rows: those of like cost, or, without any, all of its kind."""
        cost, rows = cost_of(spec), self.known.get(_kind(spec), [])
        if not cost or not rows:
            return None, 0
        like = [row for row in rows if 1 / LIKE <= row[0] / cost <= LIKE] or rows
        return cost * median(seconds / its for its, seconds in like), len(like)

    def total(self, specs: Iterable[Spec]) -> tuple[float | None, int]:
        """Seconds of all of them, and from how many rows at most; None if one of them cannot be estimated."""
        estimates: dict[tuple[str, float | None], tuple[float | None, int]] = {}
        total, most = 0.0, 0
        for spec in specs:
            kind = (_kind(spec), cost_of(spec))
            if kind not in estimates:
                estimates[kind] = self.estimate(spec)
            seconds, number = estimates[kind]
            if seconds is None:
                return None, 0
            total, most = total + seconds, max(most, number)
        return total, most


def _kind(spec: Record) -> str:
    task = getattr(spec, "task", None)
    return f"{spec.kind} {task.kind if isinstance(task, Record) else ''}"
