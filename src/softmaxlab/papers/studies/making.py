"""Trained models that a study makes anew, as many at once as there are processors, and keeps nowhere."""

import tempfile
from collections.abc import Sequence

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError
from softmaxlab.training import sweep


def results_of(specs: Sequence[Spec], device: str) -> list[Result]:
    """In the order of the specs."""
    with tempfile.TemporaryDirectory() as folder:
        sweep(specs, store=folder, device=device)
        found = [Store(folder).get(spec) for spec in specs]
    if missing := [spec for spec, result in zip(specs, found) if result is None]:
        raise SpecError(f"{len(missing)} of {len(specs)} runs of the study failed, the first {missing[0].json_text()}")
    return [checked(result) for result in found if result is not None]


def checked(result: Result) -> Result:
    """A result whose numbers can be used."""
    if not result.status.ok:
        raise SpecError(f"a run of the study failed: {result.status.sentence}")
    return result
