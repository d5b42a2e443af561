"""Int8 on SmolLM2, by scales, with and without a folded sink: `python benchmarks/probing_int8.py`.

The prefix is the one that `fold_sink` chose on other text (`python`); the text here is `licence`, 4 × 256 tokens.
`closed` is the share of the gap in nats that the prefix closes. `torch` are torch's own dynamic int8 kernels, the
others are simulated.
"""

from contextlib import ExitStack

import torch

PREFIX, TEXT, LENGTH, SAMPLES = (25898, 260, 25898), "licence", 256, 4


def rows() -> list[dict]:
    from softmaxlab import probing
    from softmaxlab.probing.interventions.quantise import dynamic_int8
    from softmaxlab.probing.interventions.sink_prefix import Prefix

    torch.set_num_threads(1)
    loaded = probing.load("smollm2")
    model = loaded.model
    text = probing.sequences(loaded.tokenizer, probing.texts(TEXT), LENGTH, SAMPLES)
    prefix, before = Prefix(model, PREFIX), probing.loss(model, text)
    ways = {
        "float": ExitStack,
        "tensor": lambda: probing.quantised(model),
        "token": lambda: probing.quantised(model, scales="token"),
        "token_channel": lambda: probing.quantised(model, scales="token_channel"),
        "torch": lambda: dynamic_int8(model),
    }
    made = []
    for name, way in ways.items():
        with way():
            plain = probing.change(before, probing.loss(model, text))
        with way(), prefix:
            folded = probing.change(before, probing.loss(model, text))
        row = {
            "int8": name,
            "cost": plain.mean,
            "se": plain.se,
            "with_prefix": folded.mean,
            "with_prefix_se": folded.se,
        }
        made.append(row | {"closed": (plain.mean - folded.mean) / plain.mean if plain.mean > 0 else ""})
    return made


if __name__ == "__main__":
    for row in rows():
        print("  ".join(f"{name} {value}" for name, value in row.items()))
