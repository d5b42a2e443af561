"""The result of a probe: its tables, its JSON document and the files they go to.

A folder of a probe holds report.json (the document), heads, cross (encoder–decoders), activations and profile as .csv
or .parquet, sinks.json for policies of KV caches, patterns.json (heads whose patterns were kept), one picture each, and
index.html, which holds all of it. Pictures and the page are drawn by `softmaxlab.report.probe_files.write_probe`.
If there are several subjects (models, or a model and its changes), the tables have a first column `subject`.
"""

import json
import math
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from softmaxlab.core.files import atomic
from softmaxlab.core.tables import FORMATS, check_table, write_table
from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing.compare import compare_tables
from softmaxlab.probing.heads import HeadTables
from softmaxlab.probing.recommendations import kept_positions, recommendations
from softmaxlab.probing.streaming.tokens import TokenKind, token_mask
from softmaxlab.probing.summary import Subject, column_definitions, heads_table, layers_table, summary

SCHEMA = 1
PROFILE_ROWS = 10**6  # a longer profile keeps log-spaced positions in its file, all of the first ones
TABLES = ("heads", "cross", "activations", "profile", "tokens")
PICTURES = ("sink", "sparsity", "entropy", "activations", "profile", "attention")
DOCUMENT, SINKS, PATTERNS, PAGE = "report.json", "sinks.json", "patterns.json", "index.html"
PACKAGES = ("softmaxlab", "torch", "transformers", "tokenizers", "numpy", "pandas")
LABEL_LENGTH = 28  # characters of a short label


