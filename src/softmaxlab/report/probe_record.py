"""What a probe found, as one JSON document and as files.

Files in the folder of a probe: report.json (the document), heads, cross (encoder–decoders), activations and profile as
.csv or .parquet, sinks.json for policies of KV caches, patterns.json (heads that were asked for), one picture each, and
index.html, which holds all of it.
Of several models, or a model and its changes, the tables have a first column `subject`.
"""

import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from softmaxlab.core.files import atomic
from softmaxlab.probing.compare import compare_tables
from softmaxlab.probing.conclusions import DORMANT, conclusions, kept_positions
from softmaxlab.probing.definitions import DEFINITIONS, PAPER_EPS
from softmaxlab.training.table import write_table

if TYPE_CHECKING:
    from softmaxlab.probing.changes.loss import Change, Loss
    from softmaxlab.probing.probe import Findings

SCHEMA = 1
PROFILE_ROWS = 10**6  # of a profile's file; a longer one keeps log-spaced positions, all of the first ones
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
FORMATS = ("csv", "parquet")
PATTERNS = "patterns.json"
TABLES = ("heads", "cross", "activations", "profile")
PICTURES = ("sink", "sparsity", "entropy", "activations", "profile", "attention")
OTHERS = (PATTERNS, "sinks.json", "report.json", "index.html")
PACKAGES = ("softmaxlab", "torch", "transformers", "tokenizers", "numpy", "pandas")


@dataclass(frozen=True)
class Subject:
    """A model, or a change of it, as it was measured; `change` is that of the loss against the first subject."""

    label: str
    found: "Findings"
    loss: "Loss | None" = None
    change: "Change | None" = None


