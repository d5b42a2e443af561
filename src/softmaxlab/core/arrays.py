"""Arrays as spec fields: float64, finite, read-only, with one JSON form.

Up to `READABLE` numbers stand in the JSON as nested lists, for people; larger arrays as base64 of their bytes,
exact and fast. Both decode to the same array.
"""

import base64
from typing import Annotated, Any

import numpy as np
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

READABLE = 64
BYTES_KEY = "float64_base64"


class _ArrayField:
    """Pydantic annotation: anything array-like in, a frozen float64 array out."""

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(frozen_array)


Array = Annotated[np.ndarray, _ArrayField()]


def frozen_array(value: Any) -> np.ndarray:
    """A read-only float64 copy of an array, tensor, nested sequence or encoded array; must be finite."""
    array = _decode(value) if isinstance(value, dict) else _numbers(value)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"must be finite, found {array[where]} at index {list(where)}")
    array = array + 0.0  # a copy, with -0.0 folded into 0.0 so that equal arrays have equal keys
    array.setflags(write=False)
    return array


def encode(array: np.ndarray) -> list | dict:
    """The JSON form of an array."""
    if array.size <= READABLE:
        return array.tolist()
    data = base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")
    return {"shape": list(array.shape), BYTES_KEY: data}


def _numbers(value: Any) -> np.ndarray:
    try:
        if hasattr(value, "detach"):  # a torch tensor, without importing torch
            value = value.detach().cpu()
            value = (value.double() if value.is_floating_point() else value).numpy()
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        raise ValueError("must be a rectangular array of numbers") from None
    if array.dtype.kind not in "fiu" or isinstance(value, np.ma.MaskedArray):
        raise ValueError("must be an array of real numbers")
    return array.astype(np.float64)


def _decode(value: dict) -> np.ndarray:
    try:
        data = base64.b64decode(value[BYTES_KEY], validate=True)
        array = np.frombuffer(data, dtype="<f8").reshape(value["shape"]).astype(np.float64)
        if list(array.shape) != list(value["shape"]) or len(value) != 2:
            raise ValueError
        return array
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"must be an array, or an object with 'shape' and '{BYTES_KEY}'") from None
