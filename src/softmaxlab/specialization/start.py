"""Order parameters as a field of a spec: where a flow or SGD starts, or where training has led.

A start may also be the overlaps m and q, or the result of another run, which stands for its first time; what training
has led to may be its result, which stands for its last.
"""

from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError, unknown
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters

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


def _last(order: Any) -> Any:
    """A result as the order parameters at its last time."""
    return OrderParameters.at(order) if isinstance(order, Result) else order


Start = Annotated[OrderParameters, BeforeValidator(_order)]
Trained = Annotated[OrderParameters, BeforeValidator(_last)]


def check(start: OrderParameters, model: SingleLocation, largest: float) -> None:
    """Refuse a start of another model, or with numbers beyond `largest`."""
    start.of(model)
    most = max(float(np.abs(values).max()) for values in (start.m, start.K, start.b, start.v, start.p))
    if not most <= largest:
        raise SpecError(f"start must hold numbers up to {largest:g}, got {most:g}")