@dataclass
class Record:
    """All that one probe found; it grows while the probe runs, so that Ctrl-C leaves what there is."""

    model: dict[str, Any]
    text: dict[str, Any]
    settings: dict[str, Any]
    token: Callable[[int], str]
    subjects: list[Subject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what could not be said, and why
    parts: dict[str, Any] = field(default_factory=dict)  # check, mitigation, pruning, similarity: plain values
    patterns: dict[str, np.ndarray] = field(default_factory=dict)  # "layer.head" → weights [query, key]
    pattern_tokens: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def eps(self) -> float:
        return self.settings["eps"]

    @property
    def about(self) -> str:
        """What was measured, for titles."""
        return f"{short(self.model['name'])} on {self.text['amount'].rstrip(',')} of {Path(self.text['name']).name}"

    def closing(self) -> list[str]:
        """The three lines that say what to do, of the first subject; an encoder has no cache to keep."""
        lines = conclusions(self.subjects[0].found, self.token)
        return lines if "causal" in self.text["uniform_sink"] else lines[1:]


def heads_table(found: "Findings") -> pandas.DataFrame:
    """Every head, and whether it is dormant; None where its output is not known."""
    heads: Any = found.heads
    is_dormant = (heads["sink"] > found.eps) & (heads["sink_output"] > DORMANT)
    place = list(heads.columns).index("queries") if "queries" in heads else len(heads.columns)
    table = heads.copy()
    table.insert(place, "dormant", is_dormant.astype(object).where(heads["sink_output"].notna(), None))
    return table


def short(label: str) -> str:
    """A subject's label without the path in front of a folder's name."""
    name = label.rstrip("/").rsplit("/", 1)[-1]
    return name if len(name) <= 28 else f"{name[:27]}…"


def layers_table(found: "Findings", eps: float) -> pandas.DataFrame:
    """One row per layer: means over its heads, and how many of them are sinks."""
    heads: Any = found.heads
    means = heads.drop(columns=["head", "module"]).groupby("layer").mean()
    grouped = heads.groupby("layer")["sink"]
    table = means.assign(heads=grouped.size())
    for name, bound in thresholds(eps).items():
        table[name] = grouped.agg(lambda sink, bound=bound: int((sink > bound).sum()))
    table["top"] = found.activations.set_index("layer")["top"].reindex(table.index)
    return table.reset_index()


def thresholds(eps: float) -> dict[str, float]:
    """The columns that count sink heads: at ε, and at the paper's threshold."""
    return {f"sink>{bound:g}": bound for bound in (eps, PAPER_EPS)}


def summary(subject: Subject, eps: float) -> dict[str, Any]:
    """A subject in one row."""
    heads: Any = subject.found.heads
    top = subject.found.activations["top"]
    row: dict[str, Any] = {"subject": subject.label, "heads": len(heads)}
    row |= {name: heads[name].mean() for name in ("sink", "sparsity", "entropy", "total") if name in heads}
    row |= {"share_above_eps": (heads["sink"] > eps).mean(), "share_above_0.9": (heads["sink"] > PAPER_EPS).mean()}
    row |= {"sink_sequences": heads["sink_sequences"].mean(), "top": top.max() if len(top) else math.nan}
    row |= {"sink_quantiles": {f"{q:g}": heads["sink"].quantile(q) for q in QUANTILES}}
    loss, change = subject.loss, subject.change
    row["loss"] = None if loss is None else {"mean": loss.mean, "se": loss.se, "sequences": len(loss.n)}
    row["loss_change"] = None if change is None else {"mean": change.mean, "se": change.se, "said": str(change)}
    return row


def definitions(eps: float) -> dict[str, str]:
    """What the columns of all tables mean."""
    counts = {name: f"heads with a sink score above {bound:g}" for name, bound in thresholds(eps).items()}
    own = {
        "ε": f"mean weight above which a key is called a sink, here {eps:g}",
        **counts,
        "dormant": f"sink above ε and sink_output above {DORMANT:g}: the head gives mostly the first token's value",
        "top": "largest |h| of the hidden state after the layer, at the given position and dimension",
        "loss": "−log p of the next token in nats, mean over tokens; its error takes sequences as independent",
        "Δloss": "loss of a change minus that of the model as it is, paired over the same sequences",
    }
    return {**DEFINITIONS, **own}


def document(record: Record) -> dict[str, Any]:
    """The JSON document: plain values only, NaN as null."""
    found = record.subjects[0].found
    told = {
        "schema": f"softmaxlab.probe/{SCHEMA}",
        "interrupted": record.interrupted,
        "model": record.model,
        "text": record.text,
        "settings": record.settings,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "definitions": definitions(record.eps),
        "subjects": [summary(subject, record.eps) for subject in record.subjects],
        "layers": _rows(_joined(record, lambda found: layers_table(found, record.eps))),
        "heads": _rows(_joined(record, heads_table)),
        "cross": _rows(_joined(record, lambda found: found.cross)),
        "activations": _rows(_joined(record, lambda found: found.activations)),
        "comparisons": _comparisons(record),
        "kv_cache": _sinks(record, found),
        **record.parts,
        "notes": record.notes,
        "conclusions": record.closing(),
    }
    return plain(told)


def foreign(folder: Path) -> str:
    """A file with a name that a probe writes, in a folder without a probe's document; empty if there is none."""
    try:
        ours = json.loads((folder / "report.json").read_text("utf-8"))["schema"].startswith("softmaxlab.probe/")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        ours = False
    names = (*(f"{table}.{kind}" for table in TABLES for kind in FORMATS), *OTHERS, *(f"{one}.png" for one in PICTURES))
    return next((name for name in names if (folder / name).exists()), "") if not ours else ""


def write_files(record: Record, folder: Path, format: str) -> list[Path]:
    """Tables, sinks.json and report.json; the paths written. What an earlier probe wrote beside them is removed."""
    tables = {
        "heads": _joined(record, heads_table),
        "cross": _joined(record, lambda found: found.cross),
        "activations": _joined(record, lambda found: found.activations),
        "profile": _thinned(_joined(record, lambda found: found.profile)),
    }
    for name in (*(f"{table}.{kind}" for table in tables for kind in FORMATS), PATTERNS):
        (folder / name).unlink(missing_ok=True)
    written = [write_table(t, folder / f"{name}.{format}") for name, t in tables.items() if len(t)]
    told = document(record)
    about = {key: told[key] for key in ("model", "text", "settings", "interrupted")}
    sinks = {"schema": f"softmaxlab.sinks/{SCHEMA}"} | about | told["kv_cache"]
    if record.patterns:
        patterns = {name: w.tolist() for name, w in record.patterns.items()}
        written.append(_write_json(folder / PATTERNS, {"tokens": record.pattern_tokens, "patterns": patterns}))
    return [*written, _write_json(folder / "sinks.json", sinks), _write_json(folder / "report.json", told)]


def plain(value: Any) -> Any:
    """Values that JSON has: NaN and ∞ become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _joined(record: Record, table: Callable[["Findings"], pandas.DataFrame]) -> pandas.DataFrame:
    """A table of all subjects; of one subject just its own."""
    if len(record.subjects) == 1:
        return table(record.subjects[0].found)
    parts = [(subject.label, table(subject.found)) for subject in record.subjects]
    parts = [part.assign(subject=label) for label, part in parts if len(part)]
    if not parts:
        return pandas.DataFrame()
    joined: Any = pandas.concat(parts, ignore_index=True)
    return joined[["subject", *(name for name in joined.columns if name != "subject")]]


def _thinned(profile: Any) -> pandas.DataFrame:
    """A profile of at most PROFILE_ROWS rows: 5120 heads at 8192 positions would be gigabytes."""
    if len(profile) <= PROFILE_ROWS:
        return profile
    T = int(profile["position"].max()) + 1
    count = max(2, PROFILE_ROWS * T // len(profile))
    kept = np.unique(np.geomspace(1, T, count).round().astype(int)) - 1
    return profile[profile["position"].isin(kept)]


def _comparisons(record: Record) -> list[dict[str, Any]]:
    """Every later subject against the first: means over heads, their difference and its standard error."""
    first = record.subjects[0].found.heads
    pairs = [(subject.label, compare_tables(first, subject.found.heads)) for subject in record.subjects[1:]]
    return [{"subject": label, "summary": _rows(pair.summary), "layers": _rows(pair.layers)} for label, pair in pairs]


def _sinks(record: Record, found: "Findings") -> dict[str, Any]:
    """Which keys a cache should keep: positions for all heads, and every key by layer and head."""
    if found.profile.empty:
        return {"known": False, "keep_positions": [], "heads_of_position": {}, "sinks": []}
    kept = kept_positions(found.sinks)
    rows = found.sinks.to_dict("records")
    named = [row | {"text": record.token(row["token"]) if row["token"] >= 0 else None} for row in rows]
    return {"known": True, "keep_positions": list(kept), "heads_of_position": kept, "sinks": named}


def _rows(table: pandas.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def _write_json(path: Path, told: dict[str, Any]) -> Path:
    with atomic(path) as draft:
        draft.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
