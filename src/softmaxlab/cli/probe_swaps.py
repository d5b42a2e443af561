"""The maps to be swapped in, as people write them: MAP, MAP:BIAS, or MAP with --bias B for all that take one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing.maps.biases import CALIBRATED, CALIBRATES, LOG_N, PER_ROW


@dataclass(frozen=True)
class Swap:
    """A map and its bias; refused in one line if they do not belong together."""

    map: str
    bias: float | str | None = None

    def __post_init__(self) -> None:
        found = MAPS[self.map]
        if "mlp" in found.parameters:
            raise SpecError(f"--swap {self.map}: this map needs a network trained with the model, a swap has none")
        if not found.takes_bias and self.bias is not None:
            raise SpecError(f"--swap {self}: this map takes no bias")
        if found.takes_bias and self.bias is None:
            named = " or ".join(['"-log n"' if name == PER_ROW else name for name in self._named()])
            ways = f"--swap {self.map}:B or --bias B, with B a number or {named}"
            raise SpecError(f"--swap {self.map} needs a bias: {ways}")
        if isinstance(self.bias, str) and self.bias not in self._named():
            raise self._unfit(self.bias)

    def __str__(self) -> str:
        shown = f"{self.bias:g}" if isinstance(self.bias, float) else self.bias
        return self.map if shown is None else f"{self.map}:{shown}"

    @property
    def fits(self) -> bool:
        """Whether its bias is fitted on text of its own."""
        return self.bias == CALIBRATED

    def _named(self) -> list[str]:
        """The biases with a name that the map takes."""
        return [name for name, maps in ((CALIBRATED, CALIBRATES), (PER_ROW, LOG_N)) if self.map in maps]

    def _unfit(self, bias: str) -> SpecError:
        if bias == PER_ROW:
            return SpecError(f'--swap {self.map}: the bias "{PER_ROW}" is for the maps {" and ".join(LOG_N)}')
        return unknown("bias", bias, [*self._named(), "a number"])


def swaps(written: Sequence[str], bias: str | None) -> tuple[Swap, ...]:
    """All swaps asked for; `bias` is that of every map that takes one and has none of its own."""
    found = []
    used = False
    for text in written:
        map, colon, own = text.partition(":")
        shared = not colon and MAPS[map].takes_bias
        used = used or shared or len(written) == 1
        found.append(Swap(map, _bias(own if colon else bias if shared or len(written) == 1 else None)))
    if bias is not None and not used:
        raise SpecError(f"--bias {bias} belongs to --swap MAP, for a map that takes one and has none of its own")
    for swap in found:
        if found.count(swap) > 1:
            raise SpecError(f"--swap {swap} is given twice")
    return tuple(found)


def _bias(text: str | None) -> float | str | None:
    """A number, or the name of a bias."""
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return text
    if number is not None and not math.isfinite(number):
        raise SpecError(f"--bias must be finite, got {text}")
    return number
