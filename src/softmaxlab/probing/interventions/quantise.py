"""Eight-bit arithmetic, simulated: what per-tensor quantisation does to a model.

    Q(x) = s · clip(round(x/s), −127, 127),   s = max|x|/127

W8A8: every linear map of the layers computes Q(x) Q(W)ᵀ, with one scale s for the whole weight and one for the whole
input (all tokens of all sequences of the call, which is what massive activations spoil: one entry of 10⁴ takes all the
levels). Sums are exact, as with an int32 accumulator. Embeddings, norms, attention itself and the output head stay in
float, as is usual. Scales of inputs are taken from each call (dynamic), or, given `calibration`, from other texts once
(static); then what lies outside is clipped.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError
from softmaxlab.probing.inference import as_batches, evaluating, forward
from softmaxlab.probing.streaming.sites import blocks, root

LEVELS = 127  # symmetric int8


def quantise(x: Tensor, largest: Tensor | None = None) -> Tensor:
    """Q(x); `largest` takes the place of max|x|. All zeros stay zeros."""
    s = (x.abs().amax() if largest is None else largest) / LEVELS
    s = torch.where(s == 0, 1.0, s)
    return (x / s).round().clamp(-LEVELS, LEVELS) * s


@contextmanager
def quantised(model: nn.Module, calibration: Iterable[Any] | None = None) -> Iterator[None]:
    """The model with W8A8 linear maps, until the block ends; its own weights are then put back, bit by bit."""
    maps = linear_maps(model)
    largest = {} if calibration is None else _largest_inputs(model, maps, as_batches(calibration))
    with ExitStack() as undo:
        for name, map in maps.items():
            undo.callback(setattr, map.weight, "data", map.weight.data)
            map.weight.data = quantise(map.weight.data)
            undo.callback(map.register_forward_pre_hook(_rounding(largest.get(name))).remove)
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


def _rounding(largest: Tensor | None):
    def before(_: nn.Module, args: tuple) -> tuple:
        return (quantise(args[0], largest), *args[1:])

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
