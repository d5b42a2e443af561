"""simulate(spec): the one verb."""

import dataclasses
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError

RECORDED = ("softmaxlab", "numpy", "scipy", "torch", "numba")


def simulate(spec: Spec, store: Store | None = None, device: str = "cpu") -> Result:
    """Compute a spec's result, or take it from the store if it is there. Without a store nothing is written."""
    if not isinstance(spec, Spec):
        raise SpecError(f"simulate takes a spec, got {type(spec).__name__}")
    if store is not None and (found := store.get(spec)) is not None:
        return found
    began = time.perf_counter()
    outcome = spec._run(device)
    result = dataclasses.replace(outcome, spec=spec, provenance=_provenance(time.perf_counter() - began, device))
    if store is not None:
        store.put(result)
    return result


def _provenance(seconds: float, device: str) -> dict:
    return {
        "seconds": round(seconds, 6),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": device,
        "versions": {name: version(name) for name in RECORDED},
    }
