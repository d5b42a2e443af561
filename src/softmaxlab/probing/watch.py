"""Measure the heads of a model while it runs.

    with watch(model) as w:
        model(**batch)
    w.report()

Works inside a training loop (`every=N` measures each N-th forward pass) and around `generate`.
"""

from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError, unknown
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.streaming.activations import Activations
from softmaxlab.probing.streaming.attach import SiteState, attached, check_of
from softmaxlab.probing.streaming.call import AttentionCall
from softmaxlab.probing.streaming.eager import capture_weights, eager_sites, lacks_learned_sink, with_known_axes
from softmaxlab.probing.streaming.fast import fast_sums
from softmaxlab.probing.streaming.output_check import OutputCheck
from softmaxlab.probing.streaming.output_gates import OutputGates
from softmaxlab.probing.streaming.pattern import pattern_sums
from softmaxlab.probing.streaming.sampled_rows import FEWEST, SampledRows
from softmaxlab.probing.streaming.sites import Site, root
from softmaxlab.probing.streaming.sums import sums_of, value_sums
from softmaxlab.probing.streaming.tables import Measured, heads_table, profile_table, sinks_table
from softmaxlab.probing.streaming.tally import Tally
from softmaxlab.probing.streaming.tiles import TileStatistics, softmax_tile, weights_tile
from softmaxlab.probing.streaming.tokens import KEY, tokens_table
from softmaxlab.probing.streaming.tracker import ForwardTracker

SINK_COLUMNS = ["sequence", "position", "token", "sink_heads", "sink_weight"]
Statistics = Literal["full", "fast"]


