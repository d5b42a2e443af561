"""
Fine-tuning with softmax-1
==========================

Softmax-1 lets a head attend nowhere: :math:`w_l = e^{\\chi_l}/(e^{b_h} + \\sum_k e^{\\chi_k})`, and is softmax for
:math:`b_h \\to -\\infty`. A model that was trained with softmax is given this map, with a bias per head, and the
model and the biases are trained further.
"""

# %%
# We train a small byte-level language model for a moment on the source of this library's attention maps.
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import transformers

import softmaxlab as sl
from softmaxlab.probing.swap.swapped import swapped

STEPS = 60
torch.manual_seed(0)
transformers.logging.set_verbosity_error()
folder = Path(sl.attention.__file__).parent
text = torch.tensor(list(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))))
size = {"vocab_size": 256, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size))


def batch(samples=8, length=32):
    start = torch.randint(len(text) - length, (samples,))
    return text[start[:, None] + torch.arange(length)]


def train(parameters, steps):
    optimizer, losses = torch.optim.AdamW(parameters), []
    for _ in range(steps):
        ids = batch()
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate():
    ids = text[: 32 * 32].view(32, 32)
    return model(input_ids=ids, labels=ids).loss.item()


before = train([{"params": model.parameters(), "lr": 3e-3}], steps=STEPS)
print(f"softmax: loss {evaluate():.3f}")

# %%
# ``learn=True`` makes the biases of the swap parameters, one tensor [head] per layer. They need a larger step than the
# weights. Every head of this little model raises its bias: it attends nowhere rather than to all of the past.
swap = swapped(model, "softmax1", bias=0.0, learn=True)
weights = list(model.parameters())  # in the block the biases are among them
path = []
with swap:
    print(f"softmax1, as swapped in: loss {evaluate():.3f}")
    after = []
    both = [{"params": weights, "lr": 3e-3}, {"params": swap.parameters(), "lr": 5e-2}]
    for _ in range(STEPS // 10):
        after += train(both, steps=10)
        path.append(torch.cat(swap.parameters()).detach())
    print(f"softmax1, fine-tuned: loss {evaluate():.3f}")
for layer, b in enumerate(swap.bias.values()):
    print(f"layer {layer}: b_h = {', '.join(f'{x:+.2f}' for x in b.tolist())}")

# %%
# ``swap.bias`` with ``save_swapped`` keeps model and map together; see the guide on drop-in maps.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(range(STEPS), before, "C0", range(STEPS, 2 * STEPS), after, "C1")
left.set(title="softmax, then softmax-1", xlabel="step", ylabel="loss")
right.plot(range(STEPS + 10, 2 * STEPS + 10, 10), torch.stack(path))
right.set(title="bias of each head", xlabel="step", ylabel="$b_h$")

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
