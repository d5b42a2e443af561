"""Where a flow or SGD starts: order parameters, the overlaps m and q that give them, or the result of another run."""

from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError, unknown
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order import OrderParameters

OVERLAPS = ("m", "q", "b", "v", "p")


def _order(start: Any) -> Any:
    """A result as the order parameters at its first time, overlaps as those of their root r."""
    if isinstance(start, Result):
        return OrderParameters.at(start, 0)
    if not (isinstance(start, dict) and "q" in start):
        return start
    for name in start:
        if name not in OVERLAPS:
            raise unknown("field of start", name, OVERLAPS)
    if "m" not in start:
        raise SpecError("start needs m beside q")
    return OrderParameters.from_q(**start)


Start = Annotated[OrderParameters, BeforeValidator(_order)]


def check(start: OrderParameters, model: SingleLocation, largest: float) -> None:
    """Refuse a start of another model, or with numbers beyond `largest`."""
    start.of(model)
    found = max(float(np.abs(values).max()) for values in (start.m, start.K, start.b, start.v, start.p))
    if not found <= largest:
        raise SpecError(f"start must hold numbers up to {largest:g}, got {found:g}")