@dataclass
class ProbeReport:
    """Everything that one probe measured; it grows while the probe runs, so that Ctrl-C leaves what there is."""

    model: dict[str, Any]
    text: dict[str, Any]
    settings: dict[str, Any]
    token_text: Callable[[int], str]
    subjects: list[Subject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what could not be measured, and why
    parts: dict[str, Any] = field(default_factory=dict)  # check, mitigation, pruning, similarity: plain values
    patterns: dict[str, np.ndarray] = field(default_factory=dict)  # "layer.head" → weights [query, key]
    pattern_tokens: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def eps(self) -> float:
        return self.settings["eps"]

    @property
    def about(self) -> str:
        """Return a phrase on what was measured, for titles."""
        text = Path(self.text["name"]).name
        return f"{short_label(self.model['name'])} on {self.text['amount'].rstrip(',')} of {text}"

    @property
    def ok(self) -> bool:
        """Whether the check against eager attention agreed; True if it was not run."""
        return self.parts.get("check", {"ok": True})["ok"]

    def recommendations(self) -> list[str]:
        """Sentences that say what to do with the first subject; an encoder has no cache, so it gets two of three."""
        sentences = recommendations(self.subjects[0].tables, self.token_text)
        return sentences if "causal" in self.text["uniform_sink"] else sentences[1:]

    def summaries(self) -> list[dict[str, Any]]:
        """One row per subject."""
        return [summary(subject, self.eps) for subject in self.subjects]

    def tables(self) -> dict[str, pandas.DataFrame]:
        """The tables heads, cross, activations, profile and tokens of all subjects."""
        return {
            "heads": self._joined(heads_table),
            "cross": self._joined(lambda tables: tables.cross),
            "activations": self._joined(lambda tables: tables.activations),
            "profile": _thinned(self._joined(lambda tables: tables.profile)),
            "tokens": self._joined(lambda tables: tables.tokens_by_layer),
        }

    @property
    def tokens(self) -> pandas.DataFrame:
        """Return the tokens that are sinks or massive in the first subject, by layer and sequence, with their text."""
        table = self.subjects[0].tables.tokens_by_layer
        if table.empty:
            return table
        return table.assign(text=[self.token_text(id) if id >= 0 else None for id in table["token"]])

    def token_mask(self, kind: TokenKind = "any", layer: int | None = None) -> np.ndarray:
        """Mask [sequence, position] of the first subject's sink or massive tokens, in one layer or in any."""
        tables = self.subjects[0].tables
        return token_mask(tables.tokens_by_layer, tables.sequences, max(self.text["lengths"]), kind, layer)

    def document(self) -> dict[str, Any]:
        """The JSON document: plain values only, NaN as null."""
        document = {
            "schema": f"softmaxlab.probe/{SCHEMA}",
            "interrupted": self.interrupted,
            "model": self.model,
            "text": self.text,
            "settings": self.settings,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
            "definitions": column_definitions(self.eps),
            "subjects": self.summaries(),
            "layers": _rows(self._joined(lambda tables: layers_table(tables, self.eps))),
            "heads": _rows(self._joined(heads_table)),
            "cross": _rows(self._joined(lambda tables: tables.cross)),
            "activations": _rows(self._joined(lambda tables: tables.activations)),
            "comparisons": self._comparisons(),
            "kv_cache": self._kv_cache(),
            **self.parts,
            "notes": self.notes,
            "conclusions": self.recommendations(),
        }
        return to_json(document)

    def write_tables(self, folder: Path, format: str = "csv") -> list[Path]:
        """Write tables, sinks.json and report.json; return their paths. Files of an earlier probe are removed."""
        tables = self.tables()
        for name in (*(f"{table}.{kind}" for table in TABLES for kind in FORMATS), PATTERNS):
            (folder / name).unlink(missing_ok=True)
        written = [write_table(t, folder / f"{name}.{format}") for name, t in tables.items() if len(t)]
        document = self.document()
        about = {key: document[key] for key in ("model", "text", "settings", "interrupted")}
        sinks = {"schema": f"softmaxlab.sinks/{SCHEMA}"} | about | document["kv_cache"]
        if self.patterns:
            patterns = {name: weights.tolist() for name, weights in self.patterns.items()}
            written.append(_write_json(folder / PATTERNS, {"tokens": self.pattern_tokens, "patterns": patterns}))
        return [*written, _write_json(folder / SINKS, sinks), _write_json(folder / DOCUMENT, document)]

    def _joined(self, table_of: Callable[[HeadTables], pandas.DataFrame]) -> pandas.DataFrame:
        """A table of all subjects; with one subject just its own."""
        if len(self.subjects) == 1:
            return table_of(self.subjects[0].tables)
        parts = [(subject.label, table_of(subject.tables)) for subject in self.subjects]
        parts = [part.assign(subject=label) for label, part in parts if len(part)]
        if not parts:
            return pandas.DataFrame()
        joined: Any = pandas.concat(parts, ignore_index=True)
        return joined[["subject", *(name for name in joined.columns if name != "subject")]]

    def _comparisons(self) -> list[dict[str, Any]]:
        """Every later subject against the first: means over heads, their difference and its standard error."""
        first = self.subjects[0].tables.heads
        pairs = [(subject.label, compare_tables(first, subject.tables.heads)) for subject in self.subjects[1:]]
        return [
            {"subject": label, "summary": _rows(pair.summary), "layers": _rows(pair.layers)} for label, pair in pairs
        ]

    def _kv_cache(self) -> dict[str, Any]:
        """Return the keys that a cache should keep: positions for all heads, and every sink key by layer and head."""
        tables = self.subjects[0].tables
        if tables.profile.empty:
            return {"known": False, "keep_positions": [], "heads_of_position": {}, "sinks": []}
        kept = kept_positions(tables.sinks)
        rows = tables.sinks.to_dict("records")
        sinks = [row | {"text": self.token_text(row["token"]) if row["token"] >= 0 else None} for row in rows]
        return {"known": True, "keep_positions": list(kept), "heads_of_position": kept, "sinks": sinks}


def short_label(label: str) -> str:
    """A subject's label without the path in front of a folder's name, at most LABEL_LENGTH characters."""
    name = label.rstrip("/").rsplit("/", 1)[-1]
    return name if len(name) <= LABEL_LENGTH else f"{name[: LABEL_LENGTH - 1]}…"


def check_output(folder: Path | None, format: str = "csv") -> None:
    """Refuse a folder or format that a probe could not be written to, before any work."""
    if format not in FORMATS:
        raise unknown("--format", format, FORMATS)
    check_table(f"{TABLES[0]}.{format}")
    if folder is None:
        return
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise SpecError(f"--out {str(folder)!r}: {existing} is a file, expected a folder")
    if not os.access(existing, os.W_OK):
        raise SpecError(f"--out {str(folder)!r}: {existing} cannot be written to")
    if name := _foreign_file(folder):
        raise SpecError(f"--out {str(folder)!r}: {name} is there and is of no probe, give another folder")


def to_json(value: Any) -> Any:
    """Turn a value into what JSON has: NaN and ∞ become null."""
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _foreign_file(folder: Path) -> str:
    """A file with a name that a probe writes, in a folder without a probe's document; empty if there is none."""
    try:
        is_probe = json.loads((folder / DOCUMENT).read_text("utf-8"))["schema"].startswith("softmaxlab.probe/")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_probe = False
    if is_probe:
        return ""
    tables = (f"{table}.{kind}" for table in TABLES for kind in FORMATS)
    names = (*tables, PATTERNS, SINKS, DOCUMENT, PAGE, *(f"{picture}.png" for picture in PICTURES))
    return next((name for name in names if (folder / name).exists()), "")


def _thinned(profile: Any) -> pandas.DataFrame:
    """A profile of at most PROFILE_ROWS rows: 5120 heads at 8192 positions would be gigabytes."""
    if len(profile) <= PROFILE_ROWS:
        return profile
    T = int(profile["position"].max()) + 1
    count = max(2, PROFILE_ROWS * T // len(profile))
    kept = np.unique(np.geomspace(1, T, count).round().astype(int)) - 1
    return profile[profile["position"].isin(kept)]


def _rows(table: pandas.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def _write_json(path: Path, document: dict[str, Any]) -> Path:
    with atomic(path) as draft:
        draft.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