class watch:
    """Statistics of every head, and the largest activations of every layer, over the forward passes in the block.

    `statistics="fast"` leaves out what needs every weight: sparsity, effective keys, columns, largest logits.
    `every` counts forward passes of the outermost model, of training and of evaluation alike, each micro-batch for
    itself (`generate` is one pass), and measures each N-th; `SinkMonitor` and `SinkCallback` count optimizer steps.
    `eps`: the weight above which a key counts as a sink of a sequence. `eager`:
    through the weights that the model itself returns, for models whose attention cannot be replaced. `queries`: in
    longer calls of softmax attention measure a sample of so many queries, drawn from `seed`; each mean then has its
    standard error in a column `…_sampling_se`. `tokens=True` keeps which tokens of which sequences are
    sinks or massive.

    The first pass runs once more without us: if its output is not the same (`logits` says how far apart they are), a
    SpecError stops it, because another model would be measured. `compare_logits=False` leaves that out.
    """

    def __init__(
        self,
        model: nn.Module,
        every: int = 1,
        statistics: Statistics = "full",
        eps: float = SINK_EPS,
        eager: bool = False,
        queries: int | None = None,
        seed: int = 0,
        tokens: bool = False,
        compare_logits: bool = True,
    ) -> None:
        if statistics not in ("full", "fast"):
            raise unknown("statistics", statistics, ("full", "fast"))
        if not (isinstance(every, int) and not isinstance(every, bool) and every >= 1):
            raise SpecError(f"every must be a whole number from 1, got {every!r}")
        if not 0 < eps < 1:
            raise SpecError(f"eps must lie between 0 and 1, got {eps!r}")
        if queries is not None and not (isinstance(queries, int) and queries >= FEWEST):
            raise SpecError(f"queries must be a whole number from {FEWEST}, or None for all, got {queries!r}")
        if tokens and (statistics == "fast" or eager):
            raise SpecError("tokens=True needs statistics='full' and the model's own forward, not eager=True")
        self._keeps_tokens = tokens
        self.queries, self._generator = queries, torch.Generator().manual_seed(seed)
        self.model, self.every, self.statistics, self.eps, self.eager = model, every, statistics, eps, eager
        self.compare_logits = compare_logits
        self.tallies: dict[str, Tally] = {}
        self._check: OutputCheck | None = None
        self._sites: dict[str, Site] = {}

    def __enter__(self) -> "watch":
        if self._sites:
            raise SpecError("a watch measures one block: make another with watch(model)")
        with ExitStack() as stack:
            sites = self._observe_eagerly(stack) if self.eager else self._observe_calls(stack)
            self._sites = {site.name: site for site in sites}
            self._tracker = ForwardTracker(sites, self.every)
            stack.callback(self._tracker.close)
            self._activations = Activations(root(self.model), sites, self._tracker)
            self._activations.massive = [] if self._keeps_tokens else None
            stack.callback(self._activations.close)
            self._gates = OutputGates(root(self.model), [] if self.eager else sites)
            stack.callback(self._gates.close)
            self._entered = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.close()

    def _observe_calls(self, stack: ExitStack) -> list[Site]:
        states = stack.enter_context(attached(self.model, self.compare_logits))
        self._check = check_of(self.model)
        for state in states:
            state.observers.append(self._add_call)
            stack.callback(state.observers.remove, self._add_call)
        return [state.site for state in states]

    def _observe_eagerly(self, stack: ExitStack) -> list[Site]:
        modules = eager_sites(self.model)
        self._check = stack.enter_context(capture_weights(self.model, modules, self._add_weights, self.compare_logits))
        return modules

    @property
    def logits(self) -> dict[str, Any] | None:
        """Return how far the output moved in the first pass: relative difference, what is allowed, and over how many
        tokens.

        None before the first pass, without a comparison, and for a block inside one that has compared already.
        """
        return None if self._check is None else self._check.result

    def reset(self) -> None:
        """Forget what was measured so far, so that the tables are those of the passes from here on."""
        self.tallies.clear()
        self._activations.reset()

    def report(self, kind: Literal["self", "cross"] = "self") -> pandas.DataFrame:
        """One row per layer and head; `kind="cross"` for the cross-attention of an encoder–decoder.

        `sink_output` is NaN where the output of attention is gated before it goes on; `.attrs["gated"]` names those.
        """
        table = heads_table(self._measured(kind), self.statistics)
        gated = table["module"].isin(list(self._gates.gated()))
        for column in [name for name in table.columns if name.startswith("sink_output")]:
            table[column] = table[column].mask(gated)
        table.attrs["gated"] = sorted(set(table.loc[gated, "module"]))
        return table

    def profile(self, kind: Literal["self", "cross"] = "self") -> pandas.DataFrame:
        """Mean weight α_k on each position from the first token: columns layer, head, position, weight."""
        return profile_table(self._measured(kind))

    def sinks(self, kind: Literal["self", "cross"] = "self") -> pandas.DataFrame:
        """Return the keys that are sinks: layer, head, position, token, and the share of sequences with α_k > eps."""
        return sinks_table(self._measured(kind))

    def activations(self) -> pandas.DataFrame:
        """The largest |h| after each layer, where it stands, and how far it is from the median."""
        return self._activations.table()

    def tokens(self) -> pandas.DataFrame:
        """Return the tokens of each sequence that are sinks or massive, by layer; needs `tokens=True`."""
        if not self._keeps_tokens:
            raise SpecError("tokens are kept by watch(model, tokens=True)")
        parts = []
        for layer, _, tally in self._measured("self"):
            rows = torch.cat(tally.sink_tokens) if tally.sink_tokens else torch.empty(0, 5)
            parts.append(pandas.DataFrame(rows.numpy(), columns=SINK_COLUMNS).assign(layer=layer))
        sinks = pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=[*SINK_COLUMNS, "layer"])
        whole = dict.fromkeys(("sequence", "position", "token", "layer"), int)
        massive = pandas.DataFrame(self._activations.massive or [], columns=[*KEY, "activation"])
        return tokens_table(sinks.astype(whole), massive.astype(whole))

    def _measured(self, kind: str) -> Measured:
        if kind not in ("self", "cross"):
            raise unknown("kind", kind, ("self", "cross"))
        closed = [(self._sites[name], tally.closed()) for name, tally in self.tallies.items()]
        rows = ((site.layer, site.name, tally) for site, tally in closed if site.kind == kind)
        return sorted(rows, key=lambda row: row[0])

    def _add_call(self, state: SiteState, call: AttentionCall, out: Tensor) -> None:
        if not self._tracker.running(state.site):
            return
        layout = self._tracker.layout(state.site, call.shape, call.mask, call.q.device)
        if state.gain is None:
            self._gates.add(state.site, out)
        whole, sample = layout, self._sample(state, call)
        if sample is not None:
            call, out = call.of_queries(sample.index), out.index_select(1, sample.index)
            layout = replace(layout, counted=layout.counted.index_select(1, sample.index))

        def measure(rows: slice, keys: int, counted: Tensor) -> TileStatistics:
            if state.weigh is None:
                return softmax_tile(call, rows, keys, layout.first, counted)
            tile = weights_tile(state.weigh(call, rows, keys), layout.first, counted, state.leaks_weight)
            return replace(tile, max_logit=call.scores(rows, keys).amax(dim=-1))

        fast = fast_sums(call, layout) if self.statistics == "fast" and state.weigh is None else None
        sums, first, total = fast or sums_of(call, layout, measure, sample)
        tally = self._tally(state.site)
        tally.add(sums | value_sums(call.v, layout, first, total, out, sample), whole)
        if sample is not None:
            tally.add_variance(sample.variance)

    def _sample(self, state: SiteState, call: AttentionCall) -> SampledRows | None:
        """The queries of a call that are measured; None for all of them."""
        rows = call.lengths[0]
        if self.queries is None or rows <= self.queries or state.weigh is not None or self.statistics == "fast":
            return None
        return SampledRows.draw(rows, self.queries, self._generator, call.q.device)

    def _add_weights(self, site: Site, weights: Tensor) -> None:
        if self._tracker.running(site):
            weights = with_known_axes(site, weights, None if site.cross else self._tracker.batch(site))
            if lacks_learned_sink(site.module, weights):
                raise SpecError(
                    f"{site.name} ({type(site.module).__name__}) returns weights without its learned sink, so total "
                    "and entropy would be those of another model: measure it without eager=True (--eager, --check)"
                )
            B, H, rows, keys = weights.shape
            layout = self._tracker.layout(site, (B, H, rows, keys), None, weights.device)
            self._tally(site).add(pattern_sums(weights, layout, hasattr(site.module, "sinks")), layout)

    def _tally(self, site: Site) -> Tally:
        new = Tally(self.eps, sink_tokens=[] if self._keeps_tokens else None)
        return self.tallies.setdefault(site.name, new)
