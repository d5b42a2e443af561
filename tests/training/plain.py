"""The transformer and its training as one would write them: every position, every layer, weights always, no tables."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from softmaxlab.attention import attend
from softmaxlab.training.model import Transformer


def logits(model: Transformer, tokens: Tensor) -> Tensor:
    """[B, T, outputs], from the parameters of a model."""
    shape = model.shape
    x = model.token(tokens)
    if model.position is not None:
        place = model.position(torch.arange(tokens.shape[1])).expand(len(tokens), -1, -1)
        x = torch.cat([x, place], dim=-1) if shape.positions == "concat" else x + place
    mask = torch.ones(shape.length, shape.length, dtype=torch.bool).tril() if shape.causal else None
    for block in model.blocks:
        a, h = block.attention, block.norm_1(x)
        q, k, v = (linear(h).view(*h.shape[:2], shape.heads, -1).transpose(1, 2) for linear in (a.q, a.k, a.v))
        out = attend(shape.map, q, k, v, mask=mask, bias=a.bias, mlp=a.features)[0]
        if a.gate is not None:
            out = out * torch.sigmoid(a.gate(h)).transpose(1, 2)[..., None]
        x = x + a.o(out.transpose(1, 2).reshape(h.shape))
        if block.mlp is not None:
            x = x + block.mlp(block.norm_2(x))
    return model.unembed(model.norm(x))


def loss(model: Transformer, tokens: Tensor, targets: Tensor, aux: float) -> Tensor:
    found = logits(model, tokens)
    if targets.dim() == 1:
        return cross_entropy(found[:, -1], targets)
    each = cross_entropy(found.transpose(1, 2), targets, reduction="none")
    return each[:, -1].mean() + aux * each[:, :-1].mean()


def train(model: Transformer, data, order, aux: float, lr: float, weight_decay: float) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, foreach=False)
    losses = []
    for _, part, _ in order:
        optimizer.zero_grad()
        value = loss(model, data.tokens[part], data.targets[part], aux)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses
