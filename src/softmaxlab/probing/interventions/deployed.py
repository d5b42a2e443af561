"""Write a folded sink to a folder that transformers and safetensors alone can use: no softmaxlab where it runs.

A folder holds the tensors, `load_prefix.py` or `load_sinks.py` (the loader, to be copied or imported) and README.md.
The model itself is not copied: the loader is called with the model that was folded.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from softmaxlab.core.files import atomic

PREFIX_LOADER = '''"""Put the sink prefix of {model}, {count} token(s), in front of every sequence."""

from safetensors.torch import load_file
from transformers import DynamicCache


def load_prefix(file="prefix.safetensors", batch=1, device="cpu"):
    tensors, cache = load_file(file, device=str(device)), DynamicCache()
    for layer in range(len(tensors) // 2):
        pair = (tensors[f"layers.{{layer}}.{{name}}"].repeat(batch, 1, 1, 1) for name in ("keys", "values"))
        cache.update(*pair, layer)
    return cache
'''
PREFIX_README = """# Sink prefix of {model}

`prefix.safetensors` holds the ids (`tokens`: {tokens}) and the keys and values of the prefix. Load the model as usual,
then

```python
import torch
from load_prefix import load_prefix

cache = load_prefix("prefix.safetensors", batch=len(input_ids), device=model.device)
logits = model(input_ids, past_key_values=cache).logits
```

A cache serves one forward pass or one sequence of them: make another for the next texts. With padding (on the right)
put {count} ones in front of the mask: `attention_mask = torch.cat([mask.new_ones(len(mask), {count}), mask], dim=1)`.
For `generate` also put the prefix's ids in front of `input_ids`. Layers keep the prefix as long as their window reaches
it.
"""
SINKS_LOADER = '''"""The learned sinks of {model}, with the folded biases in them."""

from safetensors.torch import load_file


def load_sinks(model, file="sinks.safetensors"):
    unknown = model.load_state_dict(load_file(file), strict=False).unexpected_keys
    if unknown:
        raise KeyError(f"the model has no {{unknown[0]}}")
    return model
'''
SINKS_README = """# Learned sinks of {model}

`sinks.safetensors` holds one score per head, under the names of the model's own parameters. Load the model as usual,
then

```python
from load_sinks import load_sinks

load_sinks(model, "sinks.safetensors")
```

It changes the model in place; `model.save_pretrained` keeps the change.
"""


def write_prefix(model: str, tokens: Tensor, kept: Sequence[tuple[Tensor, Tensor]], folder: str | Path) -> list[Path]:
    """Write the ids [prefix] and the keys and values [1, head, prefix, width] of every layer."""
    pairs = {f"layers.{i}.{name}": part for i, pair in enumerate(kept) for name, part in zip(("keys", "values"), pair)}
    about = {"model": model, "tokens": json.dumps(tokens.tolist()), "count": str(len(tokens))}
    files = {"load_prefix.py": PREFIX_LOADER, "README.md": PREFIX_README}
    return _write(Path(folder), "prefix.safetensors", {"tokens": tokens} | pairs, about, files)


def write_sinks(model: str, sinks: Mapping[str, Tensor], folder: str | Path) -> list[Path]:
    """Write learned sinks [head] by the names of the parameters that hold them."""
    files = {"load_sinks.py": SINKS_LOADER, "README.md": SINKS_README}
    return _write(Path(folder), "sinks.safetensors", sinks, {"model": model}, files)


def _write(
    folder: Path, name: str, tensors: Mapping[str, Tensor], about: dict[str, str], texts: Mapping[str, str]
) -> list[Path]:
    from safetensors.torch import save_file

    plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    with atomic(folder / name) as draft:
        save_file(plain, draft, metadata={"format": "pt"} | about)
    for file, text in texts.items():
        with atomic(folder / file) as draft:
            draft.write_text(text.format(**about), "utf-8")
    return [folder / name, *(folder / file for file in texts)]
