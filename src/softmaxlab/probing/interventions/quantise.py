"""Eight-bit arithmetic, simulated and real: what quantisation does to a model.

    Q(x) = s · clip(round(x/s), −127, 127),   s = max|x|/127

W8A8: every linear map of the layers computes Q(x) Q(W)ᵀ, with one scale s for the whole weight and one for the whole
input (all tokens of all sequences of the call, which is what massive activations spoil: one entry of 10⁴ takes all the
levels). Sums are exact, as with an int32 accumulator. Embeddings, norms, attention itself and the output head stay in
float, as is usual. Scales of inputs are taken from each call (dynamic), or, given `calibration`, from other texts once
(static); then what lies outside is clipped. `scales="token"` has one scale for each token's input, and "token_channel"
also one for each output channel of the weight: a massive activation then spoils its own token alone.

`dynamic_int8` puts torch's own kernels (torch.ao, one scale per tensor) in the place of the linear maps.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing.inference import as_batches, evaluating, forward
from softmaxlab.probing.streaming.sites import blocks, root

LEVELS = 127  # symmetric int8
Scales = Literal["tensor", "token", "token_channel"]


def quantise(x: Tensor, largest: Tensor | None = None) -> Tensor:
    """Q(x); `largest` takes the place of max|x|, one number or several that broadcast. All zeros stay zeros."""
    s = (x.abs().amax() if largest is None else largest) / LEVELS
    s = torch.where(s == 0, 1.0, s)
    return (x / s).round().clamp(-LEVELS, LEVELS) * s


@contextmanager
def quantised(model: nn.Module, calibration: Iterable[Any] | None = None, scales: Scales = "tensor") -> Iterator[None]:
    """The model with W8A8 linear maps, until the block ends; its own weights are then put back, bit by bit."""
    if scales not in get_args(Scales):
        raise unknown("scales", scales, get_args(Scales))
    if calibration is not None and scales != "tensor":
        raise SpecError(f"scales={scales!r} are taken from each call, so they need no calibration")
    maps = linear_maps(model)
    largest = {} if calibration is None else _largest_inputs(model, maps, as_batches(calibration))
    with ExitStack() as undo:
        for name, map in maps.items():
            undo.callback(setattr, map.weight, "data", map.weight.data)
            inputs = 1 if isinstance(map, nn.Linear) else 0  # the axis of the weight that inputs are along
            channel = map.weight.data.abs().amax(dim=inputs, keepdim=True) if scales == "token_channel" else None
            map.weight.data = quantise(map.weight.data, channel)
            undo.callback(map.register_forward_pre_hook(_rounding(largest.get(name), scales != "tensor")).remove)
        yield


def lacks_int8(model: nn.Module) -> str:
    """Return why torch has no int8 kernels for a model; empty if it has."""
    if odd := [name for name, map in linear_maps(model).items() if type(map) is not nn.Linear]:
        return f"{odd[0]} is no plain nn.Linear"
    weights = [map.weight for map in linear_maps(model).values()]
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in weights):
        return "the model is not in float32 on the CPU"
    return "" if torch.backends.quantized.engine != "none" else "this torch has no int8 kernels"


@contextmanager
def dynamic_int8(model: nn.Module) -> Iterator[None]:
    """The model with torch's own dynamic int8 kernels as linear maps of its layers, until the block ends."""
    if reason := lacks_int8(model):
        raise SpecError(f"dynamic int8: {reason}")
    from torch.ao.nn.quantized.dynamic import Linear
    from torch.ao.quantization.qconfig import default_dynamic_qconfig

    top: Any = root(model)
    with ExitStack() as undo:
        for name, map in linear_maps(model).items():
            parent, _, last = name.rpartition(".")
            with warnings.catch_warnings():  # torch.ao is to move to a package of its own
                warnings.simplefilter("ignore")
                map.qconfig = default_dynamic_qconfig
                int8 = Linear.from_float(map)
            del map.qconfig
            setattr(top.get_submodule(parent), last, int8)
            undo.callback(setattr, top.get_submodule(parent), last, map)
        yield


def linear_maps(model: nn.Module) -> dict[str, Any]:
    """The linear maps in the layers of a model, by name: nn.Linear, and GPT-2's Conv1D."""
    from transformers.pytorch_utils import Conv1D

    maps = {
        f"{block}.{name}": module
        for block, layer in blocks(model).items()
        for name, module in layer.named_modules()
        if isinstance(module, (nn.Linear, Conv1D))
    }
    held = [name for name, map in maps.items() if not map.weight.is_floating_point() or map.weight.is_meta]
    if not maps or held:
        what = f"{held[0]} is quantised already or not in memory" if held else "it has no linear maps in its layers"
        raise SpecError(f"model {type(root(model)).__name__} cannot be quantised: {what}")
    return maps


def _rounding(largest: Tensor | None, by_token: bool):
    def before(_: nn.Module, args: tuple) -> tuple:
        bound = args[0].abs().amax(dim=-1, keepdim=True) if by_token else largest
        return (quantise(args[0], bound), *args[1:])

    return before


def _largest_inputs(model: nn.Module, maps: dict[str, Any], batches: list) -> dict[str, Tensor]:
    """max|x| of each map's input over calibration, in float; padding counts as any token."""
    largest: dict[str, Tensor] = {}

    def keep(name: str):
        def before(_: nn.Module, args: tuple) -> None:
            here = args[0].detach().abs().amax()
            largest[name] = torch.maximum(largest[name], here) if name in largest else here

        return before

    with ExitStack() as undo, evaluating(model), torch.no_grad(), Progress(len(batches), "scales") as progress:
        for name, map in maps.items():
            undo.callback(map.register_forward_pre_hook(keep(name)).remove)
        for batch in batches:
            forward(model, batch)
            progress.advance()
    return largest
