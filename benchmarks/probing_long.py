"""Statistics of a long sequence from a sample of its queries: `python benchmarks/probing_long.py`.

A Llama of 4 layers × 8 heads, width 64, random weights, one sequence, float32, one thread, 1,024 queries sampled. A
pass is measured once: `own` is the processor time of the model itself, `measuring` that of the statistics in the same
pass. `extra_MB` is the growth of the peak memory over a pass of the same model on the same tokens with nothing measured
(at 131,072 tokens, to save a pass of minutes, over the model before any pass). At 16,384 tokens the sample is compared
with all queries: how many of the means are how many standard errors apart.
"""

import json
import resource
import subprocess
import sys
import time

import torch

LENGTHS, COMPARED = (16_384, 131_072), 16_384
LAYERS, HEADS, WIDTH, QUERIES = 4, 8, 64, 1024
MEANS = ("sparsity", "sink", "entropy", "entropy_normalised", "effective_keys", "sink_output")
SHARPER = 12.0  # queries times this: heads that differ from uniform attention


def model(length: int):
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1024, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=length,
    )  # fmt: skip
    net = transformers.LlamaModel(config).eval()
    for layer in net.layers:
        layer.self_attn.q_proj.weight.data *= SHARPER
    return net


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.no_grad()
def measure(length: int) -> dict[str, float]:
    """In this process."""
    from softmaxlab.probing import watch

    class Timed(watch):
        seconds = 0.0

        def _add_call(self, *call) -> None:
            began = time.process_time()
            super()._add_call(*call)
            self.seconds += time.process_time() - began

    torch.set_num_threads(1)
    net = model(length)
    ids = torch.randint(1024, (1, length), generator=torch.Generator().manual_seed(0))
    with watch(net, queries=QUERIES) as w:
        net(input_ids=ids[:, :64], use_cache=False)
    if length == COMPARED:
        net(input_ids=ids, use_cache=False)
    before, began = peak(), time.process_time()
    with Timed(net, queries=QUERIES) as w:
        net(input_ids=ids, use_cache=False)
    sampled, total = w.report(), time.process_time() - began
    row = {"tokens": length, "own_seconds": total - w.seconds, "measuring_seconds": w.seconds}
    row |= {"time_over_own": total / (total - w.seconds), "extra_MB": peak() - before}
    if length == COMPARED:
        with watch(net) as w:
            net(input_ids=ids, use_cache=False)
        full = w.report()
        apart = torch.stack([
            torch.tensor(((sampled[c] - full[c]).abs() / sampled[f"{c}_sampling_se"]).to_numpy()) for c in MEANS
        ])  # fmt: skip
        row |= {"means": apart.numel(), "beyond_3_se": int((apart > 3).sum()), "largest_in_se": float(apart.max())}
    return row


def rows() -> list[dict]:
    made = []
    for length in LENGTHS:
        command = [sys.executable, __file__, str(length)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        made.append(json.loads(done.stdout.splitlines()[-1]))
    columns = list(dict.fromkeys(name for row in made for name in row))
    return [{name: row.get(name, "") for name in columns} for row in made]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        for row in rows():
            print("  ".join(f"{name} {value}" for name, value in row.items()))
