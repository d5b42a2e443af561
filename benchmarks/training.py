"""Training runs against the plain PyTorch loop, in one run: `python benchmarks/training.py`, some three minutes.

The plain way is what one would write: nn.Module with explicit softmax attention at all positions, a DataLoader that
shuffles a TensorDataset, torch's default AdamW. Same data, same model, the same weights at the start: the first loss is
checked to agree. Training alone, nothing is measured on either side.

runs    One thread, each side in a process of its own (ours keeps memory between steps, which the plain loop must not
        profit from), steps of both in turn, processor time, which other work on the machine disturbs little.
        `STEPS` steps are timed; `plain_seconds` and `our_seconds` are those of the whole run of 10 epochs: the `FIRST`
        steps, in which our side looks through all the data, times kernels and has oneDNN prepare for each size of
        batch, and the mean of the others times their number. Rows "bfloat16" are ours with `precision="bfloat16"`
        against the same plain loop in float32.
        In classification with 41 symbols all samples of a label are one set of tokens, which ours computes once; with
        161 no two samples are equal.
sweep   Two runs on two cores, wall time of `SWEEP_STEPS` steps each, scaled like above: ours as two processes with a
        thread each, the plain loop with two threads, one run after the other. The median of `REPEATS`.

`share_of_peak`: floating-point operations of the matrix products, forward and backward, over time, over that of the
fastest float32 kernel in a large product with as many threads. Ours makes fewer of them. `loss`: mean over the last ten
steps, ours and plain. A ratio is plain over ours. After the table: where the time of a step of ours goes.
"""

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from softmaxlab.core.kernels import VARIABLE, available
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.loop import batches, train
from softmaxlab.training.run import build, optimizer_of, prepare
from softmaxlab.training.tasks import Data

FIRST = 40  # steps
STEPS = {Induction: 40, Classification: 39}
SWEEP_STEPS, REPEATS = 20, 3
TURN = 5  # steps of a side before the other has its turn
PEAK_SIZE = 2048
ROUNDING = 1e-4  # float32, sums in another order
BFLOAT16 = 0.02  # relative difference of a first loss
CASES = (
    ("induction λ = 0.2", Run(Induction()), ">= 2.2"),
    ("induction λ = 0", Run(Induction(aux=0.0)), ">= 3.3"),
    ("induction λ = 0.2, bfloat16", Run(Induction(), precision="bfloat16"), ">= 3"),
    ("induction λ = 0, bfloat16", Run(Induction(aux=0.0), precision="bfloat16"), ">= 4"),
    ("classification, 1 layer, 1 head", Run(Classification(), layers=1, heads=1), ">= 12"),
    ("classification, 2 layers", Run(Classification()), ">= 16"),
    ("classification, 1 layer, 1 head, 161 symbols", Run(Classification(vocab=161), layers=1, heads=1), "-"),
    ("classification, 2 layers, 161 symbols", Run(Classification(vocab=161)), "-"),
)
SWEEP = 0  # the case of which two runs are a sweep
GROUPS = (  # of what the profiler names, the first that fits
    ("matrix products", ("mm", "linear", "bmm")),
    ("GELU and its products' epilogue", ("_MLP", "gelu")),
    ("attention between rows", ("_Scores", "_Mixed", "softmax", "masked_fill", "scaled_dot")),
    ("AdamW", ("Optimizer", "adamw")),
    ("normalisation", ("layer_norm",)),
    ("gathering rows", ("embedding", "index", "unique", "sort", "scatter")),
)


class PlainAttention(nn.Module):
    def __init__(self, d: int, heads: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        if self.causal:
            mask = torch.ones(T, T, dtype=torch.bool).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ v
        return self.o(out.transpose(1, 2).reshape(B, T, d))


class PlainBlock(nn.Module):
    def __init__(self, d: int, heads: int, causal: bool):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = PlainAttention(d, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class PlainTransformer(nn.Module):
    def __init__(self, spec: Run):
        super().__init__()
        task, d = spec.task, spec.width
        self.token = nn.Embedding(task.symbols(), d)
        self.position = None if spec.chosen_positions() == "none" else nn.Embedding(task.length(), d)
        self.blocks = nn.ModuleList(PlainBlock(d, spec.heads, task.causal()) for _ in range(spec.layers))
        self.norm, self.unembed = nn.LayerNorm(d), nn.Linear(d, task.outputs())

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens)
        if self.position is not None:
            x = x + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.norm(x))


