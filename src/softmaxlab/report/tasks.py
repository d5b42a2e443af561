"""The pieces of work of a reproduction. Each runs in a process of its own and never raises: an error is its result."""

import contextlib
import dataclasses
import shutil
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from softmaxlab.core.files import DATA, atomic
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.store import Store
from softmaxlab.errors import MissingExtra
from softmaxlab.papers.claim import Claim, check
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.plotting.journal import save
from softmaxlab.report import records
from softmaxlab.report.records import ClaimRecord, FigureRecord, ProbeRecord, code_digest, probe_digest

if TYPE_CHECKING:
    import matplotlib.figure

THUMBNAIL = 400  # pixels across
DOCUMENT = "report.json"  # of a probe: what its page is made from


@dataclasses.dataclass(frozen=True)
class Probe:
    """The probe of a real model: a name, the command that makes it again, and `write(folder)`, which makes it."""

    name: str
    command: str
    write: Callable[[Path], object]


def write_demo_probe(folder: Path) -> None:
    """Probe the demo model and write every file of the probe to a folder."""
    from softmaxlab.probing.session import ProbeOptions, ProbeSession  # slow, and of use only where a model is measured
    from softmaxlab.report.probe_files import write_probe

    write_probe(ProbeSession(ProbeOptions(DEMO, length=LENGTH, samples=SAMPLES)).run(), folder)


DEMO, LENGTH, SAMPLES = "smollm2", 256, 1
DEMO_PROBE = Probe(
    DEMO, f"softmaxlab probe {DEMO} --length {LENGTH} --samples {SAMPLES} --out probed", write_demo_probe
)


def drawn_already(spec: FigureSpec, out: str, path: Path) -> FigureRecord | None:
    """Return the record of a figure whose data and pictures are there; None if any is missing or of other code."""
    record = records.read(FigureRecord, path.with_name(f"{path.name}.json"))
    files = [Store(out).folder(spec.key), *(path.with_name(f"{path.name}.{kind}") for kind in ("svg", "png", "nc"))]
    return record if record and record.key == spec.key and all(file.exists() for file in files) else None


def draw(spec: FigureSpec, out: str, path: Path) -> FigureRecord:
    """Draw a figure: data into the store `out`; picture, thumbnail, data and record to `path` with their suffixes."""
    record = path.with_name(f"{path.name}.json")
    try:
        drawn = _drawn(spec, Store(out), path)
        records.write(drawn, record)
    except Exception:  # whatever a figure raises belongs on its page, and must not stop the others
        error = traceback.format_exc()
        drawn = FigureRecord(
            spec.id, spec.key, code_digest(), False, "failed: it raised an error", spec.plain(), error=error
        )
        with contextlib.suppress(OSError):  # so that no older record hides it; what cannot be written hides nothing
            records.write(drawn, record)
    return drawn


def _drawn(spec: FigureSpec, store: Store, path: Path) -> FigureRecord:
    began = time.process_time()
    result = simulate(spec)  # never from the store, whose arrays may be of other code
    _put_anew(result, store, spec.key)
    figure = spec.draw(result)
    heading = " ".join(figure.get_suptitle().split())
    save(figure, path, "svg")
    _save_thumbnail(figure, path)
    with atomic(path.with_name(f"{path.name}.nc")) as copy:
        copy.write_bytes((store.folder(spec.key) / DATA).read_bytes())
    return FigureRecord(
        spec.id, spec.key, code_digest(), result.status.ok, str(result.status), spec.plain(), heading,
        arrays=[list(described) for described in result._rows()], notes=dict(result.notes),
        provenance=dict(result.provenance), seen=spec.seen(result), cpu=time.process_time() - began,
    )  # fmt: skip


def _put_anew(result: Result, store: Store, key: str) -> None:
    """Store a result in the place of what is there: `put` alone leaves a whole entry as it is."""
    if store.folder(key).exists():
        shutil.rmtree(store.folder(key))
    store.put(result)


def _save_thumbnail(figure: "matplotlib.figure.Figure", path: Path) -> None:
    with atomic(path.with_name(f"{path.name}.png")) as draft:
        figure.savefig(draft, format="png", dpi=THUMBNAIL / figure.get_size_inches()[0])


def claim_record(claim: Claim, out: str) -> Path:
    return Path(out) / "claims" / f"{claim.id}.json"


def judge(claim: Claim, out: str) -> ClaimRecord:
    """Judge a claim on its subject and its control; the record goes into the store's folder."""
    began = time.process_time()
    try:
        done = check(claim)
        record = ClaimRecord(
            claim.id,
            code_digest(),
            verdict=str(done.finding.verdict),
            measured=done.finding.measured,
            lacking=done.finding.lacking,
            control_verdict=str(done.control.verdict),
            control_measured=done.control.measured,
            made={level: dataclasses.asdict(finding) for level, finding in done.stored.items() if claim.live},
            cpu=time.process_time() - began,
        )
        records.write(record, claim_record(claim, out))
    except Exception:
        return ClaimRecord(claim.id, code_digest(), error=traceback.format_exc())
    return record


def probe_record(probe: Probe, out: str) -> Path:
    return Path(out) / "probe" / f"{probe.name}.json"


def probed_already(probe: Probe, out: str) -> ProbeRecord | None:
    """Return the record of this very probe; None if files are missing, or of other code or settings."""
    path = probe_record(probe, out)
    record = records.read(ProbeRecord, path)
    there = (path.with_suffix("") / DOCUMENT).is_file()
    return record if record and record.command == probe.command and there else None


def measure(probe: Probe, out: str) -> ProbeRecord:
    """Write a probe into the store's folder; one that cannot be made here is tried again next time."""
    path = probe_record(probe, out)
    try:
        from softmaxlab.report.probe_pictures import CAPTIONS

        record = ProbeRecord(probe.name, probe.command, probe_digest(), CAPTIONS)
        path.unlink(missing_ok=True)  # it is not of the files that are written now
        try:
            probe.write(path.with_suffix(""))
        except MissingExtra as error:  # `hf` or `demo`; whatever else goes wrong is a failure
            return dataclasses.replace(record, missing=str(error))
        records.write(record, path)
    except Exception:
        return ProbeRecord(probe.name, probe.command, probe_digest(), error=traceback.format_exc())
    return record
