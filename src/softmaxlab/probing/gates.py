"""Gated attention: the output of head h at a token x is multiplied by sigmoid(W x + b)_h, learned with the model."""

from typing import Any

import torch
from torch import Tensor, nn


def add_gates(model: Any) -> None:
    """Give each attention module of a Llama a gate, a linear map from the hidden state to its heads."""
    heads = model.config.num_attention_heads
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.gate = nn.Linear(model.config.hidden_size, heads)
        attention.register_forward_pre_hook(_remember, with_kwargs=True)
        attention.o_proj.register_forward_pre_hook(_gated(attention))


def _remember(attention: nn.Module, args: tuple, kwargs: dict) -> None:
    attention.gated_by = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]


def _gated(attention: Any):
    def before(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        gates = torch.sigmoid(attention.gate(attention.gated_by))  # [B, T, H]
        return ((args[0].unflatten(-1, (gates.shape[-1], -1)) * gates.unsqueeze(-1)).flatten(-2),)

    return before
