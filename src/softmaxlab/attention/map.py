"""Attention maps: functions from scores to weights, and the facts that each declares.

The laws in tests/laws prove the declared facts of every registered map.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from softmaxlab.attention.masking import bounded_share, hide, share
from softmaxlab.core.user_code import naming_user_code, place_of_function
from softmaxlab.errors import UserCodeError

Normalise = Literal["none", "sum", "bounded"]
FACTS = ("non_negative", "row_stochastic", "shift_invariant", "joint")
NORMALISERS: dict[str, Callable[[Tensor], Tensor]] = {"none": lambda w: w, "sum": share, "bounded": bounded_share}


@dataclass(frozen=True)
class Map:
    """One attention map.

    `function` is elementwise, `f(scores)`, and then `normalise` says what its weights are divided by; or it acts on
    whole rows, `f(scores, visible)`, hidden keys and normaliser included. With a parameter `bias` it takes the
    per-head bias b, shaped [head, 1, 1]. `features` is for maps of queries and keys: scores = φ(q)·φ(k)/√d_h.
    """

    name: str
    function: Callable[..., Tensor]
    normalise: Normalise = "none"
    features: Callable[..., Tensor] | None = None
    # FACTS
    non_negative: bool = False
    row_stochastic: bool = False  # weights of a row with a visible key sum to 1
    shift_invariant: bool = False  # adding a constant to a row of scores changes nothing
    joint: bool = False  # heads share one normaliser
    parameters: tuple[str, ...] = ()  # what can be learned besides q, k, v
    source: str = ""  # key in references.bib

    @property
    def facts(self) -> dict[str, bool]:
        """The declared FACTS by name."""
        return {fact: getattr(self, fact) for fact in FACTS}

    @property
    def takes_bias(self) -> bool:
        return "bias" in self.parameters

    @property
    def acts_on_rows(self) -> bool:
        return "visible" in parameters_of(self.function)

    def weigh(self, scores: Tensor, visible: Tensor | None, bias: Tensor | None) -> Tensor:
        """Weights of scores [..., head, query, key]; `bias` is None or [head, 1, 1]."""
        given = {"bias": bias} if self.takes_bias else {}
        if self.acts_on_rows:
            return self._apply(scores, visible=visible, **given)
        # hidden scores may be anything, also NaN: they never reach the function
        weights = hide(self._apply(hide(scores, visible), **given), visible)
        return NORMALISERS[self.normalise](weights)

    def _apply(self, scores: Tensor, **given: Tensor | None) -> Tensor:
        """The function's value; errors of a user's function name it."""
        if self.function.__module__.partition(".")[0] in ("softmaxlab", "torch"):
            return self.function(scores, **given)
        with naming_user_code():
            weights = self.function(scores, **given)
        if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.shape != scores.shape:
            what = f"{weights.dtype} of shape {tuple(weights.shape)}" if isinstance(weights, Tensor) else type(weights)
            raise UserCodeError(
                f"map {self.name!r} must give one weight per score, a real tensor of shape {tuple(scores.shape)}, got "
                f"{what} ({place_of_function(self.function)})"
            )
        return weights


def parameters_of(function: Callable) -> tuple[str, ...]:
    """Names of a function's parameters; none for torch's own built-ins, which are elementwise."""
    try:
        return tuple(inspect.signature(function).parameters)
    except ValueError:
        return ()
