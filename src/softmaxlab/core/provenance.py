"""Compare what results were computed on: other versions, kernels or threads may differ in the last digits."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from softmaxlab.core.files import RECORD
from softmaxlab.core.store import Store

COMPARED = ("python", "machine", "device", "threads", "kernels")


def of_stored(store: Store, keys: Iterable[str]) -> list[dict[str, Any]]:
    """The provenance of stored results, from their records alone; a damaged one has none."""
    provenances = []
    for key in keys:
        try:
            provenances.append(json.loads((store.folder(key) / RECORD).read_text())["provenance"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return provenances


def differences(provenances: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Name → the different values of what not all were computed with; empty if all were computed alike."""
    flat = [_flat(provenance) for provenance in provenances]
    values = {name: sorted({each.get(name, "none") for each in flat}) for each in flat for name in each}
    return {name: several for name, several in values.items() if len(several) > 1}


def sentence(different: Mapping[str, list[str]]) -> str:
    """One line on results that were not all computed alike."""
    listed = "; ".join(f"{name}: {', '.join(values)}" for name, values in different.items())
    return f"not all results were computed alike, so their last digits may differ ({listed})"


def _flat(provenance: Mapping[str, Any]) -> dict[str, str]:
    versions = provenance.get("versions") or {}
    words = {name: str(version) for name, version in versions.items()}
    return words | {name: _word(provenance.get(name)) for name in COMPARED}


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={value[name]}" for name in sorted(value)) or "none"
    return str(value)
