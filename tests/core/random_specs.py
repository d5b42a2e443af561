"""Random valid specs, and random ways to break one."""

import numpy as np

from softmaxlab.attention import Compare
from softmaxlab.attention.compare import score_maps
from softmaxlab.papers.attention.maps import Maps


def random_spec(rng: np.random.Generator):
    maps = tuple(str(m) for m in rng.choice(score_maps(), size=rng.integers(1, 6), replace=False))
    if rng.random() < 0.5:
        scores = rng.standard_normal(tuple(rng.integers(1, 6, 3))) * 10.0 ** rng.integers(-300, 300)
        return Compare(scores, maps=maps, causal=bool(rng.random() < 0.5), bias=float(rng.standard_normal()))
    return Maps(
        tokens=int(rng.integers(1, 257)), scale=float(rng.exponential()), seed=int(rng.integers(0, 2**60)), maps=maps
    )


# field → values that must be refused, for `attention/maps` on the command line (JSON or text)
BROKEN_VALUES = {
    "tokens": ["0", "-3", "1.5", '"many"', "null", "[1]", "true", "1e9", "NaN", "257"],
    "scale": ["0", "-1", '"big"', "null", "[2.0]", "Infinity", "NaN", "{}", "-0.0"],
    "seed": ["-1", "0.5", '"x"', "null", "true", "[0]"],
    "maps": ['["sofmax"]', '"softmax"', "[]", "[1]", "null", '["softmax","relux"]', "{}", '["elu_elu"]', "7", "[null]"],
}
BROKEN_NAMES = ["token", "scal", "sede", "map", "t", "maps.softmax", "tokens.x", "", "scale ", "__class__", "kind"]


def broken_setting(rng: np.random.Generator) -> tuple[str, str]:
    """A `--set` argument that must be refused, and the word its error must name."""
    if rng.random() < 0.25:
        name = str(rng.choice(BROKEN_NAMES))
        return f"{name}={rng.integers(100)}", name.split(".")[0] or "name=value"
    name = str(rng.choice(list(BROKEN_VALUES)))
    return f"{name}={rng.choice(BROKEN_VALUES[name])}", name
