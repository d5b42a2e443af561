"""The options of a probe. What makes no sense is refused in one line before anything is loaded.

Messages name an option as the command line spells it: the field `batch_size` is `--batch-size`.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError, unknown
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.interventions.fold_sink import METHODS
from softmaxlab.probing.interventions.prune import RULES, Rule
from softmaxlab.probing.load import DTYPES
from softmaxlab.probing.streaming.sampled_rows import FEWEST
from softmaxlab.probing.swap.biases import CALIBRATED, CALIBRATES, LOG_N, PER_ROW
from softmaxlab.probing.text import DEFAULT, Bos
from softmaxlab.probing.watch import Statistics

EXCLUSIVE = (  # pairs of options that cannot be used together
    ("eager", "swap"), ("eager", "mitigate"), ("eager", "prune"), ("eager", "check"), ("eager", "queries"),
    ("device", "device_map"),
    ("revisions", "compare"), ("revisions", "swap"), ("revisions", "mitigate"), ("revisions", "prune"),
    ("revisions", "check"),
)  # fmt: skip
MOST_LAYERS = 10_000  # more than any model has
LARGEST = 2**31  # of a whole number: beyond, no tensor has room, and no generator takes the seed
SMALLEST = {"length": 2, "samples": 1, "batch_size": 1, "seed": 0, "prune": 1, "queries": FEWEST}
RECORDED = (  # options that a report records one by one
    "bos", "eps", "seed", "batch_size", "statistics", "queries", "eager", "device", "device_map", "mitigate", "prune",
    "rule", "compare_logits",
)  # fmt: skip


@dataclass(frozen=True)
class SwapOption:
    """A map to swap in and its bias; refused if the two do not belong together."""

    map: str
    bias: float | str | None = None

    def __post_init__(self) -> None:
        map = MAPS[self.map]
        if "mlp" in map.parameters:
            raise SpecError(f"--swap {self.map}: this map needs a network trained with the model, a swap has none")
        if not map.takes_bias and self.bias is not None:
            raise SpecError(f"--swap {self}: this map takes no bias")
        if map.takes_bias and self.bias is None:
            named = " or ".join(['"-log n"' if name == PER_ROW else name for name in self._named_biases()])
            ways = f"--swap {self.map}:B or --bias B, with B a number or {named}"
            raise SpecError(f"--swap {self.map} needs a bias: {ways}")
        if self.bias == PER_ROW and PER_ROW not in self._named_biases():
            raise SpecError(f'--swap {self.map}: the bias "{PER_ROW}" is for the maps {" and ".join(LOG_N)}')
        if isinstance(self.bias, str) and self.bias not in self._named_biases():
            raise unknown("bias", self.bias, [*self._named_biases(), "a number"])

    def __str__(self) -> str:
        bias = f"{self.bias:g}" if isinstance(self.bias, float) else self.bias
        return self.map if bias is None else f"{self.map}:{bias}"

    @property
    def is_calibrated(self) -> bool:
        """Whether the bias is fitted on text of its own."""
        return self.bias == CALIBRATED

    def _named_biases(self) -> list[str]:
        """The biases with a name that the map takes."""
        return [name for name, maps in ((CALIBRATED, CALIBRATES), (PER_ROW, LOG_N)) if self.map in maps]


@dataclass(frozen=True)
class ProbeOptions:
    """The model and the text of a probe, how they are measured, and what else is done with the model.

    `compare`, `swap` and `revisions` are measured as further subjects; `attention` names heads (layer, head) whose
    patterns are kept; `mitigate`, `prune` and `check` add parts to the report; `layers` limits the printed table.
    `queries` measures a sample of each sequence's queries. `rule` says how heads are removed. `compare_logits` stops
    the probe if measuring changes the model's output.
    """

    model: str
    text: str = DEFAULT
    length: int | None = None
    samples: int = 8
    bos: Bos = "auto"
    eps: float = SINK_EPS
    device: str | None = None
    device_map: str | None = None
    dtype: str | None = None
    batch_size: int = 4
    layers: tuple[int, ...] | None = None
    seed: int = 0
    statistics: Statistics = "full"
    queries: int | None = None
    eager: bool = False
    compare: tuple[str, ...] = ()
    swap: tuple[SwapOption, ...] = ()
    mitigate: Literal["prefix", "bias"] | None = None
    check: bool = False
    prune: int | None = None
    rule: Rule = "none"
    compare_logits: bool = True
    revisions: tuple[str, ...] = ()
    attention: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for name, smallest in SMALLEST.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise SpecError(f"{option_name(name)} must be at least {smallest}, got {value}")
            if value is not None and value >= LARGEST:
                raise SpecError(f"{option_name(name)} must be below {LARGEST}, got {value}")
        if not 0 < self.eps < 1:
            raise SpecError(f"--eps must lie between 0 and 1, got {self.eps:g}")
        choices = {"bos": get_args(Bos), "statistics": get_args(Statistics)}
        choices |= {"mitigate": METHODS, "dtype": tuple(DTYPES), "rule": RULES}
        for name, known in choices.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise unknown(option_name(name), value, known)
        if self.queries is not None and self.statistics == "fast":
            raise SpecError("--queries samples what --statistics full computes; fast reads no single query")
        if self.rule != "none" and self.prune is None:
            raise SpecError(f"--rule {self.rule} says how --prune N removes heads, and N is missing")
        for one, other in EXCLUSIVE:
            if getattr(self, one) and getattr(self, other):
                raise SpecError(f"{option_name(one)} and {option_name(other)} exclude each other")

    @property
    def needs_calibration(self) -> bool:
        """Whether something is fitted, on text of its own."""
        return any(swap.is_calibrated for swap in self.swap) or self.mitigate is not None or self.prune is not None

    def settings(self) -> dict[str, Any]:
        """Return what the report records of these options, as JSON values."""
        single = {name: getattr(self, name) for name in RECORDED}
        lists = {"compare": list(self.compare), "revisions": list(self.revisions)}
        return single | lists | {"swap": [str(swap) for swap in self.swap]}


def option_name(field: str) -> str:
    """A field as the command line spells it."""
    return f"--{field.replace('_', '-')}"


def parse_layers(text: str | None) -> tuple[int, ...] | None:
    """Read numbers and ranges, 0-5,8."""
    if text is None:
        return None
    layers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise SpecError(f"--layers takes numbers and ranges such as 0-5,8, got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SpecError(f"--layers: the range {part.strip()!r} is empty")
        if last >= MOST_LAYERS:
            raise SpecError(f"--layers must name layers below {MOST_LAYERS}, got {part.strip()!r}")
        layers += range(first, last + 1)
    return tuple(dict.fromkeys(layers))


def parse_heads(text: str | None) -> tuple[tuple[int, int], ...]:
    """Read heads as LAYER.HEAD, 12.3,14.0."""
    parts = [re.fullmatch(r"\s*(\d+)\.(\d+)\s*", part) for part in text.split(",")] if text is not None else []
    if any(part is None for part in parts):
        raise SpecError(f"--attention takes LAYER.HEAD,… such as 12.3,14.0, got {text!r}")
    return tuple(dict.fromkeys((int(part[1]), int(part[2])) for part in parts if part))


def parse_revisions(text: str | None) -> tuple[str, ...]:
    """Read names separated by commas."""
    if text is None:
        return ()
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise SpecError(f"--revisions takes different names separated by commas, got {text!r}")
    return names


def parse_swaps(texts: Sequence[str], bias: str | None) -> tuple[SwapOption, ...]:
    """Read each MAP or MAP:BIAS; `bias` is for every map that takes one and has none of its own.

    Numbers that are a map's parameters come before its bias: "power:3", "power:3:-5".
    """
    swaps = []
    is_used = False
    for text in texts:
        base, *more = text.split(":")
        parameters = len(MAPS.parameters(base))
        map, own = ":".join([base, *more[:parameters]]), more[parameters:]
        is_shared = len(texts) == 1 or (not own and MAPS[map].takes_bias)
        is_used = is_used or is_shared
        own_option = f"the bias of --swap {map}"
        named, option = (":".join(own), own_option) if own else (bias if is_shared else None, "--bias")
        swaps.append(SwapOption(map, _parse_bias(named, option)))
    if bias is not None and not is_used:
        raise SpecError(f"--bias {bias} belongs to --swap MAP, for a map that takes one and has none of its own")
    for swap in swaps:
        if swaps.count(swap) > 1:
            raise SpecError(f"--swap {swap} is given twice")
    return tuple(swaps)


def _parse_bias(text: str | None, option: str) -> float | str | None:
    """Read a number, or the name of a bias."""
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return text
    if number is not None and not math.isfinite(number):
        raise SpecError(f"{option} must be finite, got {text}")
    return number
