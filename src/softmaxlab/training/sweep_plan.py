"""The runs that a sweep asks for, in the order in which they are made: those of a preset, or those of a file."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from softmaxlab.core.documents import parse_json
from softmaxlab.core.spec import Spec, from_plain
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError
from softmaxlab.training.executors.slurm import Slurm
from softmaxlab.training.presets import is_figure, stages
from softmaxlab.training.sweep import keyed, known, missing


class SweepPlan:
    """The name of a sweep, and its specs with the numbers of their stages.

    `what` is a task or a JSON file with a list of specs. A changed sweep has another table, so it has another name.
    """

    def __init__(self, what: str, preset: str | None, changes: dict[str, Any]):
        if what.endswith(".json"):
            if preset is not None:
                raise SpecError(f"specs from a file have no presets, got --preset {preset}")
            name, listed = Path(what).stem, [_from_file(what)]
        else:
            name, listed = f"{what}-{preset or 'quick'}", stages(what, preset or "quick")
        self.draws_figure = not what.endswith(".json") and is_figure(preset or "")
        self.specs: dict[Spec, int] = {}
        for number, stage in enumerate(listed):
            for spec in stage:
                self.specs.setdefault(spec.replace(**changes) if changes else spec, number)
        self.asked = keyed(self.specs)
        if changes:
            name += "-" + hashlib.sha256("".join(spec.key for spec in self.specs).encode()).hexdigest()[:8]
        self.name = name

    @property
    def ranks(self) -> dict[str, int]:
        """Key → stage."""
        return dict(zip((key for key, _ in self.asked), self.specs.values()))

    def submission(self, executor: Any, out: str, limit: int | None) -> dict[str, Any]:
        """Return what SLURM would be given for the missing runs: its script, and core-hours at most."""
        if not isinstance(executor, Slurm):
            raise SpecError("--dry-run goes with --executor slurm")
        runs = len(missing(self.asked, known(self.asked, Store(out)), limit))
        script, hours = executor.script(runs, out) if runs else "", executor.core_hours(runs)
        return {"runs": runs, "elements": executor.size(runs), "core_hours": hours, "script": script}


def _from_file(file: str) -> Iterable[Spec]:
    try:
        listed = parse_json(Path(file).read_text(), f"{file!r}")
    except SpecError:
        raise
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read the specs in {file!r}: {error}") from None
    if not isinstance(listed, list) or not listed:
        raise SpecError(f"{file!r} must hold a JSON list of specs")
    return [from_plain(item) for item in listed]
