"""What `SinkMonitor` costs a training: `python benchmarks/probing_training.py`.

A Llama of 4 layers × 8 heads, width 128, batches of 4 × 128 tokens, AdamW, one thread, processor seconds. One run
of 200 steps with `every=100`: `monitor` is the time inside the monitor's hook and its `step`, `training` all the rest
of the same run, so other work on the machine does not matter to their ratio.
"""

import time

import torch

STEPS, EVERY = 200, 100
LAYERS, HEADS, WIDTH, BATCH, TOKENS = 4, 8, 128, 4, 128


def rows() -> list[dict]:
    import transformers

    from softmaxlab.probing import SinkMonitor

    class Timed(SinkMonitor):
        seconds = 0.0

        def _before(self, *inputs) -> None:
            began = time.process_time()
            super()._before(*inputs)
            self.seconds += time.process_time() - began

        def step(self):
            began = time.process_time()
            row = super().step()
            self.seconds += time.process_time() - began
            return row

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1024, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=TOKENS,
    )  # fmt: skip
    net = transformers.LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    with Timed(net, every=10) as monitor:  # once before the clock: what is imported and compiled at the first use
        _train(net, optimizer, monitor, 10)
    with Timed(net, every=EVERY) as monitor:
        began = time.process_time()
        _train(net, optimizer, monitor, STEPS)
        total = time.process_time() - began
    training = total - monitor.seconds
    row = {"steps": STEPS, "every": EVERY, "rows": len(monitor.rows), "training_seconds": training}
    return [row | {"monitor_seconds": monitor.seconds, "overhead": monitor.seconds / training}]


def _train(net, optimizer, monitor, steps: int) -> None:
    for step in range(steps):
        ids = torch.randint(1024, (BATCH, TOKENS), generator=torch.Generator().manual_seed(step))
        net(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step()


if __name__ == "__main__":
    for row in rows():
        print("  ".join(f"{name} {value:.4g}" for name, value in row.items()))
