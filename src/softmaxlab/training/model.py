"""The transformer: pre-norm blocks as in GPT-2, with any attention map. One file, read downward.

    x = token + position;   x += Attention(LN(x));   x += MLP(LN(x));   logits = W LN(x)

Shapes: B samples, T positions, d width, H heads, d_h = d/H, V symbols. Two exact savings are built in. Rows: where x
depends on the token and its position alone (the first block), it is computed once for each of the R different pairs
that occur, not for all B·T. Wanted: the last block's queries, its MLP and the logits are computed only at the positions
whose logits are asked for. `Trace` holds the weights when asked for; without it softmax runs fused.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from softmaxlab.attention import MAPS, attend, feature_mlp

LEARNS_BIAS = ("softmax1", "bayes_softmax")  # sigmoid has none in the paper
MLP_RATIO = 4


@dataclass(frozen=True)
class Shape:
    """What a transformer is made of."""

    symbols: int
    outputs: int
    length: int
    width: int
    heads: int
    layers: int
    map: str
    positions: str
    causal: bool
    mlp: bool
    layernorm: bool
    gate: bool


@dataclass
class Trace:
    """Of each layer: weights [B, H, query, key], and the values [B, H, key, d_h] they are put on."""

    weights: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)  # the heads' outputs, [B, H, query, d_h]


class Attention(nn.Module):
    """H heads of one map; q, k, v and o with bias. With `gate`, each head's output is multiplied by sigmoid(W x)_h."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.visible: Tensor | None
        d, self.heads, self.map = shape.width, shape.heads, shape.map
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.bias = nn.Parameter(torch.zeros(self.heads)) if shape.map in LEARNS_BIAS else None
        self.features = feature_mlp(d // self.heads) if "mlp" in MAPS[shape.map].parameters else None
        self.gate = nn.Linear(d, self.heads) if shape.gate else None
        visible = torch.ones(shape.length, shape.length, dtype=torch.bool).tril() if shape.causal else None
        self.register_buffer("visible", visible, persistent=False)

    def forward(self, rows: Tensor, index: Tensor | None, wanted: slice, trace: Trace | None) -> Tensor:
        """[B, wanted, d] of normalised inputs: [B, T, d], or [R, d] with index [B, T] into them."""
        q, k, v = (self._split(linear(rows), index) for linear in (self.q, self.k, self.v))  # [B, H, T, d_h]
        q = q[:, :, wanted]
        visible = None if self.visible is None else self.visible[wanted]
        out = self._attend(q, k, v, visible, trace)  # [B, H, wanted, d_h]
        if self.gate is not None:
            gates = torch.sigmoid(_spread(self.gate(rows), index)[:, wanted])  # [B, wanted, H]
            out = out * gates.transpose(1, 2).unsqueeze(-1)
        return self.o(out.transpose(1, 2).flatten(2))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, trace: Trace | None) -> Tensor:
        if self.map == "softmax" and trace is None:
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        out, weights = attend(self.map, q, k, v, mask=visible, bias=self.bias, mlp=self.features)
        if trace is not None:
            trace.weights.append(weights)
            trace.values.append(v)
            trace.outputs.append(out)
        return out

    def _split(self, x: Tensor, index: Tensor | None) -> Tensor:
        return _spread(x, index).unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Attention, then an MLP, each added to what it read."""

    def __init__(self, shape: Shape):
        super().__init__()
        d = shape.width
        self.norm_1, self.norm_2 = (nn.LayerNorm(d) if shape.layernorm else nn.Identity() for _ in range(2))
        self.attention = Attention(shape)
        self.mlp = None
        if shape.mlp:
            self.mlp = nn.Sequential(nn.Linear(d, MLP_RATIO * d), nn.GELU(), nn.Linear(MLP_RATIO * d, d))

    def forward(self, x: Tensor, index: Tensor | None, wanted: slice, trace: Trace | None) -> Tensor:
        out = self.attention(self.norm_1(x), index, wanted, trace)
        x = _spread(x, index)[:, wanted] + out
        return x if self.mlp is None else x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    """Logits [B, wanted, outputs] of tokens [B, T]."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        part = shape.width // 2 if shape.positions == "concat" else shape.width  # of the width, for each embedding
        self.token = nn.Embedding(shape.symbols, part)
        self.position = None if shape.positions == "none" else nn.Embedding(shape.length, part)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width) if shape.layernorm else nn.Identity()
        self.unembed = nn.Linear(shape.width, shape.outputs)

    def forward(self, tokens: Tensor, wanted: slice = slice(None), trace: Trace | None = None) -> Tensor:
        return self.logits(*self.rows(tokens), wanted, trace)

    def rows(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The different (token, position) pairs, as numbers [R], and which of them stands where, [B, T]."""
        if self.position is None:
            return torch.arange(self.shape.symbols, device=tokens.device), tokens
        pairs = tokens * self.shape.length + torch.arange(tokens.shape[1], device=tokens.device)
        return torch.unique(pairs, return_inverse=True)

    def logits(self, pairs: Tensor, index: Tensor, wanted: slice, trace: Trace | None = None) -> Tensor:
        """From pairs and index, which a training loop computes once for all its data."""
        x, everything = self.embed(pairs), slice(None)
        for i, block in enumerate(self.blocks):
            last = i == len(self.blocks) - 1
            x = block(x, index if i == 0 else None, wanted if last else everything, trace)
        return self.unembed(self.norm(x))

    def embed(self, pairs: Tensor) -> Tensor:
        """x [R, d] of (token, position) pairs."""
        if self.position is None:
            return self.token(pairs)
        token, position = self.token(pairs // self.shape.length), self.position(pairs % self.shape.length)
        return torch.cat([token, position], dim=-1) if self.shape.positions == "concat" else token + position


def _spread(x: Tensor, index: Tensor | None) -> Tensor:
    """Rows [R, d] at the places [B, T] where they stand; x itself if it has its places already."""
    return x if index is None else functional.embedding(index, x)
