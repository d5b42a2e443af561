"""Check that our attention leaves the model as it is: run the first forward pass of a block without us too, and
compare.

A model may look at the name of its attention implementation, drop a mask, or hand over an argument that we do not know.
Then another model would be measured. The additional pass draws no random number that others would miss, keeps
no graph, and works on a copy of the cache. A model in training is compared without dropout, which takes two more
passes.
"""

import copy
import inspect
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError

# Largest difference over largest |logit|. The same sums in another order differ by rounding, which layers amplify: 1e-4
# is about a thousand roundings of float32, and half precision has eight to eleven bits. A lost mask moves far more.
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}
HALF_TOLERANCE = 5e-2
COMPARED = 512  # tokens whose outputs are kept and compared, evenly spaced: a whole batch of logits may be gigabytes

ONLY_READS = "_softmaxlab_only_reads"  # attribute of a hook that changes nothing

_here = threading.local()


def is_muted() -> bool:
    """Whether the pass that runs is only one to compare with, so that nothing of it is to be measured."""
    return getattr(_here, "muted", False)


@contextmanager
def muted() -> Iterator[None]:
    """Measure nothing until the block ends."""
    before, _here.muted = is_muted(), True
    try:
        yield
    finally:
        _here.muted = before


class OutputCheck:
    """Compare the outputs of the first forward pass of `top` with those of the same pass inside `without()`.

    `with_us()` is entered for a pass of our own, where the first pass itself will not do: in training, and when the
    model is changed on purpose (`is_changed`). `way_out` ends the message with what else can be done.
    """

    def __init__(
        self,
        top: Any,
        without: Callable[[], AbstractContextManager[Any]],
        with_us: Callable[[], AbstractContextManager[Any]] = nullcontext,
        is_changed: Callable[[], bool] = lambda: False,
        way_out: str = "",
    ) -> None:
        self.result: dict[str, Any] | None = None
        self._top, self._without, self._with_us = top, without, with_us
        self._is_changed, self._way_out = is_changed, way_out
        self._plain: Tensor | None = None
        self._handles = [
            top.register_forward_pre_hook(self._before, with_kwargs=True),
            top.register_forward_hook(self._after, with_kwargs=True),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @torch.compiler.disable()
    def _before(self, model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if model is not self._top or self.result is not None or is_muted():  # a replica of DataParallel is another
            return
        if self._is_followed():  # what later hooks do to the arguments is part of the model: be the last one
            self._top._forward_pre_hooks.move_to_end(self._handles[0].id)
            return
        with self._without():
            own = kwargs
            if self._top.config._attn_implementation == "eager" and is_static(kwargs.get("past_key_values")):
                return  # `generate` prepares no mask for us, and eager attention would see what is not filled yet
            if "attention_mask" in kwargs and self._top.config._attn_implementation == "eager":
                own = kwargs | {"attention_mask": _additive(kwargs["attention_mask"], self._top.dtype)}
            self._plain = _run(self._top, args, own)
        if self._plain is not None and (_has_dropout(self._top) or self._is_changed()):
            with self._with_us():
                ours = _run(self._top, args, kwargs)
            self._judge(ours)

    def _is_followed(self) -> bool:
        """Whether hooks that may change the arguments come behind ours."""
        hooks = self._top._forward_pre_hooks
        later = list(hooks)[list(hooks).index(self._handles[0].id) + 1 :]
        return any(getattr(hooks[id], ONLY_READS, None) is None for id in later)

    @torch.compiler.disable()
    def _after(self, model: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        if model is self._top and self._plain is not None and not is_muted():
            with torch.no_grad():
                self._judge(_rows(_values(output), self._top, args, kwargs))

    def _judge(self, ours: Tensor | None) -> None:
        plain, self._plain = self._plain, None
        if plain is None or ours is None:
            return
        self.close()
        relative = _relative_difference(plain, ours)
        allowed = TOLERANCE.get(self._top.dtype, HALF_TOLERANCE)
        self.result = {"relative": relative, "allowed": allowed, "tokens": int(plain.shape[0])}
        if not relative <= allowed:  # NaN stops too
            raise SpecError(
                f"measuring would change model {type(self._top).__name__}: its output moves by {relative:.2g} of its "
                f"largest entry on the first batch, at most {allowed:g} is allowed, so its numbers would be those of "
                f"another model{self._way_out} (compare_logits=False, --no-compare-logits measures it all the same)"
            )


def _relative_difference(plain: Tensor, ours: Tensor) -> float:
    """Return the largest difference of an entry over the largest entry; infinity for another shape."""
    if plain.shape != ours.shape:
        return math.inf
    same = plain.isnan() & ours.isnan()  # a row without any key may be NaN both ways
    difference = torch.where(same, 0, ours - plain).abs().max().item()
    scale = torch.where(same, 0, plain).abs().max().item()
    return difference / scale if scale > 0 else difference


def _run(top: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    """The output of a pass that leaves no trace."""
    names = inspect.signature(type(top).forward).parameters
    own = {name: copy.deepcopy(value) if "past_key_values" in name else value for name, value in kwargs.items()}
    if "use_cache" in names and own.get("past_key_values") is None and len(args) <= list(names).index("use_cache") - 1:
        own["use_cache"] = False
    modes = [(module, module.training) for module in top.modules()]
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.no_grad(), muted(), torch.random.fork_rng(devices=devices):
        top.eval()
        try:
            output = top.forward(*args, **own)
        finally:
            for module, training in modes:
                module.training = training
        return _rows(_values(output), top, args, kwargs)


def is_static(cache: Any) -> bool:
    """Whether a cache has places for tokens that have not come yet."""
    return bool(getattr(cache, "is_compileable", False))


def _additive(mask: Any, dtype: torch.dtype) -> Any:
    """A mask that `generate` prepared for us, True = visible, as eager attention adds it."""
    if isinstance(mask, dict):
        return {name: _additive(part, dtype) for name, part in mask.items()}
    if not (isinstance(mask, Tensor) and mask.dim() == 4 and mask.dtype == torch.bool):
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _has_dropout(top: Any) -> bool:
    return any(module.training for module in top.modules())


def _values(output: Any) -> Tensor | None:
    """The logits, or the last hidden state of a model without a head, or the first numbers that it gives."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(value := getattr(output, name, None), Tensor):
            return value
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else (output,)
    numbers = (part for part in parts if isinstance(part, Tensor) and part.is_floating_point() and part.dim() > 1)
    return next(numbers, None)


def _rows(values: Tensor | None, top: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    """COMPARED rows [token, …] of an output, padding left out, in float32 or wider."""
    if values is None:
        return None
    names = list(inspect.signature(type(top).forward).parameters)[1:]
    named = {**dict(zip(names, args)), **kwargs}
    for name in ("decoder_attention_mask", "attention_mask"):
        mask = named.get(name)
        if isinstance(mask, Tensor) and mask.dim() == 2 and mask.shape == values.shape[:2]:
            values = values[mask.bool().to(values.device)]
            break
    else:
        values = values.flatten(0, 1) if values.dim() > 2 else values
    count = len(values)
    chosen = torch.linspace(0, count - 1, min(count, COMPARED), device=values.device).round().long()
    return values[chosen].detach().to(torch.promote_types(values.dtype, torch.float32))
