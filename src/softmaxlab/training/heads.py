"""The weights of a trained transformer's heads, as the plain arrays that `probing.from_weights` reports on."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.errors import SpecError
from softmaxlab.training.checkpoint import load
from softmaxlab.training.run import Run

if TYPE_CHECKING:
    from softmaxlab.training.model import Transformer


def attention_weights(trained: "str | Path | tuple[Transformer, Run]", samples: int | None = None) -> np.ndarray:
    """Weights [layer, head, sample, query, key] on the evaluation sequences: input of `probing.from_weights`.

    `trained` is a checkpoint's path, or a model and its spec; `samples` takes the first so many sequences. With the
    map softmax1 the weights' rest to 1 lies on no key: report it by `from_weights(…, nowhere=True)`.
    """
    from softmaxlab.training.evaluate import patterns

    model, spec = trained if isinstance(trained, tuple) else load(trained)
    tokens = spec.task.data(spec.seed, "evaluate").tokens
    if samples is not None and not 1 <= samples <= len(tokens):
        raise SpecError(f"samples must lie between 1 and {len(tokens)}, got {samples}")
    device = next(model.parameters()).device
    return patterns(model, tokens[:samples].to(device)).cpu().numpy()
