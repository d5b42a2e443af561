"""Fold the attention sink away: give the model its sink, so that it need not make one.

    with fold_sink(model, "prefix", calibration=texts) as folded:
        model(**batch)
    print(folded.cost(other_batches))                         # Δloss ± standard error in float

`prefix` keeps the keys and values of a few sink tokens in front of every sequence (prefix.py). The model then need not
make massive activations itself, which is what ruins one scale per tensor in eight bits (quantise.py). `bias` replaces,
in heads whose sink score is above ε = 0.3, the score of the first token by a number b_h and its value by a vector v_h
(constants.py): it tells how much of the sink is more than two constants, and leaves the activations as they are. Where
the architecture has learned sinks, `bias` folds the scores into those (learned_sinks.py).

`folded.save(folder)` writes what another machine needs, without softmaxlab (deployed.py).

What is known: prefixed tokens against outliers are CushionCache and PrefixQuant (2024), which fill a cache before
quantising as here, the first with tokens searched greedily; KVSink (2025) predicts the sink tokens and keeps them in
float; StreamingLLM (2023) keeps the first tokens in the cache; a score per head is the learned sink of gpt-oss, and Sun
et al. (2024) train one with keys and values. So neither method is new in its idea. Ours are the split of a pretrained
sink into its score and its value, with what each costs, and that it is one call on any causal model of transformers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Literal

import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing.inference import Batch, as_batches, device_of, evaluating, forward
from softmaxlab.probing.interventions.learned_sinks import LearnedSinks, has_learned_sinks
from softmaxlab.probing.interventions.quantise import linear_maps, quantised
from softmaxlab.probing.interventions.sink_constants import Constants
from softmaxlab.probing.interventions.sink_prefix import Prefix
from softmaxlab.probing.next_token_loss import loss
from softmaxlab.probing.streaming.sites import root

METHODS = ("prefix", "bias")
LONGEST = 512  # tokens of a calibration text that are read
CANDIDATES = 6  # tokens tried at each place of the prefix
PLACES = 3  # the longest prefix


def fold_sink(
    model: nn.Module,
    method: Literal["prefix", "bias"] = "prefix",
    calibration: Iterable[Any] = (),
    tokenizer: Any = None,
) -> Prefix | Constants | LearnedSinks:
    """A context manager within which the model computes with its sink folded away; `calibration`: texts or batches.

    Texts need the tokenizer, which is looked up under the model's own name if none is given. Use other text to judge.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    batches = calibration_batches(model, calibration, tokenizer)
    if method == "prefix":
        return best_prefix(model, batches, tokenizer)
    return LearnedSinks(model, batches) if has_learned_sinks(model) else Constants(model, batches)


def best_prefix(model: nn.Module, batches: list[Batch], tokenizer: Any = None) -> Prefix:
    """Up to PLACES tokens, each the one that leaves the smallest loss in eight bits, as long as it falls."""
    tokens = _candidates(model, batches, tokenizer)
    best: tuple[int, ...] = ()
    lowest = float("inf")
    with Progress(PLACES * len(tokens), "choosing the prefix") as progress:
        while len(best) < PLACES:
            losses = {}
            for token in tokens:
                prefix = Prefix(model, (*best, token))
                with quantised(model), prefix:
                    losses[prefix.tokens] = loss(model, batches).mean
                progress.advance()
            longer = min(losses, key=losses.__getitem__)
            if losses[longer] >= lowest:
                break
            best, lowest = longer, losses[longer]
    return Prefix(model, best)


def calibration_batches(model: nn.Module, calibration: Iterable[Any], tokenizer: Any) -> list[Batch]:
    """Texts as one batch each, at most LONGEST tokens; batches as they are."""
    parts = [calibration] if isinstance(calibration, (str, Mapping, Tensor)) else list(calibration)
    if not parts:
        raise SpecError("calibration must hold at least one text or batch, got none")
    if not any(isinstance(part, str) for part in parts):
        return as_batches(parts)
    reader = tokenizer or _own_tokenizer(model)
    rows = [reader(text, truncation=True, max_length=LONGEST).input_ids for text in parts]
    return as_batches([torch.tensor([row]) for row in rows])


def _own_tokenizer(model: nn.Module) -> Any:
    from softmaxlab.probing.extra import transformers

    name = root(model).name_or_path
    try:
        return transformers().AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SpecError(
            f"calibration is text and no tokenizer is found under {name!r}: give tokenizer=; {line}"
        ) from None


def _candidates(model: nn.Module, batches: list[Batch], tokenizer: Any) -> list[int]:
    """The model's BOS and the tokens at which the inputs of most linear maps are largest."""
    bos = getattr(tokenizer or root(model).config, "bos_token_id", None)
    counts: Counter = Counter()
    ids: Tensor = torch.empty(0)

    def count(_: nn.Module, args: tuple) -> None:
        size = args[0].detach().abs().amax(dim=-1).view(ids.shape)
        counts.update(ids.gather(1, size.argmax(dim=1, keepdim=True).to(ids.device))[:, 0].tolist())

    with ExitStack() as undo, evaluating(model), torch.no_grad():
        for map in linear_maps(model).values():
            undo.callback(map.register_forward_pre_hook(count).remove)
        for batch in batches:
            ids = batch["input_ids"].to(device_of(model))
            forward(model, batch)
    tokens = [token for token, _ in counts.most_common(CANDIDATES)]
    return list(dict.fromkeys(tokens if bos is None else [bos, *tokens]))[:CANDIDATES]
