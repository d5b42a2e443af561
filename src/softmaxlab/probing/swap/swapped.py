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
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError
from softmaxlab.probing.saving_guard import saved_as
from softmaxlab.probing.streaming.attach import SiteState, WeightFunction, attached, check_of, refuse_unswitchable
from softmaxlab.probing.streaming.output_check import OutputCheck
from softmaxlab.probing.streaming.sites import Site, root, sites
from softmaxlab.probing.swap.biases import CALIBRATED, PER_ROW, Biases, check_bias
from softmaxlab.probing.swap.calibrate import Batch, calibrated
from softmaxlab.probing.swap.map_file import write_map
from softmaxlab.probing.swap.map_weights import use_weights, weights_of

# What `save_pretrained` writes to config.json while a map is swapped in. transformers knows no such implementation, so
# a plain `from_pretrained` stops and shows this sentence, instead of going back to softmax in silence.
# `from_pretrained(folder, attn_implementation="eager")` overrides the first entry; the second then stops it.
GUARDED, _GUARD = "attn_implementation", "softmaxlab:{map} (open with softmaxlab.probing.load_swapped)"
_ENTRIES = (GUARDED, "experts_implementation")
PARAMETER = "softmaxlab_bias"  # of each attention module, while its bias is learned


class swapped:
    """`model` computes with `map` at all its attention modules until the block ends; blocks can be nested.

    `bias`, for the maps that take one: a number; a tensor or list with a row per attention module, in the order of
    `named_modules`; a dictionary from module name to number or tensor [head]; "calibrated", with `calibration`, a list
    of batches (what is matched is in calibrate.py); or, for sigmoid and sigmoid_norm, "-log n", with n the
    number of keys that the query sees. `learn=True` makes the biases parameters `softmaxlab_bias` [head] of the
    attention modules, which optimizers, checkpoints and wrappers of the model see while the block lasts.

    `save_pretrained` in the block writes what `save_swapped` writes, so that the folder opens with its map.
    """

    def __init__(
        self,
        model: nn.Module,
        map: str,
        bias: float | Tensor | Sequence | Mapping[str, Any] | str | None = None,
        *,
        learn: bool = False,
        calibration: Sequence[Batch] | Batch | None = None,
        compare_logits: bool = True,
    ) -> None:
        if "mlp" in MAPS[map].parameters:
            raise SpecError(f"map {map!r} needs a feature network trained with the model, which a swap does not have")
        check_bias(map, bias, learn, calibration)
        self.model, self.map, self.learn, self.compare_logits = model, map, learn, compare_logits
        self._top, self._sites = root(model), sites(model)
        refuse_unswitchable(self._top, self._sites)
        self._check: OutputCheck | None = None
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
        """Return the biases that `learn=True` learns; in the block they are parameters of the model too."""
        return list(self._parameters)

    @property
    def logits(self) -> dict[str, Any] | None:
        """Return how far the first pass moved the output of the model with its own map, as `watch.logits` does."""
        return None if self._check is None else self._check.result

    def __enter__(self) -> "swapped":
        with ExitStack() as stack:
            states = stack.enter_context(attached(self.model, self.compare_logits))
            self._check = check_of(self.model)
            stack.enter_context(_guarded(self._top.config, self.map))
            stack.enter_context(saved_as(self._top, self._write_map))
            for state, parameter in zip(states, self._parameters):
                stack.enter_context(_registered(state.site.module, parameter))
            for i, state in enumerate(states):
                leaks_weight, is_softmax = self._leaks_weight(state.site), self.map == "softmax"
                stack.enter_context(use_weights(state, self._weigh(i), leaks_weight, is_softmax))
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
        if self.learn:  # from the module of the call, whose parameters a wrapper may have replaced
            return weights_of(self.map, lambda call: getattr(call.module, PARAMETER))
        return weights_of(self.map, None if biases is None else lambda call: biases[i], self._per_row)

    def _write_map(self, folder: Path, state: Mapping[str, Tensor] | None) -> None:
        """Write the map beside a checkpoint; biases from `state` if the wrapper of a model has gathered them there."""
        bias = self.bias
        if isinstance(bias, dict) and state is not None:
            gathered = {name: state.get(f"{name}.{PARAMETER}") for name in bias}
            bias = {name: bias[name] if b is None else b for name, b in gathered.items()}
        write_map(folder, self.map, bias)

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
    """Write a config in the block that cannot be read back as that of a softmax model."""
    before = {name: config.__dict__[name] for name in _ENTRIES if name in config.__dict__}
    config.__dict__.update(dict.fromkeys(_ENTRIES, _GUARD.format(map=map)))
    try:
        yield
    finally:
        for name in _ENTRIES:
            del config.__dict__[name]
        config.__dict__.update(before)


@contextmanager
def _registered(module: nn.Module, parameter: nn.Parameter) -> Iterator[None]:
    """A module that owns the parameter until the block ends."""
    before = module._parameters.get(PARAMETER)
    module.register_parameter(PARAMETER, parameter)
    try:
        yield
    finally:
        del module._parameters[PARAMETER]
        if before is not None:
            module.register_parameter(PARAMETER, before)
