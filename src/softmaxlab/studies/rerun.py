"""Train the models of a study anew, as many at once as there are processors, and keep them nowhere."""

import tempfile
import warnings
from collections.abc import Sequence

from softmaxlab.core.result import Outcome, Result
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError
from softmaxlab.training import sweep


def results_of(specs: Sequence[Spec], device: str) -> list[Result]:
    """The results of all specs, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings(action="ignore"):  # of failed runs, whose tracebacks go with the folder
            table = sweep(specs, store=folder, device=device)
        results = [Store(folder).get(spec) for spec in specs]
    if (bad := table.loc[table["status"] != Outcome.DONE]).size:
        raise SpecError(f"{len(bad)} of {len(specs)} runs of the study failed, the first: {bad['sentence'].iloc[0]}")
    assert all(result is not None for result in results)
    return results  # type: ignore[return-value]
