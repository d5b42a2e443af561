"""A view as Python and as a command line that compute it again."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from softmaxlab.core.spec import Record, Spec, plugins_of
from softmaxlab.probing.options import RECORDED, ProbeOptions, option_name

# Options of `softmaxlab probe` that a report records one by one, and their defaults.
PROBE_DEFAULTS = {field.name: field.default for field in fields(ProbeOptions) if field.name in RECORDED}


def python(spec: Spec, after: str = "print(result)") -> str:
    """A script that builds the spec and simulates it."""
    fields = "".join(f"    {name}={_code(value)},\n" for name, value in _given(spec).items())
    imports = "".join(f"import {module}\n" for module in ["softmaxlab as sl", *sorted(plugins_of(spec))])
    return f"{imports}\nspec = sl.{spec.kind}(\n{fields})\nresult = sl.simulate(spec)\n{after}\n"


def command(spec: Spec) -> str:
    """A line for a POSIX shell: the spec as a file, then its data and picture in runs/."""
    text = json.dumps(_short(spec), separators=(",", ":"))
    own = "".join(f" --plugin {module}" for module in sorted(plugins_of(spec)))
    return f"echo {shlex.quote(text)} > view.json && softmaxlab run view.json --out runs{own}"


def probe_command(report: Mapping[str, Any], patterns: Iterable[str], folder: str) -> str:
    """The same probe again, into another folder; `patterns` are the heads whose patterns were saved, as layer.head."""
    model, text, settings = report["model"], report["text"], report["settings"]
    source = "-" if text["name"] == "stdin" else text["name"]
    several = {name: settings.get(name) or [] for name in ("compare", "swap", "revisions")}
    options = [("text", source), ("length", text.get("T")), ("samples", text.get("sequences"))]
    if not several["compare"]:  # the number type is that of the first model; others may have had their own
        options.append(("dtype", model.get("dtype")))
    given = {name: settings.get(name) for name in PROBE_DEFAULTS}
    options += [(name, value) for name, value in given.items() if value != PROBE_DEFAULTS[name]]
    options += [(name, value) for name in ("compare", "swap") for value in several[name]]
    options += [("revisions", ",".join(several["revisions"])), ("check", "check" in report)]
    options += [("attention", ",".join(patterns)), ("out", folder)]
    words = [word for name, value in options for word in _option(name, value)]
    return shlex.join(["softmaxlab", "probe", model["name"], *words])


def _option(name: str, value: Any) -> list[str]:
    """An option's words; none if it has no value, is a flag that is not set, or an empty list."""
    option = option_name(name)
    if value is False and PROBE_DEFAULTS.get(name) is True:
        return [option_name(f"no_{name}")]
    if value is True:
        return [option]
    return [] if value is None or value is False or value == "" else [option, str(value)]


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