def plain_loss(model: nn.Module, tokens: Tensor, targets: Tensor, aux: float) -> Tensor:
    logits = model(tokens)
    if targets.dim() == 1:
        return cross_entropy(logits[:, -1], targets)
    loss = cross_entropy(logits[:, -1], targets[:, -1])
    if aux > 0:
        loss = loss + aux * cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, :-1].flatten())
    return loss


def plain_steps(spec: Run, data: Data) -> Iterator[float]:
    """Losses, one for each step made."""
    model = PlainTransformer(spec)
    model.load_state_dict(build(spec).state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=spec.weight_decay)
    loader = DataLoader(TensorDataset(data.tokens, data.targets), batch_size=spec.batch, shuffle=True)
    for _ in range(spec.epochs):
        for tokens, targets in loader:
            optimizer.zero_grad()
            loss = plain_loss(model, tokens, targets, spec.task.weight_elsewhere())
            loss.backward()
            optimizer.step()
            yield loss.item()


def our_steps(spec: Run, data: Data) -> Iterator[float]:
    """Losses, one for each step made."""
    model = build(spec)
    order = batches(len(data.tokens), spec.batch, spec.epochs, spec.seed, "cpu")
    for step in train(model, data, optimizer_of(spec, model), order, spec.task.weight_elsewhere()):
        yield step.loss.item()


def check_first_losses(spec: Run, data: Data) -> None:
    """The same weights on the same batch have the same loss on both sides."""
    ours, theirs = build(spec), PlainTransformer(spec)
    theirs.load_state_dict(ours.state_dict())
    batch = torch.arange(spec.batch)
    aux = spec.task.weight_elsewhere()
    step = next(train(ours, data, optimizer_of(spec, ours), iter([(0, batch, True)]), aux))
    loss = plain_loss(theirs, data.tokens[batch], data.targets[batch], aux)
    tolerance = ROUNDING if spec.precision == "float32" else BFLOAT16
    torch.testing.assert_close(step.loss, loss.detach(), rtol=tolerance, atol=0.0)


