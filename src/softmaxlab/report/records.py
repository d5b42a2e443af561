"""The records that a reproduction keeps between runs: one beside each figure's page, one in the store for each claim.

A record holds the digest of the code it was made by, so that nothing is shown that other code has computed. A probe has
a digest of its own, which also holds the files that draw it and the version of transformers.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import softmaxlab
from softmaxlab.core.files import atomic
from softmaxlab.core.simulate import RECORDED
from softmaxlab.papers.claim import Check, Claim, stored
from softmaxlab.papers.evidence import Finding, Level, Verdict
from softmaxlab.papers.records import Record as StoredFinding

SHOWING = ("report", "cli", "app")  # folders that only show what others compute
SOURCES = (".py", ".csv", ".json")
PROBING = ("report/probe_*.py", "report/render.py", "report/templates/probe.html")  # what shows a probe


@cache
def code_digest() -> str:
    """Return the digest of everything that computes or draws figures and claims, versions of libraries included."""
    return _digest(_computing(), RECORDED)


@cache
def probe_digest() -> str:
    """Return the same for a probe: with the files that only it uses, and transformers."""
    own = [path for pattern in PROBING for path in _root().glob(pattern)]
    return _digest([*_computing(), *own], (*RECORDED, "transformers"))


def _root() -> Path:
    return Path(softmaxlab.__file__).parent


def _computing() -> list[Path]:
    files = [path for path in _root().rglob("*") if path.suffix in SOURCES]
    return [path for path in files if path.relative_to(_root()).parts[0] not in SHOWING]


def _digest(paths: Iterable[Path], libraries: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps({name: installed(name) for name in libraries}).encode())
    for path in sorted(paths):
        digest.update(str(path.relative_to(_root())).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def installed(library: str) -> str:
    """Return the version of a library."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


@dataclasses.dataclass(frozen=True)
class FigureRecord:
    """A figure, computed and drawn, or what went wrong."""

    id: str
    key: str
    digest: str
    ok: bool
    status: str
    spec: dict[str, Any]
    heading: str = ""  # what the picture says of itself: its runs, its settings
    seen: str = ""  # what its arrays show, in words and numbers
    arrays: list[list[str]] = dataclasses.field(default_factory=list)  # name, axes, type
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)
    cpu: float = 0.0  # processor seconds
    error: str = ""  # the traceback of what was raised

    @property
    def from_tables(self) -> bool:
        """Whether runs made earlier are shown: only such figures have the digest of what they read in their spec."""
        return bool(self.spec.get("digest"))


@dataclasses.dataclass(frozen=True)
class ClaimRecord:
    """A claim's findings on its subject and on its control, or what went wrong."""

    id: str
    digest: str
    verdict: str = ""
    measured: str = ""
    lacking: str = ""  # what the finding lacks for any verdict
    control_verdict: str = ""
    control_measured: str = ""
    made: dict[Level, dict[str, Any]] = dataclasses.field(default_factory=dict)  # findings of a live claim by level
    cpu: float = 0.0
    error: str = ""

    def check(self, claim: Claim) -> Check | None:
        """Return the check that the record describes; None if the claim could not be judged."""
        if self.error:
            return None
        finding = Finding(Verdict(self.verdict), self.measured, self.lacking)
        control = Finding(Verdict(self.control_verdict), self.control_measured)
        made: dict[Level, StoredFinding] = {level: StoredFinding(**fields) for level, fields in self.made.items()}
        return Check(claim, finding, control, made if claim.live else stored(claim))


@dataclasses.dataclass(frozen=True)
class ProbeRecord:
    """A real model's heads, measured into the folder `name` of the store; or what is missing, or what went wrong."""

    name: str
    command: str
    digest: str
    captions: dict[str, str] = dataclasses.field(default_factory=dict)  # of its pictures, by name
    missing: str = ""
    error: str = ""


Record = TypeVar("Record", FigureRecord, ClaimRecord, ProbeRecord)


def write(record: FigureRecord | ClaimRecord | ProbeRecord, path: Path) -> None:
    with atomic(path) as draft:
        draft.write_text(json.dumps(dataclasses.asdict(record), indent=1, ensure_ascii=False), encoding="utf-8")


def read(kind: type[Record], path: Path) -> Record | None:
    """Return a record of this very code; None if there is none, or a damaged one, or one of a failure."""
    try:
        record = kind(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    digest = probe_digest() if kind is ProbeRecord else code_digest()
    return record if record.digest == digest and not record.error else None
