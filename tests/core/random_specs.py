"""Random valid specs, and random ways to break them."""

import numpy as np

from softmaxlab.attention import Compare
from softmaxlab.attention.compare import score_maps
from softmaxlab.papers.attention.figures.maps import Maps


def random_spec(rng: np.random.Generator):
    maps = tuple(str(m) for m in rng.choice(score_maps(), size=rng.integers(1, 6), replace=False))
    if rng.random() < 0.5:
        scores = rng.standard_normal(tuple(rng.integers(1, 6, 3))) * 10.0 ** rng.integers(-300, 300)
        return Compare(scores, maps=maps, causal=bool(rng.random() < 0.5), bias=float(rng.standard_normal()))
    return Maps(
        tokens=int(rng.integers(1, 257)), scale=float(rng.exponential()), seed=int(rng.integers(0, 2**60)), maps=maps
    )


def _number(rng: np.random.Generator) -> float:
    return float(rng.standard_normal() * 10.0 ** rng.integers(-3, 6))


# a wrong value for a field, drawn at random; every one must be refused
WRONG = {
    "tokens": lambda rng: rng.choice([-rng.integers(0, 10**6), rng.integers(257, 10**9)]).item(),
    "scale": lambda rng: -abs(_number(rng)),
    "seed": lambda rng: -int(rng.integers(1, 10**9)),
    "maps": lambda rng: [str(rng.choice(score_maps())) + "x" * int(rng.integers(1, 9)), "softmax"],
    "causal": lambda rng: int(rng.integers(0, 100)),
    "bias": lambda rng: str(_number(rng)),
    "scores": lambda rng: rng.standard_normal(int(rng.integers(1, 9))).tolist(),
}
# of no field's type
STRANGE = (
    lambda rng: None,
    lambda rng: {"x": _number(rng)},
    lambda rng: f"word{rng.integers(10**6)}",
    lambda rng: [[_number(rng)], [_number(rng), 2.0]],
)


def broken_spec(rng: np.random.Generator) -> tuple[dict, str]:
    """A spec in plain form with one thing wrong, and the field its error must name."""
    plain = random_spec(rng).plain()
    field = str(rng.choice([name for name in plain if name != "kind"]))
    match rng.integers(4):
        case 0:
            plain[field] = WRONG[field](rng)
        case 1:
            plain[field] = STRANGE[rng.integers(len(STRANGE))](rng)
        case 2:
            field = f"{field}{rng.integers(100)}"
            plain[field] = 1
        case 3:
            field = plain["kind"] = plain["kind"] + str(rng.integers(100))
    return plain, field
