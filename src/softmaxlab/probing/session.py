"""A whole probe: load a model, cut the text, measure, change the model and measure again.

    report = ProbeSession(ProbeOptions("smollm2", swap=(SwapOption("softmax1", -5.0),))).run()
    report.tables()["heads"], report.document(), report.recommendations()

`softmaxlab probe` and the report's page of a real model are thin callers of this.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.eager_check import check_against_eager, longest_checked
from softmaxlab.probing.head_similarity import redundancy
from softmaxlab.probing.heads import HeadTables, measure_heads
from softmaxlab.probing.inference import evaluating, forward
from softmaxlab.probing.interventions.fold_sink import fold_sink
from softmaxlab.probing.interventions.learned_sinks import LearnedSinks
from softmaxlab.probing.interventions.prune import prune, pruned
from softmaxlab.probing.interventions.quantise import dynamic_int8, lacks_int8, quantised
from softmaxlab.probing.interventions.sink_constants import Constants
from softmaxlab.probing.interventions.sink_prefix import Prefix
from softmaxlab.probing.load import Loaded, load
from softmaxlab.probing.next_token_loss import change, lacks_loss, loss
from softmaxlab.probing.options import ProbeOptions
from softmaxlab.probing.options import SwapOption as SwapOption
from softmaxlab.probing.recommendations import dormant, ranges
from softmaxlab.probing.report import ProbeReport
from softmaxlab.probing.sampling import ProbeInputs, SamplingOptions, sample_inputs
from softmaxlab.probing.streaming.attach import refuse_unswitchable
from softmaxlab.probing.streaming.eager import capture_weights, eager_sites
from softmaxlab.probing.streaming.sites import Site, root, sites, text_sites
from softmaxlab.probing.summary import Subject
from softmaxlab.probing.swap.swapped import swapped
from softmaxlab.probing.text import texts

PATTERN_TOKENS = 64  # tokens of a kept attention pattern
FLOP_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (0.0, "k"))


class ProbeSession:
    """Run a probe as its options say; `announce` is told in one line what will be measured, before the work starts."""

    def __init__(
        self,
        options: ProbeOptions,
        announce: Callable[[str], None] = lambda line: None,
        on_load: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.options, self._announce, self._on_load = options, announce, on_load

    def run(self) -> ProbeReport:
        """Measure everything. Ctrl-C ends it early, with what there is, once something has been measured."""
        options = self.options
        self.corpus = texts(options.text)
        self.loaded = self._load(options.model, options.revisions[0] if options.revisions else None)
        self.inputs = self._sample(self.loaded, options.length)
        self._check_model()
        self._announce_work()
        self.report = self._new_report()
        steps: list[tuple[Any, Callable[[], None]]] = [
            (True, self._measure_model),
            (options.attention, self._keep_patterns),
            (options.check, self._check_against_eager),
            (not options.eager, self._remove_dormant),
            (options.swap, self._measure_swaps),
            (options.mitigate, self._mitigate),
            (options.prune, self._prune),
            (options.compare, self._measure_others),
            (options.revisions, self._measure_revisions),
        ]
        try:
            for is_wanted, step in steps:
                if is_wanted:
                    step()
        except KeyboardInterrupt:
            if not self.report.subjects:
                raise
            self.report.interrupted = True
        return self.report

    # the model and its text

    def _load(self, name: str, revision: str | None) -> Loaded:
        self._on_load(name)
        options = self.options
        return load(name, device=options.device, dtype=options.dtype, device_map=options.device_map, revision=revision)

    def _sample(self, loaded: Loaded, length: int | None) -> ProbeInputs:
        options = self.options
        sampling = SamplingOptions(
            length, options.samples, options.bos, options.seed, options.batch_size, options.needs_calibration
        )
        return sample_inputs(loaded, self.corpus, sampling)

    def _self_attention(self) -> list[Site]:
        return text_sites(eager_sites(self.loaded.model))

    def _check_model(self) -> None:
        """Refuse what this model does not have, before any pass over the text."""
        options, model, layers = self.options, self.loaded.model, self._self_attention()
        if not options.eager:
            refuse_unswitchable(root(model), sites(model))
        heads_of = {site.layer: site.heads for site in layers}
        known = f"layers {ranges(heads_of)}" if len(heads_of) > 1 else f"layer {next(iter(heads_of))}"
        for layer in options.layers or ():
            if layer not in heads_of:
                raise SpecError(f"--layers: there is no layer {layer} that attends, the model has {known}")
        for layer, head in options.attention:
            if head >= heads_of.get(layer, 0):
                raise SpecError(f"--attention: there is no head {layer}.{head}, the model has {known}")
        heads = sum(site.heads for site in layers)
        if options.prune is not None and options.prune >= heads:
            raise SpecError(f"--prune {options.prune}: the model has only {heads} heads")
        if (options.mitigate or options.prune) and (reason := lacks_loss(model)):
            raise SpecError(f"--{'mitigate' if options.mitigate else 'prune'} is judged by the loss: {reason}")

    def _announce_work(self) -> None:
        model, layers, inputs = root(self.loaded.model), self._self_attention(), self.inputs
        parameters, heads = model.num_parameters(), sum(site.heads for site in layers)
        flop = 2 * parameters * inputs.tokens
        unit, letter = next((unit, letter) for unit, letter in FLOP_UNITS if flop >= unit)
        size = f"{len(layers)} layers, {heads} heads, {parameters / 1e6:,.4g} M parameters in {_dtype(model)}"
        cost = f"{flop / (unit or 1e3):.3g} {letter}FLOP a pass"
        self._announce(f"{self.loaded.name}: {size}; {inputs.amount} of {self.corpus.name!r}, {cost}; {inputs.token_0}")
        if calibration := self._calibration_text():
            self._announce(f"fitting on {calibration}")

    def _calibration_text(self) -> str | None:
        if not self.inputs.calibration_lengths:
            return None
        return f"{self.inputs.calibration_amount.rstrip(',')} of {self.corpus.name!r}, none of which is measured"

    def _new_report(self) -> ProbeReport:
        loaded, inputs, model = self.loaded, self.inputs, root(self.loaded.model)
        about_model = {"name": loaded.name, "class": type(model).__name__, "kind": loaded.kind, "sha256": loaded.sha256}
        about_model |= {"hashed": loaded.hashed, "parameters": model.num_parameters(), "dtype": _dtype(model)}
        about_text = {
            "name": self.corpus.name,
            "sha256": self.corpus.sha256,
            "T": inputs.length,
            "sequences": len(inputs.lengths),
            "amount": inputs.amount,
            "tokens": inputs.tokens,
            "lengths": inputs.lengths,
            "token_0": inputs.token_0,
            "uniform_sink": inputs.uniform_sink,
            "calibration": self._calibration_text(),
        }
        return ProbeReport(about_model, about_text, self.options.settings(), _token_text(loaded.tokenizer))

    # subjects: the model, its swaps, other models

    def _measure(self, loaded: Loaded, inputs: ProbeInputs) -> HeadTables:
        options, has_loss = self.options, not lacks_loss(loaded.model)
        return measure_heads(
            loaded.model, inputs.batches, options.statistics, options.eps, options.eager, has_loss,
            options.compare_logits, options.queries,
        )  # fmt: skip

    def _measure_model(self) -> None:
        loaded, revisions = self.loaded, self.options.revisions
        if reason := lacks_loss(loaded.model):
            self.report.notes.append(f"no loss: {reason}")
        tables = self._measure(loaded, self.inputs)
        self.report.subjects.append(Subject(f"{loaded.name}@{revisions[0]}" if revisions else loaded.name, tables))
        if gated := tables.heads.attrs.get("gated"):
            self.report.notes.append(
                f"sink_output and dormant heads are not known behind gates, in {len(gated)} layers such as {gated[0]}"
            )
        if tables.logits is not None:
            self.report.parts["logits"] = tables.logits
        if tables.interrupted:
            raise KeyboardInterrupt

    def _measure_variant(self, label: str, loaded: Loaded, inputs: ProbeInputs, comparable: bool = True) -> None:
        """Measure a changed model, and what the change costs."""
        tables = self._measure(loaded, inputs)
        if tables.interrupted:
            raise KeyboardInterrupt
        before, after = self.report.subjects[0].loss, tables.loss
        cost = change(before, after) if comparable and before is not None and after is not None else None
        self.report.subjects.append(Subject(label, tables, cost))

    def _measure_swaps(self) -> None:
        for swap in self.options.swap:
            calibration = self.inputs.calibration if swap.is_calibrated else None
            with swapped(self.loaded.model, swap.map, swap.bias, calibration=calibration):
                self._measure_variant(str(swap), self.loaded, self.inputs)

    def _measure_others(self) -> None:
        for name in self.options.compare:
            other = self._load(name, None)
            self._measure_other(other.name, other)

    def _measure_revisions(self) -> None:
        for revision in self.options.revisions[1:]:
            self._measure_other(f"{self.options.model}@{revision}", self._load(self.options.model, revision))

    def _measure_other(self, label: str, other: Loaded) -> None:
        """Measure another model on the same text, cut by its own tokenizer at the same length."""
        inputs = self._sample(other, self.inputs.length)
        comparable = self.inputs.has_same_tokens(inputs)
        if not comparable:
            first = self.report.subjects[0].label
            self.report.notes.append(f"{label} reads other tokens than {first}: losses per token do not compare")
        self._measure_variant(label, other, inputs, comparable)

    # parts beside the tables

    def _keep_patterns(self) -> None:
        """Keep the weights of some heads on the first tokens of the first sequence."""
        model, weights_of_layer = self.loaded.model, {}

        def keep(site: Site, weights: Tensor) -> None:
            if not site.cross and site.reads_text:
                weights_of_layer[site.layer] = weights[0].float().cpu()

        batch = {name: value[:, :PATTERN_TOKENS] for name, value in self.inputs.first.items()}
        with evaluating(model), torch.no_grad(), capture_weights(model, eager_sites(model), keep):
            forward(model, batch)
        report = self.report
        report.pattern_tokens = [report.token_text(int(id)) for id in batch["input_ids"][0]]
        report.patterns = {
            f"{layer}.{head}": weights_of_layer[layer][head].numpy() for layer, head in self.options.attention
        }

    def _check_against_eager(self) -> None:
        """Check the beginnings of all sequences, and the first one at its full length or as far as memory goes."""
        longest = longest_checked(max(site.heads for site in self._self_attention()))
        first = {name: value[:, :longest] for name, value in self.inputs.first.items()}
        check = check_against_eager(self.loaded.model, [self.inputs.prefix, first], self.options.eps)
        self.report.parts["check"] = check | {"longest": min(longest, self.inputs.first["input_ids"].shape[1])}

    def _remove_dormant(self) -> None:
        """Measure what removing all dormant heads at once costs, on the text that is measured."""
        first = self.report.subjects[0]
        rows = dormant(first.tables.heads, self.options.eps)
        heads = [(int(layer), int(head)) for layer, head in zip(rows["layer"], rows["head"])]
        if not heads or first.loss is None:
            return
        with pruned(self.loaded.model, heads):
            cost = change(first.loss, loss(self.loaded.model, self.inputs.batches))
        part = {"heads": [list(head) for head in heads], "loss_change": cost.mean, "se": cost.se, "said": str(cost)}
        self.report.parts["dormant_removed"] = part

    def _mitigate(self) -> None:
        """Measure what the sink costs in eight bits, and how much of it goes when the sink is folded away."""
        model, method, before = self.loaded.model, self.options.mitigate, self.report.subjects[0].loss
        if method is None or before is None:
            return
        folded = fold_sink(model, method, self.inputs.calibration, self.loaded.tokenizer)
        rows: list[dict[str, Any]] = []

        def add(name: str) -> float:
            cost = change(before, loss(model, self.inputs.batches))
            rows.append({"what": name, "loss_change": cost.mean, "se": cost.se, "said": str(cost)})
            return cost.mean

        with folded:
            add(f"float, {method}")
        with quantised(model):
            gap = add("int8 (W8A8, one scale per tensor)")
        with quantised(model), folded:
            left = add(f"int8, {method}")
        with quantised(model, scales="token"):
            add("int8, one scale per token for inputs")
        with quantised(model, scales="token_channel"):
            fine = add("int8, one scale per token and per channel")
        if not lacks_int8(model):
            with dynamic_int8(model):
                add("int8 kernels of torch (torch.ao, dynamic, one scale per tensor)")
            with dynamic_int8(model), folded:
                add(f"int8 kernels of torch, {method}")
        closed = (gap - left) / gap if gap > 0 else math.nan
        tokens = [self.report.token_text(token) for token in getattr(folded, "tokens", ())]
        part = {"method": method, "rows": rows, "gap_closed": closed, "tokens": tokens}
        costs = f"Int8 with one scale per tensor costs {gap:+.3f} nats, per token and channel {fine:+.3f}"
        needs = "the mitigation is for kernels with one scale per tensor" if gap > fine else "no mitigation is needed"
        who = f"{costs}: {needs}."
        self.report.parts["mitigation"] = part | {"nothing": _why_nothing(folded, gap), "who": who}

    def _prune(self) -> None:
        """Measure how alike heads are, and the loss without the least needed; they are chosen on text of their own."""
        model, inputs = self.loaded.model, self.inputs
        pairs: Any = redundancy(model, inputs.batches)
        means = {name: float(pairs[name].mean()) for name in ("weights", "outputs")}
        self.report.parts["similarity"] = {"mean": means, "pairs": pairs.to_dict("records")}
        curve: Any = prune(
            model, inputs.calibration, self.options.prune or 0, self.options.rule, judging=inputs.batches
        )
        self.report.parts["pruning"] = curve.astype(object).where(curve.notna(), None).to_dict("records")


def _why_nothing(folded: Prefix | Constants | LearnedSinks, gap: float) -> str:
    """Return why there is nothing to fold or to close; empty if there is."""
    if isinstance(folded, Constants) and not any(bool(part.heads.any()) for part in folded.constants.values()):
        return f"nothing to fold: no head has a sink score above {SINK_EPS:g} on the text fitted on"
    return "" if gap > 0 else "nothing to close: int8 costs this model nothing on this text"


def _dtype(model: Any) -> str:
    return str(model.dtype).removeprefix("torch.")


def _token_text(tokenizer: Any) -> Callable[[int], str]:
    def token_text(id: int) -> str:
        return tokenizer.decode([id]) or str(tokenizer.convert_ids_to_tokens(id))

    return token_text
