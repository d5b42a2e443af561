"""One result on disk: a folder with `result.nc` (the arrays) and `result.json` (all else, and a checksum).

The folder is written under a temporary name, flushed to the disk and renamed, so a folder that can be seen is whole.
"""

import contextlib
import hashlib
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import from_plain
from softmaxlab.errors import StoreError

DATA, RECORD = "result.nc", "result.json"
TEMPORARY = ".writing-"  # then host, process id, and a random tail
FORMAT = 1


def write_result(result: Result, folder: Path) -> Path:
    """Write into `folder`, which must not exist yet. If another writer is there first, its result stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{_host_prefix()}{os.getpid()}-", dir=folder.parent))
    try:
        _write_arrays(result, draft / DATA)
        _write_record(result, draft)
        _flush(draft)
        try:
            os.rename(draft, folder)
        except OSError as error:
            if not folder.is_dir():
                raise StoreError(f"cannot write {folder}: {error}") from error
        _flush(folder.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def read_result(folder: Path) -> Result:
    """Read a folder back, checking it against its checksum."""
    try:
        record = json.loads((folder / RECORD).read_text())
        if record.pop("sha256") != _checksum(folder / DATA, record):
            raise StoreError(f"{folder} is damaged: it does not match its checksum")
        if record["format"] != FORMAT:
            raise StoreError(f"{folder} has format {record['format']}, this softmaxlab reads {FORMAT}")
        return Result(
            **_read_arrays(folder / DATA),
            status=Status(Outcome(record["status"][0]), record["status"][1]),
            notes=record["notes"],
            spec=from_plain(record["spec"]) if record["spec"] else None,
            provenance=record["provenance"],
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(f"{folder} cannot be read: {error}") from error


def remove_abandoned(root: Path) -> None:
    """Delete drafts of writers on this host that are no longer alive."""
    for draft in root.glob(f"{_host_prefix()}*"):
        if not _alive(int(draft.name.removeprefix(_host_prefix()).split("-")[0])):
            shutil.rmtree(draft, ignore_errors=True)


def set_aside(folder: Path) -> None:
    """Delete a damaged result: rename, then remove, so that a reader never meets half a deletion."""
    aside = Path(tempfile.mkdtemp(prefix=f"{_host_prefix()}{os.getpid()}-", dir=folder.parent))
    with contextlib.suppress(FileNotFoundError):  # another writer was faster
        os.rename(folder, aside / folder.name)
    shutil.rmtree(aside, ignore_errors=True)


def _host_prefix() -> str:
    return f"{TEMPORARY}{socket.gethostname()}-"


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _write_arrays(result: Result, path: Path) -> None:
    result.to_xarray().to_netcdf(path, engine="h5netcdf")


def _read_arrays(path: Path) -> dict[str, Any]:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf", decode_times=False) as data:
        variables = {str(name): data[name].load() for name in data.variables}
    arrays = {name: _numpy(value.values) for name, value in variables.items()}
    return {"arrays": arrays, "axes": {name: value.dims for name, value in variables.items()}}


def _numpy(values: np.ndarray) -> np.ndarray:
    return values.astype(np.str_) if values.dtype == object else values


def _write_record(result: Result, folder: Path) -> None:
    record = {
        "format": FORMAT,
        "spec": result.spec.plain() if result.spec else None,
        "status": [result.status.outcome, result.status.sentence],
        "notes": dict(result.notes),
        "provenance": dict(result.provenance),
    }
    record["sha256"] = _checksum(folder / DATA, record)
    (folder / RECORD).write_text(json.dumps(record, indent=1))
    _flush(folder / DATA)
    _flush(folder / RECORD)


def _checksum(data: Path, record: dict) -> str:
    text = json.dumps(record, sort_keys=True).encode()
    return hashlib.sha256(data.read_bytes() + text).hexdigest()


def _flush(path: Path) -> None:
    """Ask the system to put a file or folder on the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
