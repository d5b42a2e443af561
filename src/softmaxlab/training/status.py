"""Tell what a sweep has, where, and what it still lacks, in runs and in estimated core-hours, without making any."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from softmaxlab.core.files import RECORD
from softmaxlab.core.result import Outcome
from softmaxlab.core.spec import Spec, from_plain
from softmaxlab.core.store import Store
from softmaxlab.errors import SoftmaxlabError, SpecError
from softmaxlab.training.estimate import Seconds
from softmaxlab.training.table import fields
from softmaxlab.training.table_file import ENDED, spec_of

Rows = dict[str, dict[str, Any]]  # key → cells
SHOWN = 24  # groups of settings that can still be read
NOT_PANELS = ("map", "lr", "seed")  # what the bars of a panel are means over, and the bars


def alike(spec: Spec) -> str:
    """The identity of a run for a figure: all of it but what figures do not tell apart."""
    likeness = getattr(spec, "alike", None)
    return str(likeness()) if callable(likeness) else spec.key


def in_store(store: Store) -> Rows:
    """Key → the fields and seconds of what ended, from the records alone, without arrays: fast, and not checked."""
    rows = {}
    for key in store.keys():  # noqa: SIM118, a store iterates over results
        try:
            record = json.loads((store.root / key / RECORD).read_text())
            spec, (outcome, sentence) = from_plain(record["spec"]), record["status"]
            seconds = record["provenance"]["seconds"]
        except (OSError, ValueError, KeyError, TypeError, SoftmaxlabError):
            continue  # damaged, or of code that is not here: it serves nothing
        if outcome in ENDED:
            rows[key] = (
                {"key": key}
                | fields(spec)
                | {"status": str(Outcome(outcome)), "sentence": sentence, "seconds": seconds}
            )
    return rows


def by_likeness(rows: Rows) -> dict[str, str]:
    """Likeness → key of a row that ended; of several the first."""
    keys: dict[str, str] = {}
    for key, cells in rows.items():
        try:
            keys.setdefault(alike(spec_of(cells)), key)
        except (SpecError, KeyError, TypeError, ValueError):
            continue
    return keys


def status(asked: Sequence[tuple[str, Spec]], sources: Mapping[str, Rows], serve: bool) -> dict[str, Any]:
    """Count the runs that each source adds to those before it, and those that none has, by groups of settings."""
    lacking, there = dict(asked), {}
    for name, rows in sources.items():
        likes = by_likeness(rows) if serve else {}
        has = [key for key, spec in lacking.items() if key in rows or (serve and alike(spec) in likes)]
        there[name] = len(has)
        lacking = {key: spec for key, spec in lacking.items() if key not in {*has}}
    seconds = Seconds.of(cells for cells in {key: c for rows in sources.values() for key, c in rows.items()}.values())
    total, number = seconds.total(lacking.values())
    return {
        "runs": len(dict(asked)),
        "there": there,
        "lacking": len(lacking),
        "core_hours": None if total is None else total / 3600,
        "estimated_from_rows": number,
        "groups": _groups(dict(asked), lacking, seconds),
    }


def _groups(asked: dict[str, Spec], lacking: dict[str, Spec], seconds: Seconds) -> list[dict[str, Any]]:
    """Return groups by the fields that vary, without those within a panel; none if there are too many."""
    cells = {key: fields(spec) for key, spec in asked.items()}
    names = [name for name in dict.fromkeys(n for each in cells.values() for n in each) if name not in NOT_PANELS]
    varying = [name for name in names if len({str(each.get(name)) for each in cells.values()}) > 1]
    for chosen in (varying, [name for name in varying if name != "heads"]):
        groups: dict[tuple, list[str]] = {}
        for key, each in cells.items():
            groups.setdefault(tuple(each.get(name) for name in chosen), []).append(key)
        if chosen and len(groups) <= SHOWN:
            return [_group(dict(zip(chosen, values)), keys, lacking, seconds) for values, keys in groups.items()]
    return []


def _group(settings: dict[str, Any], keys: Iterable[str], lacking: dict[str, Spec], seconds: Seconds) -> dict[str, Any]:
    keys = list(keys)
    without = [lacking[key] for key in keys if key in lacking]
    total, _ = seconds.total(without)
    hours = None if total is None else total / 3600
    return {"settings": settings, "runs": len(keys), "lacking": len(without), "core_hours": hours}
