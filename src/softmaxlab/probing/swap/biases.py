"""The bias b_h of a map at every site of a model, from what a user writes.

A number (for all heads), a tensor or list with one row per site, or a dictionary from the site's module name to a
number or a tensor [head]. A tensor that requires a gradient gets one: rows are read anew at every call.
"""

import math
import numbers
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing.streaming.sites import Site

CALIBRATED, PER_ROW = "calibrated", "-log n"  # the biases that have a name
LOG_N = ("sigmoid", "sigmoid_norm")  # the maps that PER_ROW is for
CALIBRATES = ("softmax1", "sigmoid", "sigmoid_norm", "bayes_softmax")  # those that CALIBRATED is for
_FORMS = f"a number, a tensor [site, head], a dictionary from module name to tensor [head], {CALIBRATED!r}"


class Biases:
    """b [head] of each site, in the order of the sites."""

    def __init__(self, source: Any, sites: list[Site]) -> None:
        self._heads = [site.heads for site in sites]
        if _is_number(source):
            source = {site.name: source for site in sites}
        self._source, self._keys = source, _keys(source, sites)
        for key, site in zip(self._keys, sites):
            _check(self._source[key], site)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Tensor:
        return torch.as_tensor(self._source[self._keys[i]]).float().expand(self._heads[i])


def check_bias(map: str, bias: Any, learn: bool, calibration: Any) -> None:
    """Refuse a bias that the map cannot take, before anything is computed."""
    named = bias if isinstance(bias, str) else None
    if not MAPS[map].takes_bias:
        if bias is not None or learn:
            raise SpecError(f"map {map!r} takes no bias, got {'learn=True' if bias is None else _short(bias)}")
    elif bias is None:
        raise SpecError(f"map {map!r} needs bias=…: {_FORMS}{f' or {PER_ROW!r}' if map in LOG_N else ''}")
    if named is not None and named not in (CALIBRATED, PER_ROW):
        raise unknown("bias", named, (CALIBRATED, PER_ROW))
    if named == PER_ROW and (map not in LOG_N or learn):
        got = "learn=True" if learn else f"map {map!r}"
        raise SpecError(f"bias {PER_ROW!r} is for the maps {' and '.join(LOG_N)} and is not learned, got {got}")
    if (named == CALIBRATED) != (calibration is not None):
        raise SpecError(f"bias={CALIBRATED!r} and calibration=… (a list of batches) need each other, got only one")
    if named == CALIBRATED and map not in CALIBRATES:
        raise SpecError(f"bias={CALIBRATED!r} is for the maps {', '.join(CALIBRATES)}, got map {map!r}")


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dim() == 0
    return isinstance(value, (numbers.Real, np.number)) and not isinstance(value, bool)


def _keys(source: Any, sites: list[Site]) -> list[Any]:
    """Return the names under which each site's bias is found."""
    names = [site.name for site in sites]
    if isinstance(source, Mapping):
        for name in source:
            if name not in names:
                raise unknown("module in bias", name, names)
        for name in names:
            if name not in source:
                raise SpecError(f"bias lacks module {name!r}: it must name all {len(names)} attention modules")
        return names
    try:
        rows = len(source)
    except TypeError:
        raise SpecError(f"bias must be {_FORMS}; got {_short(source)}") from None
    if rows != len(sites):
        raise SpecError(f"bias must have one row per attention module ({len(sites)}), got {rows} rows")
    if all(_is_number(row) for row in source):
        raise SpecError(f"bias must be {_FORMS}; got {_short(source)}: per head or per site?")
    return list(range(rows))


def _check(value: Any, site: Site) -> None:
    try:
        b = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise SpecError(f"bias of {site.name} must be a number or one per head, got {_short(value)}") from None
    if b.dtype == torch.bool or b.is_complex():
        raise SpecError(f"bias of {site.name} must be real numbers, got {_short(value)}")
    if b.dim() > 1 or b.numel() not in (1, site.heads):
        shape = tuple(b.shape)
        raise SpecError(f"bias of {site.name} must be one number or one per head ({site.heads}), got shape {shape}")
    if not torch.isfinite(b.detach()).all():
        wrong = next(x for x in b.detach().reshape(-1).tolist() if not math.isfinite(x))
        raise SpecError(f"bias of {site.name} must be finite, got {wrong}")


def _short(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)[:60]
