"""A view as Python and as a command line that compute it again."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from softmaxlab.core.spec import Record, Spec


def python(spec: Spec, after: str = "print(result)") -> str:
    """A script that builds the spec and simulates it."""
    fields = "".join(f"    {name}={_code(value)},\n" for name, value in _given(spec).items())
    return f"import softmaxlab as sl\n\nspec = sl.{spec.kind}(\n{fields})\nresult = sl.simulate(spec)\n{after}\n"


def command(spec: Spec) -> str:
    """A line for a POSIX shell: the spec as a file, then its data and picture in runs/."""
    text = json.dumps(_short(spec), separators=(",", ":"))
    return f"echo {shlex.quote(text)} > view.json && softmaxlab run view.json --out runs"


def probe_command(report: Mapping[str, Any], folder: str) -> str:
    """The probe of the first subject of a report; what was changed, its device and its number type are not in it."""
    text, settings = report["text"], report["settings"]
    words = ["softmaxlab", "probe", report["model"]["name"], "--text", text["name"]]
    for option, value in (("--length", text.get("T")), ("--samples", text.get("sequences"))):
        words += [option, str(value)] if value is not None else []
    for name in ("bos", "eps", "seed"):
        value = settings.get(name)
        words += [f"--{name}", str(value)] if value is not None else []
    return shlex.join([*words, "--out", folder])


def _given(record: Record) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    fields = {name: (getattr(record, name), field) for name, field in type(record).model_fields.items()}
    return {name: value for name, (value, field) in fields.items() if not _is_default(value, field)}


def _is_default(value: Any, field: Any) -> bool:
    return not isinstance(value, np.ndarray) and value == field.get_default(call_default_factory=True)


def _short(record: Record) -> dict[str, Any]:
    """The record's JSON without defaults."""
    whole = record.plain()
    short = {n: _short(value) if isinstance(value, Record) else whole[n] for n, value in _given(record).items()}
    return {"kind": record.kind} | short


def _code(value: Any) -> str:
    if isinstance(value, Record):
        fields = ", ".join(f"{name}={_code(item)}" for name, item in _given(value).items())
        return f"sl.{value.kind}({fields})"
    return json.dumps(value.tolist()) if isinstance(value, np.ndarray) else repr(value)
