"""simulate(spec): the one verb."""

import dataclasses
import functools
import logging
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from softmaxlab.core.cost import check_cost
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.core.user_code import naming_user_code, place_of_function
from softmaxlab.errors import SpecError, UserCodeError

log = logging.getLogger(__name__)
KERNELS = "softmaxlab.core.kernels"  # looked up, not imported: it needs torch, which many results do not
RECORDED = ("softmaxlab", "numpy", "scipy", "torch", "numba")


def simulate(spec: Spec, store: Store | str | Path | None = None, device: str = "cpu") -> Result:
    """Compute a spec's result, or take it from the store (or its folder) if it is there.

    Without a store nothing is written.
    """
    if not isinstance(spec, Spec):
        raise SpecError(f"simulate takes a spec, got {type(spec).__name__}")
    check_device(device)
    if isinstance(store, (str, Path)):
        store = Store(store)
    if store is not None and (stored := store.get(spec)) is not None:
        _say_if_other(stored)
        return stored
    check_cost([spec])
    if store is not None:
        store.check_writable()
    if kernels := sys.modules.get(KERNELS):
        kernels.forget_used()
    began = time.perf_counter()
    with naming_user_code():
        outcome = spec._run(device)
    if not isinstance(outcome, Result):
        raise UserCodeError(f"{place_of_function(type(spec)._run)} must return a Result, got {type(outcome).__name__}")
    result = dataclasses.replace(outcome, spec=spec, provenance=_provenance(time.perf_counter() - began, device))
    if store is not None:
        store.put(result)
    return result


def _say_if_other(stored: Result) -> None:
    """Say that a stored result is of other versions: its last digits may differ from what is computed now."""
    made = stored.provenance.get("versions") or {}
    other = [f"{name} {made[name]}, now {now}" for name, now in _versions().items() if made.get(name, now) != now]
    if other:
        log.info(
            "the stored result %s was computed with other versions (%s)",
            stored.spec.key if stored.spec else "",
            "; ".join(other),
        )


def check_device(device: str) -> None:
    """Refuse a device that is not there before any work."""
    if device == "cpu":
        return
    import torch

    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"device {device!r} cannot be used here: {reason}") from None


def _provenance(seconds: float, device: str) -> dict:
    return {
        "seconds": round(seconds, 6),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": device,
        "threads": _threads(),
        "kernels": sys.modules[KERNELS].used() if KERNELS in sys.modules else {},
        "versions": _versions(),
    }


def _threads() -> int | None:
    """The number of threads of torch, on which the last digits of its sums depend; None if torch is not in use."""
    return sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None


@functools.cache
def _versions() -> dict[str, str]:
    """Return versions of libraries, cached, because reading the metadata of a package takes milliseconds."""
    return {name: version(name) for name in RECORDED}
