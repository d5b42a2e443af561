"""One attempt at a run, in whatever process: a result in the store, or a record of why there is none.

Results and failures lie in files that appear whole or not at all, so a run may be started twice, anywhere, and counts
once. A failure is `<store>/failures/<key>.json`: spec, reason, attempts so far, host, and a traceback if there is one.
"""

import json
import logging
import socket
import traceback
from pathlib import Path
from typing import Any

from softmaxlab.core.documents import parse_json
from softmaxlab.core.files import atomic, remove_abandoned
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import from_json
from softmaxlab.errors import SpecError, UserCodeError
from softmaxlab.training.run import Run, prepare

FOLDER = "failures"
READ = {"attempts": int, "reason": str}  # of a record
log = logging.getLogger(__name__)


def run_one(key: str, spec: str, store: str, device: str) -> None:
    """Simulate a spec, given as JSON, into the store; if that fails, say why in a record."""
    try:
        built = from_json(spec)
        if built.key != key:
            raise SpecError(f"the code behind {built.kind} is not what it was when the sweep began, start it again")
        if isinstance(built, Run):
            prepare()
        simulate(built, store=store, device=device)
    except (Exception, SystemExit) as error:  # a run is also the user's code: it may do anything
        named = str(error) if isinstance(error, UserCodeError) else f"{type(error).__name__}: {error}"
        reason, trace = " ".join(named.split()), traceback.format_exc()
    else:
        failure_file(store, key).unlink(missing_ok=True)
        return
    record_failure(key, spec, store, reason, trace=trace)  # out here, where what the run held in memory is let go


def record_failure(key: str, spec: str, store: str, reason: str, attempts: int = 1, trace: str | None = None) -> None:
    """Write why a run has no result; `attempts` are added to those of earlier records."""
    before = failure(store, key)
    record = {
        "key": key,
        "spec": json.loads(spec),
        "reason": reason,
        "attempts": attempts + (before["attempts"] if before else 0),
        "host": socket.gethostname(),
        "traceback": trace,
    }
    file = failure_file(store, key)
    with atomic(file) as draft:
        draft.write_text(json.dumps(record, indent=1))
    remove_abandoned(file.parent)


def failure(store: str | Path, key: str) -> dict[str, Any] | None:
    """The record of a failed run, if there is one that can be read."""
    file = failure_file(store, key)
    try:
        record = parse_json(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        return None
    except ValueError as error:  # also what is no text, or nested too deeply
        log.warning("%s is damaged and counts as absent: %s", file, error)
        return None
    if isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in READ.items()):
        return record
    log.warning("%s is damaged and counts as absent: it lacks %s", file, ", ".join(READ))
    return None


def failure_file(store: str | Path, key: str) -> Path:
    return Path(store) / FOLDER / f"{key}.json"