def run_row(case: int, peak: float) -> dict:
    name, spec, target = CASES[case]
    check_first_losses(spec, spec.task.data(spec.seed, "train"))
    sides = Worker(1, case, "plain"), Worker(1, case, "ours")
    first = [side.processor_seconds(FIRST) for side in sides]
    times, losses = ([], []), ([], [])
    for _ in range(STEPS[type(spec.task)] // TURN):
        for side, its_times, its_losses in zip(sides, times, losses):
            its_times.append(side.processor_seconds(TURN) / TURN)
            its_losses += side.losses
    for side in sides:
        side.end()
    return row(name, target, spec, first, [statistics.fmean(x) for x in times], losses, flops_of(spec), peak)


def row(
    name: str, target: str, spec: Run, first: list, each: list, losses: tuple, flops: list, peak: float, runs: int = 1
) -> dict:
    """Of seconds for the first steps and for each other one of a run, (plain, ours) everywhere."""
    steps = -(-spec.task.train // spec.batch) * spec.epochs
    plain, ours = (runs * (start + (steps - FIRST) * mean) for start, mean in zip(first, each))
    plain_share, our_share = (count / mean / peak for count, mean in zip(flops, each))
    return {
        "problem": name,
        "plain_ms_per_step": 1e3 * each[0],
        "our_ms_per_step": 1e3 * each[1],
        "plain_seconds": plain,
        "our_seconds": ours,
        "ratio": plain / ours,
        "target": target,
        "plain_share_of_peak": plain_share,
        "our_share_of_peak": our_share,
        "plain_loss": statistics.fmean(losses[0][-10:]),
        "our_loss": statistics.fmean(losses[1][-10:]),
    }


def sweep_row() -> dict:
    """Two runs on two cores."""
    name, spec, _ = CASES[SWEEP]
    ours, both = [Worker(1, SWEEP, "ours"), Worker(1, SWEEP, "ours")], Worker(2, SWEEP, "plain")
    for worker in (*ours, both):
        worker.processor_seconds(TURN)  # the first steps
    plain_times, our_times = [], []
    for _ in range(REPEATS):
        plain_times.append(wall_seconds(lambda: [both.processor_seconds(SWEEP_STEPS) for _ in range(2)]))
        our_times.append(wall_seconds(lambda: [w.make(SWEEP_STEPS) for w in ours] and [w.wait() for w in ours]))
    losses = both.losses, ours[0].losses
    for worker in (*ours, both):
        worker.end()
    each = [statistics.median(side) / 2 / SWEEP_STEPS for side in (plain_times, our_times)]
    torch.set_num_threads(2)
    name = f"sweep of 2 runs on 2 cores, {name}"
    first, peak = [FIRST * mean for mean in each], matrix_peak(wall_seconds)
    return row(name, ">= 2.2", spec, first, each, losses, flops_of(spec), peak, runs=2)


class Worker:
    """A process with so many threads that makes steps of one side of a case when told to."""

    def __init__(self, threads: int, case: int, side: str):
        command = [sys.executable, __file__, "--worker", str(threads), str(case), side]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.losses: list[float] = []
        self._line()  # it is ready

    def processor_seconds(self, steps: int) -> float:
        self.make(steps)
        return self.wait()

    def make(self, steps: int) -> None:
        print(steps, file=self.process.stdin)

    def wait(self) -> float:
        seconds, *self.losses = (float(x) for x in self._line().split())
        return seconds

    def end(self) -> None:
        self.process.communicate()

    def _line(self) -> str:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError("a worker of the benchmark ended early")
        return line


def work(threads: int, case: int, side: str) -> None:
    """What a worker process does: processor seconds and losses of the steps it is told to make."""
    torch.set_num_threads(threads)
    prepare()
    _, spec, _ = CASES[case]
    data = spec.task.data(spec.seed, "train")
    steps = {"plain": plain_steps, "ours": our_steps}[side](spec, data)
    print("ready", flush=True)
    for line in sys.stdin:
        losses: list[float] = []
        seconds = processor_seconds(lambda count=int(line), kept=losses: kept.extend(islice(steps, count)))
        print(seconds, *losses, flush=True)


def shares(spec: Run) -> dict[str, float]:
    """Of the processor time of ten steps of ours, which kinds of work take how much."""
    steps = our_steps(spec, spec.task.data(spec.seed, "train"))
    list(islice(steps, TURN))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        list(islice(steps, 10))
    found = dict.fromkeys([name for name, _ in GROUPS], 0.0) | {"everything else": 0.0}
    for event in profiler.key_averages():
        group = next((name for name, parts in GROUPS if any(part in event.key for part in parts)), "everything else")
        found[group] += event.self_cpu_time_total
    return {name: time / sum(found.values()) for name, time in found.items()}


def flops_of(spec: Run) -> list[int]:
    """Of the matrix products of one step, (plain, ours). Counted with torch's kernel, the only one torch can count."""
    data, counts = spec.task.data(spec.seed, "train"), []
    os.environ[VARIABLE] = "torch"
    for steps in (plain_steps(spec, data), our_steps(spec.replace(precision="float32"), data)):
        with FlopCounterMode(display=False) as counter:
            next(steps)
        counts.append(counter.get_total_flops())
    del os.environ[VARIABLE]
    return counts


def matrix_peak(seconds_of: Callable[[Callable[[], object]], float]) -> float:
    """Floating-point operations per second of the fastest float32 kernel in a large matrix product."""
    a = torch.randn(PEAK_SIZE, PEAK_SIZE)
    times = (seconds_of(lambda kernel=kernel: kernel(a, a, None)) for kernel in available().values() for _ in range(6))
    return 2 * PEAK_SIZE**3 / min(times)


def processor_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def wall_seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def rows() -> list[dict]:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        peak = matrix_peak(processor_seconds)
        return [*(run_row(case, peak) for case in range(len(CASES))), sweep_row()]
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    table = rows()
    print("  ".join(name.replace("_", " ") for name in table[0]))
    for r in table:
        print("  ".join(f"{x:.3g}" if isinstance(x, float) else f"{x:46}" for x in r.values()))
    torch.set_num_threads(1)
    for name, spec, _ in CASES[:2]:
        parts = (f"{group} {share:.0%}" for group, share in shares(spec).items())
        print(f"where a step of ours goes, {name}: {', '.join(parts)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main()
