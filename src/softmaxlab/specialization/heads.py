"""The weights of all heads together from scores, and back: the closed-form gradient of a sample's loss.

    w_l = (1/H) Σ_h σ(χ, b, v; h)_l,    the sample's loss is res·U with res = w − e_1,
    U = res in the population (D → ∞), U = (X Xᵀ/D) res at finite D, held fixed when differentiating:
    c_hl = 2 Σ_k U_k ∂w_k/∂χ_hl, and likewise for b_h and v

    softmax        s_h = softmax(χ_h)                        c_hl = (2/H) s_hl (U_l − s_h·U)
    softmax-1      s_hl = e^{χ_hl}/(e^{b_h} + Σ_k e^{χ_hk})  c_hl = (2v/H) s_hl (U_l − s_h·U)
                   s_h0 = e^{b_h}/(same)                     ∂b_h = −(2v/H) s_h0 (s_h·U),  ∂v = (2/H) Σ_h s_h·U
    Bayes-softmax  s_hl = e^{χ_hl+b_h}/Σ_hk, w = Σ_h s_h     c_hl = 2 s_hl (U_l − Σ_hk s_hk U_k),  ∂b_h = Σ_l c_hl

Any other map of softmaxlab.attention goes through torch's autograd. Arrays end with the sample: χ [head, token,
sample].
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softmaxlab.attention import MAPS, weights

Pullback = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
CLOSED_FORM = ("softmax", "softmax1", "bayes_softmax")


@dataclass(frozen=True)
class Heads:
    """Weights w [token, sample], each head's part of them σ [head, token, sample] (w is its mean), and the gradient.

    `pullback(U)` gives c [head, token, sample], ∂b [head, sample] and ∂v [sample] for U [token, sample].
    """

    w: np.ndarray
    sigma: np.ndarray
    pullback: Pullback


def learns_bias(map: str) -> bool:
    return MAPS[map].takes_bias


def learns_gain(map: str) -> bool:
    """Whether v means anything: not for weights that sum to one by themselves."""
    return not (MAPS[map].row_stochastic or MAPS[map].joint)


def forward(map: str, chi: np.ndarray, b: np.ndarray, v: float) -> Heads:
    """The heads' weights of scores χ [head, token, sample], with biases b [head] and gain v."""
    return _FORWARD.get(map, lambda *arguments: _by_autograd(map, *arguments))(chi, b, v)


def residual(w: np.ndarray) -> np.ndarray:
    """w − e_0 for weights w [token, ...]: the token to be found is the first."""
    res = w.copy()
    res[0] -= 1.0
    return res


def _softmax(chi: np.ndarray, b: np.ndarray, v: float) -> Heads:
    H = len(chi)
    s = chi - chi.max(axis=1, keepdims=True)
    np.exp(s, out=s)
    s *= 1 / s.sum(axis=1, keepdims=True)

    def pullback(U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        U = (2 / H) * U
        c = U - _overlap(s, U)[:, None]
        c *= s
        return c, _zeros(H, U.shape[1]), _zeros(U.shape[1])

    return Heads(s.mean(axis=0), s, pullback)


def _softmax1(chi: np.ndarray, b: np.ndarray, v: float) -> Heads:
    H = len(chi)
    top = np.maximum(chi.max(axis=1), b[:, None])
    s, s0 = chi - top[:, None], np.exp(b[:, None] - top)
    np.exp(s, out=s)
    share = 1 / (s0 + s.sum(axis=1))
    s *= share[:, None]
    s0 *= share

    def pullback(U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        U = (2 / H) * U
        overlap = _overlap(s, U)
        dv = overlap.sum(axis=0)
        U *= v
        overlap *= v
        c = U - overlap[:, None]
        c *= s
        return c, -s0 * overlap, dv

    return Heads(v * s.mean(axis=0), v * s, pullback)


def _bayes_softmax(chi: np.ndarray, b: np.ndarray, v: float) -> Heads:
    H = len(chi)
    s = chi + b[:, None, None]
    s -= s.max(axis=(0, 1))
    np.exp(s, out=s)
    s *= 1 / s.sum(axis=(0, 1))
    w = s.sum(axis=0)

    def pullback(U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        c = s * (2 * (U - (w * U).sum(axis=0)))
        return c, c.sum(axis=1), _zeros(U.shape[1])

    return Heads(w, H * s, pullback)


def _by_autograd(map: str, chi: np.ndarray, b: np.ndarray, v: float) -> Heads:
    import torch

    samples = chi.shape[-1]
    scores = torch.tensor(chi, requires_grad=True)
    # one bias and one gain for each sample, so that their gradients come out sample by sample
    bias = torch.tensor(np.repeat(b[:, None], samples, axis=1), requires_grad=True)
    gain = torch.full((samples,), float(v), dtype=scores.dtype, requires_grad=True)

    def each(scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        given = {"bias": bias} if learns_bias(map) else {}
        return weights(map, scores[:, None, :], **given)[:, 0]

    sigma = torch.func.vmap(each, in_dims=-1, out_dims=-1)(scores, bias)
    sigma = gain * sigma if learns_gain(map) else sigma
    w = sigma.mean(dim=0)

    def pullback(U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not w.requires_grad:  # weights that depend on nothing, such as uniform ones
            return np.zeros_like(chi), np.zeros((len(chi), samples)), np.zeros(samples)
        gradients = torch.autograd.grad(
            w,
            (scores, bias, gain),
            torch.as_tensor(2 * U),
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        c, db, dv = (gradient.numpy() for gradient in gradients)
        return c, db, dv

    return Heads(w.detach().numpy(), sigma.detach().numpy(), pullback)


def _overlap(s: np.ndarray, U: np.ndarray) -> np.ndarray:
    """s_h·U of each head and sample."""
    return np.einsum("hln,ln->hn", s, U)


def _zeros(*shape: int) -> np.ndarray:
    """Zeros that take neither memory nor time."""
    return np.broadcast_to(0.0, shape)


_FORWARD = {"softmax": _softmax, "softmax1": _softmax1, "bayes_softmax": _bayes_softmax}
