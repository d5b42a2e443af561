"""One pass over the text: the tables of all heads and, of a model that has one, the loss."""

from typing import Any

import pandas
from torch import nn

from softmaxlab.cli.probe_asked import Asked
from softmaxlab.cli.probe_inputs import Inputs
from softmaxlab.probing.changes.loss import Loss, lacks_loss, loss
from softmaxlab.probing.probe import Findings, examine
from softmaxlab.probing.watch import watch


def measured(asked: Asked, model: nn.Module, given: Inputs) -> tuple[Findings, Loss | None]:
    """Ctrl-C ends it early, with what there is, and then without a loss."""
    if lacks_loss(model):
        return examine(model, given.batches, asked.statistics, asked.eps, asked.eager), None
    w, found = watch(model, statistics=asked.statistics, eps=asked.eps, eager=asked.eager), None
    try:
        with w:
            found = loss(model, given.batches)
    except KeyboardInterrupt:
        if not w.tallies:
            raise
    heads: Any = w.report()
    profile, sinks = (
        (w.profile(), w.sinks()) if asked.statistics == "full" else (pandas.DataFrame(), pandas.DataFrame())
    )
    tokens = given.tokens if found is not None else int(heads["queries"].min())
    tables = (heads, w.report("cross"), w.activations(), profile, sinks)
    return Findings(*tables, eps=asked.eps, tokens=tokens, interrupted=found is None), found
