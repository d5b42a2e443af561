"""Does measuring leave the model as it is? Compare its output on one batch with and without us."""

from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.inference import Batch, evaluating, forward
from softmaxlab.probing.streaming.sites import root
from softmaxlab.probing.watch import watch

# Largest difference over largest |logit|. The same sums in another order differ by rounding, which layers amplify: 1e-4
# is about a thousand roundings of float32, and half precision has eight to eleven bits. A lost mask moves far more.
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}
HALF_TOLERANCE = 5e-2


def compare_logits(model: nn.Module, batch: Batch, eager: bool = False) -> dict[str, Any]:
    """Run a batch with and without `watch`: relative difference and what is allowed; raise a SpecError if it is more.

    The outputs are the logits, or the last hidden state of a model without a head; those of padding do not count.
    """
    with evaluating(model), torch.no_grad():
        plain = _output(model, batch)
        with watch(model, statistics="fast", eager=eager):
            watched = _output(model, batch)
    scale = plain.abs().max().item()
    relative = (watched - plain).abs().max().item() / scale if scale > 0 else float(not torch.equal(watched, plain))
    allowed = TOLERANCE.get(root(model).dtype, HALF_TOLERANCE)
    if not relative <= allowed:  # NaN stops too
        raise SpecError(
            f"measuring would change model {type(root(model)).__name__}: its output moves by {relative:.2g} of its "
            f"largest entry on the first batch, at most {allowed:g} is allowed, so its numbers would be those of "
            f"another model{'' if eager else '; --eager may measure it'} (--no-compare-logits measures it all the same)"
        )
    return {"relative": relative, "allowed": allowed, "tokens": int(plain.shape[0])}


def _output(model: nn.Module, batch: Batch) -> Tensor:
    """The output [token, …] of every token that is not padding, in float32."""
    out = forward(model, batch)
    values = out.logits if getattr(out, "logits", None) is not None else out.last_hidden_state
    mask = batch.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == values.shape[:2]:
        return values[mask.bool().to(values.device)].float()
    return values.flatten(0, 1).float()
