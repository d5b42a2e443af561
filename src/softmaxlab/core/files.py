"""One result on disk: a folder with `result.nc` (the arrays) and `result.json` (all else, and a checksum).

The folder is written under a temporary name, flushed to the disk and renamed, so a folder that can be seen is whole.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from softmaxlab.errors import DamagedError, StoreError

DATA, RECORD = "result.nc", "result.json"
DRAFT = ".writing-"  # then process id, a random tail, and the host
FORMAT = 1


def write_folder(folder: Path, data: Any, record: dict[str, Any]) -> bool:
    """Write a result's arrays (a netCDF file) and its record into `folder` unless it exists; return whether it did.

    Of two writers at once the first one stays.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder.parent) as draft:
            (draft / DATA).write_bytes(data)
            _write_record(record, draft)
            _flush(draft)
            try:
                os.rename(draft, folder)
            except OSError:
                if folder.is_dir():
                    return False
                raise
            _flush(folder.parent)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error}") from error
    return True


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a result is read into an error that names its folder."""
    if not folder.exists():
        raise StoreError(f"there is no result at {folder}")
    try:
        yield
    except PermissionError as error:
        raise StoreError(f"{folder} cannot be read: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{folder} cannot be read: {error}") from error


def read_record(folder: Path, key: str | None = None) -> dict[str, Any]:
    """The record of a folder, checked against its checksum and, if given, the key it was filed under."""
    record = json.loads((folder / RECORD).read_text())
    if record["format"] != FORMAT:
        raise StoreError(f"{folder} has format {record['format']}, this softmaxlab reads {FORMAT}")
    if record.pop("sha256") != _checksum(folder / DATA, record):
        raise DamagedError(f"{folder} is damaged: it does not match its checksum")
    if key is not None and record["key"] != key:
        raise DamagedError(f"{folder} holds the result of another key, {record['key']}")
    return record


def read_arrays(folder: Path) -> dict[str, Any]:
    """The arrays of a folder and their axes, by these names."""
    import h5netcdf  # xarray takes several times as long, which counts when a sweep reads thousands

    with h5netcdf.File(folder / DATA, "r", decode_vlen_strings=True) as file:
        arrays = {name: _numpy(variable[...], dict(variable.attrs)) for name, variable in file.variables.items()}
        return {"arrays": arrays, "axes": {name: variable.dimensions for name, variable in file.variables.items()}}


def check_writable(path: Path, what: str, is_file: bool = False) -> None:
    """Refuse a folder, or a file, that could not be written, before the work of filling it: try where it would be."""
    try:
        nearest = next(each for each in (path, *path.absolute().parents) if _is_there(each))
        if is_file and nearest == path:
            nearest = path.parent
        if not nearest.is_dir():
            raise StoreError(f"{what} cannot be written: {nearest} is a file, expected a folder")
        with draft_folder(nearest):
            pass
    except OSError as error:
        raise StoreError(f"{what} cannot be written: {error.strerror or error}") from error


def remove_abandoned(root: Path) -> None:
    """Delete drafts of writers on this host that are no longer alive."""
    pattern = re.compile(rf"{re.escape(DRAFT)}(\d+)-[^@]*@{re.escape(socket.gethostname())}")
    for draft in root.glob(f"{DRAFT}*"):
        if (match := pattern.fullmatch(draft.name)) and not _alive(int(match[1])):
            shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it takes the place of `path` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(path.parent) as draft:
        yield draft / path.name
        _flush(draft / path.name)
        os.replace(draft / path.name, path)


@contextlib.contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """A new hidden folder, open to the same people as any other, gone at the end unless renamed."""
    tail = f"@{socket.gethostname()}"
    draft = Path(tempfile.mkdtemp(prefix=f"{DRAFT}{os.getpid()}-", suffix=tail, dir=parent))
    umask = os.umask(0)
    os.umask(umask)
    try:
        draft.chmod(0o777 & ~umask)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _is_there(path: Path) -> bool:
    """Whether there is such a file or folder; OSError if there can be none."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):  # the second: below a file
        return False
    return True


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _numpy(values: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """Restore the type that was written: netCDF has words as objects and truth values as numbers."""
    values = np.asarray(values)
    if values.dtype == object:
        return values.astype(np.str_)
    return values.astype(bool) if attributes.get("dtype") == "bool" else values


def _write_record(record: dict[str, Any], folder: Path) -> None:
    record = {"format": FORMAT} | record
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
