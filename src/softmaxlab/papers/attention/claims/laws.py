"""Claims of the two papers about their maps."""

import torch

from softmaxlab.attention import weights
from softmaxlab.core.random import generator
from softmaxlab.papers.claim import Claim, Finding, within

# Sums of a few dozen float64 terms of order 1 are exact to about 1e-15; a hundredfold margin.
ROUNDING = 1e-13


def _scores(heads: int = 4, tokens: int = 32) -> torch.Tensor:
    return torch.from_numpy(3 * generator(0, "claims/scores").standard_normal((heads, tokens, tokens)))


def mean_over_heads(map: str) -> Finding:
    """Σ_l (1/H) Σ_h w_hl = 1 for every query."""
    gap = (weights(map, _scores()).mean(dim=0).sum(dim=-1) - 1).abs().max().item()
    return within(gap, ROUNDING, f"largest |Σ mean weight − 1| = {gap:.1e} over 32 queries, 4 heads")


def missing_mass(bias: float | None) -> Finding:
    """1 − Σ_l w_l = e^b/(e^b + Σe^χ): what softmax-1 leaves unused is softmax's weight on a key of score b."""
    scores, b = _scores(), 0.7
    extended = torch.cat([scores, torch.full_like(scores[..., :1], b)], dim=-1)
    predicted = weights("softmax", extended)[..., -1]
    left = 1 - weights("softmax1", scores, bias=b if bias is None else bias).sum(dim=-1)
    gap = (left - predicted).abs().max().item()
    return within(gap, ROUNDING, f"largest difference {gap:.1e} over 128 rows")


def unscaled_features(map: str) -> Finding:
    """Multiplying all scores by √d_h leaves a map unchanged if its normaliser is homogeneous."""
    from softmaxlab.attention import attend

    d_h = 16
    q, k, v = torch.from_numpy(generator(0, "claims/qkv").standard_normal((3, 2, 8, d_h)))
    _, w = attend(map, q, k, v)
    # from the formula, without 1/√d_h, as in the authors' code
    phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    raw = phi_q @ phi_k.transpose(-2, -1)
    other = raw / raw.sum(dim=-1, keepdim=True)
    gap = (w - other).abs().max().item()
    return within(gap, ROUNDING, f"largest difference of weights {gap:.1e}")


CLAIMS = (
    Claim(
        id="attention/bayes-mean",
        source="sagitova2026specialization",
        place="Eq. (4)",
        statement="The mean over heads of Bayes-softmax weights is a distribution over keys",
        tolerance=f"{ROUNDING:g}: rounding of a few dozen terms",
        judge=mean_over_heads,
        subject="bayes_softmax",
        control="softmax1",
        control_is="softmax-1, whose rows sum to less than 1",
    ),
    Claim(
        id="attention/softmax1-sink",
        source="sagitova2026specialization",
        place="Section II, softmax-1",
        statement="Softmax-1 is softmax with one more key, of score b, whose weight is dropped",
        tolerance=f"{ROUNDING:g}: rounding of a few dozen terms",
        judge=missing_mass,
        subject=None,
        control=0.0,
        control_is="softmax-1 with another bias than predicted for",
    ),
    Claim(
        id="attention/elu-elu-scale",
        source="varre2026polarization",
        place="Table 1",
        statement="With normalisation, the 1/√d_h in elu·elu attention makes no difference",
        tolerance=f"{ROUNDING:g}: rounding of a few dozen terms",
        judge=unscaled_features,
        subject="elu_elu_norm",
        control="elu_elu",
        control_is="the unnormalised map",
    ),
)
