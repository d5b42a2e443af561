"""Statistics of all heads against `output_attentions=True`, in one run: `python benchmarks/probing.py`.

A Llama of 4 layers × 8 heads, width 512, random weights, one sequence of T tokens, float32, one thread. The plain way
is eager attention that returns all weights, from which the same statistics are then taken. Each measurement is a
process of its own: `seconds` is processor time of the second pass, `MB` the growth of its peak memory over what the
model itself holds. `sdpa` is the model's own forward pass, nothing measured.

A ratio of time is ours over sdpa's or over eager's, one of memory eager's over ours. Eager passes that would not fit in
the memory that is free are left out.
"""

import json
import os
import resource
import subprocess
import sys
import time

import torch

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
LAYERS, HEADS, WIDTH = 4, 8, 512
FREE_SHARE = 0.7  # of the free memory that an eager pass may take
COPIES = 2.5  # eager holds all layers' weights, and of the layer at work scores, softmax and a copy


def model(length: int, attention: str):
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=length,
        attn_implementation=attention,
    )
    return transformers.LlamaModel(config).eval()


def sdpa(net, ids) -> None:
    net(input_ids=ids, use_cache=False)


def fast(net, ids) -> None:
    _watched(net, ids, "fast")


def full(net, ids) -> None:
    _watched(net, ids, "full")


def _watched(net, ids, statistics: str) -> None:
    from softmaxlab.probing import watch

    with watch(net, statistics=statistics) as w:
        net(input_ids=ids, use_cache=False)
    w.report()


def eager(net, ids) -> None:
    """Sparsity, sink, entropy, effective keys, total, keys above 0.01 and column means of all heads."""
    for w in net(input_ids=ids, use_cache=False, output_attentions=True).attentions:
        w.amax(-1).mean(-1), w[..., 0].mean(-1), torch.special.entr(w).sum(-1).mean(-1)
        (1 / w.square().sum(-1)).mean(-1), w.sum(-1).mean(-1), (w > 0.01).sum(-1).float().mean(-1), w.mean(-2)


WAYS = {"sdpa": sdpa, "fast": fast, "full": full, "eager": eager}


@torch.no_grad()
def measure(way: str, length: int) -> dict[str, float]:
    """In this process: one pass on a few tokens, then two on all."""
    torch.set_num_threads(1)
    net = model(length, "eager" if way == "eager" else "sdpa")
    ids = torch.randint(1024, (1, length), generator=torch.Generator().manual_seed(0))
    WAYS[way](net, ids[:, :64])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        began = time.process_time()
        WAYS[way](net, ids)
        seconds = time.process_time() - began
    return {"seconds": seconds, "MB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def fits(way: str, length: int) -> bool:
    if way != "eager":
        return True
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (LAYERS + COPIES) * HEADS * length**2 * 4 < FREE_SHARE * free


def apart(way: str, length: int) -> dict[str, float] | None:
    if not fits(way, length):
        return None
    command = [sys.executable, __file__, way, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows() -> list[dict]:
    return [_row(length) for length in LENGTHS]


def _row(length: int) -> dict:
    found = {way: apart(way, length) for way in WAYS}
    row: dict = {"tokens": length}
    for way, numbers in found.items():
        row[f"{way}_seconds"] = numbers["seconds"] if numbers else None
        row[f"{way}_MB"] = numbers["MB"] if numbers else None
    base, plain = found["sdpa"], found["eager"]
    for way in ("fast", "full"):
        row[f"{way}_time_over_sdpa"] = found[way]["seconds"] / base["seconds"]
    row["full_time_over_eager"] = found["full"]["seconds"] / plain["seconds"] if plain else None
    row["eager_memory_over_full"] = plain["MB"] / found["full"]["MB"] if plain else None
    return row


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        for row in rows():
            print("  ".join(f"{name} {value:.3g}" if value is not None else f"{name} -" for name, value in row.items()))
