"""The transformer: pre-norm blocks as in GPT-2, with any attention map. One file, read downward.

    x = token + position;   x += Attention(LN(x));   x += MLP(LN(x));   logits = W LN(x)

Shapes: B samples, T positions, d width, H heads, d_h = d/H. What is equal is computed once (deduplicate.py): the first
block reads one row for each different pair of token and position; in a causal model a later block may read one for
each different prefix, and attention reads them where they are (prefix_attention.py). The last block's queries, its MLP
and the logits are computed only at the positions `wanted`. `Trace` holds the weights when asked for; without it softmax
runs fused.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from softmaxlab.attention import MAPS, feature_mlp
from softmaxlab.attention.attend import attend_features, features_of
from softmaxlab.core.kernels import Linear, Precision
from softmaxlab.training.deduplicate import EVERYWHERE, LAST, Places, Prefixes, spread
from softmaxlab.training.mlp import MLP
from softmaxlab.training.prefix_attention import attend_rows, pays_off

WITHOUT_BIAS = ("sigmoid", "sigmoid_norm")  # which could have one, but have none in the paper


@dataclass(frozen=True)
class Shape:
    """The shape of a transformer and its parts."""

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
    precision: Precision = "float32"


@dataclass
class Trace:
    """The weights [B, H, query, key] of each layer."""

    weights: list[Tensor] = field(default_factory=list)


class Attention(nn.Module):
    """H heads of one map; q, k, v and o with bias. With `gate`, each head's output is multiplied by sigmoid(W x)_h."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.visible: Tensor | None
        d, self.heads, self.map = shape.width, shape.heads, shape.map
        self.q, self.k, self.v, self.o = (Linear(d, d, shape.precision) for _ in range(4))
        learns_bias = MAPS[shape.map].takes_bias and shape.map not in WITHOUT_BIAS
        self.bias = nn.Parameter(torch.zeros(self.heads)) if learns_bias else None
        self.features = feature_mlp(d // self.heads) if "mlp" in MAPS[shape.map].parameters else None
        self.gate = nn.Linear(d, self.heads) if shape.gate else None
        visible = torch.ones(shape.length, shape.length, dtype=torch.bool).tril() if shape.causal else None
        self.register_buffer("visible", visible, persistent=False)

    def forward(self, rows: Tensor, places: Places, trace: Trace | None) -> Tensor:
        """Results [B, wanted, d], or the kept ones, of normalised rows."""
        if trace is None and places.index is not None and places.kept is not None and pays_off(rows, places.index):
            return self.o(self._attend_kept(rows, places.index, places.kept))
        q = places.queries(lambda x: self._features(self.q(x)), rows)
        k = places.keys(lambda x: self._features(self.k(x)), rows)
        v = places.keys(self.v, rows)
        out = self._attend(self._split(q), self._split(k), self._split(v), places.wanted, trace)  # [B, H, wanted, d_h]
        if self.gate is not None:
            gates = torch.sigmoid(places.queries(self.gate, rows))  # [B, wanted, H]
            out = out * gates.transpose(1, 2).unsqueeze(-1)
        return self.o(places.keep(out.transpose(1, 2).flatten(2)))

    def _attend_kept(self, rows: Tensor, index: Tensor, kept: Tensor) -> Tensor:
        """Heads' outputs [P, d] at the kept places alone."""
        q, k = (self._features(f(rows)) for f in (self.q, self.k))
        out = attend_rows(self.map, q, k, self.v(rows), self.heads, index, kept, self.bias)
        if self.gate is None:
            return out
        gates = torch.sigmoid(spread(self.gate(rows), index.flatten()[kept]))  # [P, H]
        return (out.unflatten(-1, (self.heads, -1)) * gates.unsqueeze(-1)).flatten(-2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, wanted: slice, trace: Trace | None) -> Tensor:
        visible = None if self.visible is None or wanted == LAST else self.visible[wanted]  # the last query sees all
        if self.map == "softmax" and trace is None:
            if visible is not None and wanted == EVERYWHERE:
                return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        out, weights = attend_features(self.map, q, k, v, mask=visible, bias=self.bias)
        if trace is not None:
            trace.weights.append(weights)
        return out

    def _features(self, x: Tensor) -> Tensor:
        """Features of queries or keys, for the maps that have them: [..., d] → [..., d]."""
        if MAPS[self.map].features is None:
            return x
        return features_of(self.map, x.unflatten(-1, (self.heads, -1)), self.features).flatten(-2)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Attention, then an MLP, each added to what it read."""

    def __init__(self, shape: Shape):
        super().__init__()
        d = shape.width
        self.norm_1, self.norm_2 = (nn.LayerNorm(d) if shape.layernorm else nn.Identity() for _ in range(2))
        self.attention = Attention(shape)
        self.mlp = MLP(d, shape.precision) if shape.mlp else None

    def forward(self, x: Tensor, places: Places, trace: Trace | None) -> Tensor:
        x = places.rows_of_results(x) + self.attention(self.norm_1(x), places, trace)
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
        self.unembed = Linear(shape.width, shape.outputs, shape.precision)

    def forward(self, tokens: Tensor, wanted: slice = EVERYWHERE, trace: Trace | None = None) -> Tensor:
        return self.logits(*self.rows(tokens), wanted, trace)

    def rows(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The different (token, position) pairs, as numbers [R], and which of them stands where, [B, T]."""
        if self.position is None:
            return torch.arange(self.shape.symbols, device=tokens.device), tokens
        pairs = tokens * self.shape.length + torch.arange(tokens.shape[1], device=tokens.device)
        return torch.unique(pairs, return_inverse=True)

    def logits(
        self, pairs: Tensor, index: Tensor, wanted: slice, trace: Trace | None = None, prefixes: Prefixes | None = None
    ) -> Tensor:
        """Return the logits from rows and prefixes that a training loop finds out once. A trace is without prefixes."""
        x = self.embed(pairs)
        later, kept = (None, None) if prefixes is None else (prefixes.index, prefixes.place)
        before_last = Places(index, EVERYWHERE, kept)
        for block in self.blocks[:-1]:
            x = block(x, before_last, trace)
            before_last = Places(later, EVERYWHERE, kept)
        last = before_last if wanted == EVERYWHERE else Places(before_last.index, wanted)
        logits = self.unembed(self.norm(self.blocks[-1](x, last, trace)))
        return logits if later is None or last.kept is None else spread(logits, later)

    def embed(self, pairs: Tensor) -> Tensor:
        """x [R, d] of (token, position) pairs."""
        if self.position is None:
            return self.token(pairs)
        token, position = self.token(pairs // self.shape.length), self.position(pairs % self.shape.length)
        return torch.cat([token, position], dim=-1) if self.shape.positions == "concat" else token + position
