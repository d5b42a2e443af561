"""Per-head biases b_h with which the mean row total of a map is as wanted, from the scores of one site.

Softmax1 and Bayes-softmax need only lse_ih = log Σ_j e^{χ_ij} of each query i and head h:

    softmax1       total_ih = 1/(1 + e^{b_h − lse_ih})                 bisection
    bayes_softmax  total_ih = H e^{lse_ih + b_h}/Σ_g e^{lse_ig + b_g}  scaling rows and columns in turn (Sinkhorn)
    sigmoid        total_ih = Σ_j 1/(1 + e^{−χ_ij − b_h})              Newton's method between shrinking bounds
"""

import torch
from torch import Tensor

from softmaxlab.attention.masking import hide
from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.call import AttentionCall

Queries = tuple[AttentionCall, Tensor]  # a call and which of its queries count [B, Tq]
TOLERANCE = 1e-6  # of log(mean total): above the rounding of float32, below any use
FAR = 40.0  # e^{−40} is below the rounding of any total
HALVINGS = 60  # of a range of scores: the rounding of float64
STEPS = 100  # of Newton's method or, where that leaves the bounds, bisection
ROUNDS = 10_000  # of Sinkhorn: they cost little, and heads of very different scores need many


def nowhere_bias(read: list[Queries], target: Tensor) -> Tensor:
    """b [head] of softmax1 with mean total = target [head]."""
    lse = _lse(read, with_sink=False)
    target = target.to(lse)
    low, high = lse.amin(dim=0) - FAR, lse.amax(dim=0) + FAR
    for _ in range(HALVINGS):
        b = (low + high) / 2
        more = torch.sigmoid(lse - b).mean(dim=0) > target
        low, high = torch.where(more, b, low), torch.where(more, high, b)
    b, sink = (low + high) / 2, read[0][0].sink
    # a learned sink s is in the denominator already: e^b is what it lacks
    return b if sink is None else b + torch.log(-torch.expm1(sink.double() - b))


def equal_shares(read: list[Queries]) -> Tensor:
    """b [head] of Bayes-softmax with mean total = 1 in every head, and mean b = 0, which it does not feel."""
    lse = _lse(read, with_sink=True)
    queries, heads = lse.shape
    b = lse.new_zeros(heads)
    unit = torch.tensor(heads / queries).log()
    for _ in range(ROUNDS):
        log_total = (lse + b).log_softmax(dim=-1).logsumexp(dim=0) + unit
        if log_total.abs().max() < TOLERANCE:
            return b - b.mean()
        b = b - log_total
    raise SpecError("bayes_softmax cannot be calibrated on these batches: some heads never win a query from the others")


def unit_totals(read: list[Queries]) -> Tensor:
    """b [head] of sigmoid with mean total = 1."""
    device = read[0][0].q.device
    b = torch.zeros(read[0][0].q.shape[1], dtype=torch.float64, device=device)
    low, high = torch.full_like(b, -torch.inf), torch.full_like(b, torch.inf)
    for _ in range(STEPS):
        total, slope = _sigmoid_totals(read, b)
        error = total.log()
        if error.abs().max() < TOLERANCE:
            return b
        low, high = torch.where(error < 0, b, low), torch.where(error > 0, b, high)
        newton = b - error * total / slope
        middle = low.clamp(min=-1e3) / 2 + high.clamp(max=1e3) / 2
        b = torch.where((newton > low) & (newton < high), newton, middle)
    raise SpecError("sigmoid cannot be calibrated on these batches: no bias gives rows that sum to 1 in the mean")


def _lse(read: list[Queries], with_sink: bool) -> Tensor:
    """lse [query, head] of all queries that count, in float64."""
    parts = []
    for call, counted in read:
        tiles = [call.scores(rows, keys).double().logsumexp(dim=-1) for rows, keys in call.tiles()]
        lse = torch.cat(tiles, dim=-1)
        if with_sink and call.sink is not None:
            lse = torch.logaddexp(lse, call.sink.double()[:, None])
        parts.append(lse.transpose(1, 2)[counted])
    return torch.cat(parts)


def _sigmoid_totals(read: list[Queries], b: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over queries of Σ_j σ(χ_ij + b), and its derivative in b [head]."""
    total, slope, queries = torch.zeros_like(b), torch.zeros_like(b), 0
    for call, counted in read:
        queries += int(counted.sum())
        for rows, keys in call.tiles():
            w = torch.sigmoid(call.raw(rows, keys) + b.float()[:, None, None])
            hidden = call.hidden(rows, keys)
            w = hide(w, None if hidden is None else ~hidden) * counted[:, None, rows, None]
            total += w.sum(dim=(0, 2, 3), dtype=torch.float64)
            slope += (w * (1 - w)).sum(dim=(0, 2, 3), dtype=torch.float64)
    return total / queries, slope / queries
