"""What is asked of a probe, refused in one line if it makes no sense, before anything is loaded."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from softmaxlab.cli.probe_swaps import Swap
from softmaxlab.errors import SpecError, unknown

EXCLUDE = (  # options that cannot be had together
    ("eager", "swap"), ("eager", "mitigate"), ("eager", "prune"), ("eager", "check"), ("device", "device_map"),
    ("revisions", "compare"), ("revisions", "swap"), ("revisions", "mitigate"), ("revisions", "prune"),
    ("revisions", "check"),
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The options of `softmaxlab probe`."""

    model: str
    text: str
    length: int | None
    samples: int
    bos: Any
    eps: float
    device: str | None
    device_map: str | None
    dtype: str | None
    batch_size: int
    layers: tuple[int, ...] | None
    seed: int
    statistics: Any
    eager: bool
    out: Path | None
    format: str
    compare: tuple[str, ...]
    swap: tuple[Swap, ...]
    mitigate: Any
    check: bool
    prune: int | None
    revisions: tuple[str, ...]
    attention: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_words()
        for one, other in EXCLUDE:
            if getattr(self, one) and getattr(self, other):
                raise SpecError(f"{_option(one)} and {_option(other)} exclude each other")
        if self.attention and self.out is None:
            raise SpecError("--attention draws pictures: say where with --out FOLDER")
        if self.out is not None:
            _check_folder(self.out)

    @property
    def fits(self) -> bool:
        """Whether something is fitted on text of its own."""
        return any(swap.fits for swap in self.swap) or self.mitigate is not None or self.prune is not None

    def _check_numbers(self) -> None:
        least = {"length": 2, "samples": 1, "batch_size": 1, "seed": 0, "prune": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise SpecError(f"{_option(name)} must be at least {low}, got {value}")
        if not 0 < self.eps < 1:
            raise SpecError(f"--eps must lie between 0 and 1, got {self.eps:g}")

    def _check_words(self) -> None:
        from softmaxlab.probing.changes.fold import METHODS
        from softmaxlab.probing.models.corpora import Bos
        from softmaxlab.probing.models.load import DTYPES
        from softmaxlab.report.probe_record import FORMATS
        from softmaxlab.training.table import check_table

        known = {"bos": get_args(Bos), "statistics": ("full", "fast"), "format": FORMATS}
        known |= {"mitigate": METHODS, "dtype": tuple(DTYPES)}
        for name, words in known.items():
            value = getattr(self, name)
            if value is not None and value not in words:
                raise unknown(_option(name), value, words)
        check_table(f"heads.{self.format}")


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Layers as people write them: 0-5,8."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise SpecError(f"{option} takes numbers and ranges such as 0-5,8, got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SpecError(f"{option}: the range {part.strip()!r} is empty")
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def heads(text: str | None) -> tuple[tuple[int, int], ...]:
    """Heads as people write them: 12.3,14.0."""
    parts = [re.fullmatch(r"\s*(\d+)\.(\d+)\s*", part) for part in text.split(",")] if text is not None else []
    if any(part is None for part in parts):
        raise SpecError(f"--attention takes LAYER.HEAD,… such as 12.3,14.0, got {text!r}")
    return tuple(dict.fromkeys((int(part[1]), int(part[2])) for part in parts if part))


def words(text: str | None, option: str) -> tuple[str, ...]:
    """Names separated by commas."""
    if text is None:
        return ()
    found = tuple(part.strip() for part in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise SpecError(f"{option} takes different names separated by commas, got {text!r}")
    return found


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _check_folder(folder: Path) -> None:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise SpecError(f"--out {str(folder)!r}: {there} is a file, expected a folder")
    if not os.access(there, os.W_OK):
        raise SpecError(f"--out {str(folder)!r}: {there} cannot be written to")
    from softmaxlab.report.probe_record import foreign

    if found := foreign(folder):
        raise SpecError(f"--out {str(folder)!r}: {found} is there and is of no probe, give another folder")
