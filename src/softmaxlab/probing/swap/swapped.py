"""Another attention map in a pretrained model.

    with swapped(model, "softmax1", bias=-5.0):
        model(**batch)

The map acts on the scores that the model itself computes, χ_ij = cap(scale·q_i·k_j) + position bias, over the keys that
query i sees: padding, causality and windows as in the model. A hidden key has weight 0; a query that sees no key has
output 0. Weights are computed in float32, and dropped out in training as the model does.

A learned sink (gpt-oss) is one more key that every query of head h sees, with score s_h and value 0. So softmax is the
model's own attention, softmax1 has e^b + e^{s_h} in its denominator, and maps that weigh each key by itself do not feel
it. The maps of features, elu_elu, use φ(q)·φ(k)·scale alone: no soft cap, position bias or learned sink.

Gradients flow to the model and to the biases. Run `backward` inside the block if the model uses gradient checkpointing,
which computes the forward pass again. torch.compile compiles a model anew for every swap and for what it was before.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.attach import SiteState, WeightFunction, attached, refuse_unswitchable
from softmaxlab.probing.streaming.sites import Site, root, sites
from softmaxlab.probing.swap.biases import CALIBRATED, PER_ROW, Biases, check_bias
from softmaxlab.probing.swap.calibrate import Batch, calibrated
from softmaxlab.probing.swap.map_weights import use_weights, weights_of

# What `save_pretrained` writes to config.json while a map is swapped in. transformers knows no such implementation, so
# a plain `from_pretrained` stops and shows this sentence, instead of going back to softmax in silence.
GUARDED, _GUARD = "attn_implementation", "softmaxlab:{map} (open with softmaxlab.probing.load_swapped)"


class swapped:
    """`model` computes with `map` at all its attention modules until the block ends; blocks can be nested.

    `bias`, for the maps that take one: a number; a tensor or list with a row per attention module, in the order of
    `named_modules`; a dictionary from module name to number or tensor [head]; "calibrated", with `calibration`, a list
    of batches (what is matched is in calibrate.py); or, for sigmoid and sigmoid_norm, "-log n", with n the
    number of keys that the query sees. `learn=True` makes the biases parameters, one [head] per attention module.
    """

    def __init__(
        self,
        model: nn.Module,
        map: str,
        bias: float | Tensor | Sequence | Mapping[str, Any] | str | None = None,
        *,
        learn: bool = False,
        calibration: Sequence[Batch] | Batch | None = None,
    ) -> None:
        if "mlp" in MAPS[map].parameters:
            raise SpecError(f"map {map!r} needs a feature network trained with the model, which a swap does not have")
        check_bias(map, bias, learn, calibration)
        self.model, self.map, self.learn = model, map, learn
        self._top, self._sites = root(model), sites(model)
        refuse_unswitchable(self._top, self._sites)
        self._entered: list[tuple[ExitStack, SiteState, WeightFunction | None]] = []
        if isinstance(bias, str) and bias == CALIBRATED and calibration is not None:
            bias = calibrated(model, map, calibration)
        self._per_row = isinstance(bias, str)
        self._biases = None if bias is None or self._per_row else Biases(bias, self._sites)
        self._parameters = []
        if learn and self._biases is not None:
            self._parameters = [nn.Parameter(b.detach().clone()) for b in self._biases]
            self._biases = Biases(self._parameters, self._sites)

    @property
    def bias(self) -> dict[str, Tensor] | str | None:
        """b [head] by module name; "-log n"; or None for a map without bias."""
        if self._biases is None:
            return PER_ROW if self._per_row else None
        return {site.name: b for site, b in zip(self._sites, self._biases)}

    def parameters(self) -> list[nn.Parameter]:
        """What `learn=True` learns, for an optimizer."""
        return list(self._parameters)

    def __enter__(self) -> "swapped":
        with ExitStack() as stack:
            states = stack.enter_context(attached(self.model))
            stack.enter_context(_guarded(self._top.config, self.map))
            for i, state in enumerate(states):
                stack.enter_context(use_weights(state, self._weigh(i), self._leaks_weight(state.site)))
            self._entered.append((stack.pop_all(), states[0], states[0].weigh))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, state, weigh = self._entered[-1]
        if state.weigh is not weigh:
            raise SpecError(f"another map was swapped in after {self.map!r} and is still there: leave that one first")
        self._entered.pop()
        stack.close()

    def __deepcopy__(self, memo: dict) -> "swapped":
        raise SpecError("a model that keeps its map cannot be copied: load the folder again, or detach the map first")

    def _weigh(self, i: int) -> WeightFunction:
        biases = self._biases
        return weights_of(self.map, None if biases is None else lambda: biases[i], self._per_row)

    def _leaks_weight(self, site: Site) -> bool:
        """Whether the rest to 1 of a row of weights lies on no key."""
        map = MAPS[self.map]
        beside_sink = getattr(site.module, "sinks", None) is not None and map.features is None
        return self.map == "softmax1" or (beside_sink and map.row_stochastic and map.non_negative)


def is_guard(implementation: Any) -> bool:
    """Whether config.json was written while a map was swapped in."""
    return isinstance(implementation, str) and implementation.startswith(_GUARD.split("{")[0])


@contextmanager
def _guarded(config: Any, map: str) -> Iterator[None]:
    """What `save_pretrained` writes in the block cannot be read back as a softmax model."""
    before = config.__dict__.get(GUARDED)
    config.__dict__[GUARDED] = _GUARD.format(map=map)
    try:
        yield
    finally:
        if before is None:
            del config.__dict__[GUARDED]
        else:
            config.__dict__[GUARDED] = before
