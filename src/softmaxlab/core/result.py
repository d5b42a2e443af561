"""Results: arrays with named axes, a status that carries a sentence, and the spec that made them."""

import enum
import html
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core import files
from softmaxlab.core.spec import Spec, from_plain
from softmaxlab.errors import SpecError, StoreError, unknown

if TYPE_CHECKING:
    import pandas
    import xarray


STORABLE = "biufSU"  # kinds of NumPy's dtypes that a netCDF file holds as they are
RENAMED = {"scores": "weights"}  # last words of arrays' names, understood with a warning until version 0.2
RENAMED_IN = ("polarization.", "papers.polarization.")  # kinds of specs whose stored results may have an old name


class Outcome(enum.StrEnum):
    """The ways in which a run ends."""

    DONE = "done"
    DIVERGED = "diverged"
    SINGULAR = "singular"
    LIMIT = "limit reached"
    FAILED = "failed"


@dataclass(frozen=True)
class Status:
    """An outcome and a sentence that says what happened and what to change."""

    outcome: Outcome = Outcome.DONE
    sentence: str = "finished"

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.DONE

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"


@dataclass(frozen=True, eq=False)
class Result:
    """The arrays of a simulation: `result["a"]` is an array whose axes are `result.axes["a"]`.

    An array named like its only axis labels that axis. `notes` holds small facts of the run (solver, evaluations),
    `provenance` what it ran on.
    """

    arrays: Mapping[str, Any]  # array-like when given, NumPy arrays ever after
    axes: Mapping[str, tuple[str, ...]]
    status: Status = Status()
    notes: Mapping[str, Any] = field(default_factory=dict)
    spec: Spec | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        arrays = {name: _read_only(value) for name, value in self.arrays.items()}
        axes = {name: tuple(self.axes.get(name, ())) for name in arrays}
        if extra := self.axes.keys() - arrays.keys():
            raise unknown("array in axes", extra.pop(), arrays)
        _check_axes(arrays, axes)
        _check_storable(arrays, axes, self.notes)
        object.__setattr__(self, "arrays", MappingProxyType(arrays))
        object.__setattr__(self, "axes", MappingProxyType(axes))

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.arrays and (new := _new_name(name)) in self.arrays:
            warnings.warn(f"array {name!r} is now {new!r}; the old name ends with 0.2", FutureWarning, stacklevel=2)
            name = new
        try:
            return self.arrays[name]
        except KeyError:
            raise unknown("array", name, self.arrays) from None

    def __contains__(self, name: object) -> bool:
        return name in self.arrays or (isinstance(name, str) and _new_name(name) in self.arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def _rows(self) -> list[tuple[str, str, str]]:
        """Name, axes with sizes, dtype: one row per array."""
        return [
            (name, ", ".join(f"{a}: {n}" for a, n in zip(self.axes[name], x.shape)), str(x.dtype))
            for name, x in self.arrays.items()
        ]

    def __repr__(self) -> str:
        kind = self.spec.kind if self.spec else "no spec"
        body = "".join(f"\n  {name} [{axes}]" for name, axes, _ in self._rows())
        return f"<Result of {kind}, {self.status}>{body}"

    def _repr_html_(self) -> str:
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self._rows())
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        kind = self.spec.kind if self.spec else "no spec"
        return f"<p>Result of <code>{kind}</code>, {html.escape(str(self.status))}</p><table>{rows}</table>"

    def to_xarray(self) -> "xarray.Dataset":
        """The arrays as one labelled dataset."""
        import xarray

        data = xarray.Dataset({name: (self.axes[name], value) for name, value in self.arrays.items()})
        data.attrs["status"] = str(self.status)
        return data

    def to_pandas(self) -> "pandas.DataFrame":
        """One row per point of all axes together, one column per array."""
        return self.to_xarray().to_dataframe().reset_index()

    def save(self, folder: str | Path) -> Path:
        """Write the result into a new folder, all or nothing."""
        if not self.write(Path(folder)):
            raise StoreError(f"{folder} exists already, and results are not overwritten")
        return Path(folder)

    def write(self, folder: Path, key: str | None = None) -> bool:
        """Write the result into `folder`, filed under a key, unless it exists; return whether it was written."""
        # through memory: HDF5 itself crashes the process when the disk is full
        data = self.to_xarray().to_netcdf(None, engine="h5netcdf")
        record = {
            "key": key,
            "spec": self.spec.plain() if self.spec else None,
            "status": [self.status.outcome, self.status.sentence],
            "notes": dict(self.notes),
            "provenance": dict(self.provenance),
        }
        return files.write_folder(folder, data, record)

    @classmethod
    def load(cls, folder: str | Path, key: str | None = None) -> "Result":
        """Read a result back; a damaged one, or one that is not filed under `key`, raises StoreError."""
        folder = Path(folder)
        with files.reading(folder):
            record = files.read_record(folder, key)
            spec = from_plain(record["spec"]) if record["spec"] else None
            data = files.read_arrays(folder)
            if spec and spec.kind.startswith(RENAMED_IN):
                data = {part: _renamed(named) for part, named in data.items()}
            return cls(
                **data,
                status=Status(Outcome(record["status"][0]), record["status"][1]),
                notes=record["notes"],
                spec=spec,
                provenance=record["provenance"],
            )


def _renamed(named: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays or axes of a result that an earlier version stored, by their new names."""
    return {new if (new := _new_name(name)) not in named else name: value for name, value in named.items()}


def _new_name(name: str) -> str:
    """The name of an array today: "scores" is now "weights", and so is "descent_scores" now "descent_weights"."""
    start, _, last = name.rpartition("_")
    return f"{start}_{RENAMED.get(last, last)}".removeprefix("_") if last in RENAMED else name


def _read_only(value: Any) -> np.ndarray:
    view = np.asarray(value).view()
    view.setflags(write=False)
    return view


def _check_storable(
    arrays: Mapping[str, np.ndarray], axes: Mapping[str, tuple[str, ...]], notes: Mapping[str, Any]
) -> None:
    """Refuse now, not after hours of work, what could not be saved."""
    for name, array in arrays.items():
        if not isinstance(name, str) or "/" in name or not name:
            raise SpecError(f"an array's name is a word without a slash, got {name!r}")
        if array.dtype.kind not in STORABLE:
            raise SpecError(
                f"array {name!r} must hold real numbers, words or truth values, which can be stored; got {array.dtype}"
            )
        if name in axes[name] and array.ndim != 1:
            raise SpecError(f"array {name!r} is named like an axis of its own, so it must have that axis alone")
    try:
        json.dumps(dict(notes))
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(f"notes hold JSON values only: {error}") from None


def _check_axes(arrays: Mapping[str, np.ndarray], axes: Mapping[str, tuple[str, ...]]) -> None:
    sizes: dict[str, tuple[int, str]] = {}
    for name, array in arrays.items():
        if len(axes[name]) != array.ndim:
            raise SpecError(f"array {name!r} has {array.ndim} dimensions but axes {axes[name]}")
        for axis, size in zip(axes[name], array.shape):
            known, owner = sizes.setdefault(axis, (size, name))
            if known != size:
                raise SpecError(f"axis {axis!r} has length {size} in {name!r} but {known} in {owner!r}")
