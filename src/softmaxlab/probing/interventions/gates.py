"""Gated attention: the output of head h at a token x is multiplied by sigmoid(W x + b)_h, learned with the model."""

from typing import Any

import torch
from torch import Tensor, nn


class GatedOutput(nn.Module):
    """A model's output map, behind gates of the hidden state that its attention reads in the same pass.

    Called by itself, outside of a pass, it is the output map alone.
    """

    def __init__(self, output: nn.Module, width: int, heads: int) -> None:
        super().__init__()
        self.output, self.gate = output, nn.Linear(width, heads)
        self.hidden: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.hidden is None:
            return self.output(x)
        gates = torch.sigmoid(self.gate(self.hidden))  # [B, T, H]
        self.hidden = None  # which would keep its graph
        return self.output((x.unflatten(-1, (gates.shape[-1], -1)) * gates.unsqueeze(-1)).flatten(-2))


def add_gates(model: Any) -> None:
    """Gate the heads of a Llama."""
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.o_proj = GatedOutput(attention.o_proj, model.config.hidden_size, model.config.num_attention_heads)
        attention.register_forward_pre_hook(_remember, with_kwargs=True)


def _remember(attention: Any, args: tuple, kwargs: dict) -> None:
    attention.o_proj.hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
