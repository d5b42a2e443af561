"""bias="calibrated": the b_h of every head with which a mean over the calibration batches comes out as stated.

Means are over all queries that are not padding, and hold in the swapped model: each site is solved with the sites that
run before it swapped already. `total` is Σ_j w_ij over the keys.

    softmax1          mean total = total_0·(1 − sink_0), with total_0 and sink_0 those that `watch` reports of the model
                      as it is: without a learned sink, the weight on nowhere is the weight the first token had
    sigmoid           mean total = 1, as in softmax
    sigmoid_norm      mean Σ_j σ(χ_ij + b) = 1: what sums to 1 in the mean are the weights before they are normalised
    bayes_softmax     mean total = 1 for every head (a learned sink counts as a key), with mean over heads of b = 0

A model of L layers runs L times over the batches, each time one layer further.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Any

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError
from softmaxlab.probing.inference import Batch, as_batches, evaluating, forward
from softmaxlab.probing.streaming.attach import SiteState, attached
from softmaxlab.probing.streaming.call import AttentionCall
from softmaxlab.probing.streaming.tracker import ForwardTracker
from softmaxlab.probing.swap.bias_solvers import Queries, equal_shares, nowhere_bias, unit_totals
from softmaxlab.probing.swap.map_weights import use_weights, weights_of
from softmaxlab.probing.watch import watch


class _SiteRead(Exception):
    """Ends a forward pass once the site of interest has been read."""


def calibrated(model: nn.Module, map: str, batches: Iterable[Any]) -> dict[str, Tensor]:
    """b [head] for every site, by module name."""
    runs = as_batches(batches)
    biases: dict[str, Tensor] = {}
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))  # a pass that ends early cannot be compiled
        stack.enter_context(evaluating(model))
        states = {state.site.name: state for state in stack.enter_context(attached(model))}
        for state in states.values():
            stack.enter_context(use_weights(state, None, False))
        left = _left(model, states, runs)
        progress = stack.enter_context(Progress(len(left), f"calibrating {map}"))
        for name, target in left.items():
            biases[name] = _solve(map, _read(model, states[name], runs), target).float()
            stack.enter_context(use_weights(states[name], weights_of(map, lambda call, name=name: biases[name]), False))
            progress.advance()
    return biases


def _left(model: nn.Module, states: dict[str, SiteState], runs: list[Batch]) -> dict[str, Tensor]:
    """total_0·(1 − sink_0) [head] of each site, in the order in which they run."""
    calls: Counter[str] = Counter()

    def count(state: SiteState, call: AttentionCall, out: Tensor) -> None:
        calls[state.site.name] += 1

    with watch(model, statistics="fast") as w, ExitStack() as stack:
        for state in states.values():
            state.observers.append(count)
            stack.callback(state.observers.remove, count)
        for run in runs:
            forward(model, run)
    for name in states:
        if calls[name] != len(runs):
            raise SpecError(
                f"calibration needs {name} to run once for every batch, and it ran {calls[name]} times for {len(runs)}"
            )
    tables = [w.report("self"), w.report("cross")]
    heads = pandas.concat([table for table in tables if len(table)])
    heads["left"] = heads["total"] * (1 - heads["sink"])
    left = {name: torch.tensor(heads.loc[heads["module"] == name, "left"].tolist()) for name in calls}
    for name, share in left.items():
        if not ((share > 0) & (share < 1)).all():
            raise SpecError(f"calibration needs more than one token a text: heads of {name} see only the first")
    return left


def _read(model: nn.Module, state: SiteState, runs: list[Batch]) -> list[Queries]:
    """The calls of a site on every batch, and which of their queries count."""
    queries: list[Queries] = []
    tracker = ForwardTracker([state.site])

    def read(state: SiteState, call: AttentionCall, out: Tensor) -> None:
        layout = tracker.layout(state.site, call.shape, call.mask, call.q.device)
        queries.append((call, layout.counted))
        raise _SiteRead

    state.observers.append(read)
    try:
        for run in runs:
            with suppress(_SiteRead):
                forward(model, run)
    finally:
        state.observers.remove(read)
        tracker.close()
    return queries


def _solve(map: str, read: list[Queries], left: Tensor) -> Tensor:
    if map == "softmax1":
        return nowhere_bias(read, left)
    return equal_shares(read) if map == "bayes_softmax" else unit_totals(read)
