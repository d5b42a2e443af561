"""
A loss of your own
==================

Does a loss of your choice polarize softmax weights? There are two ways to ask.

A loss of the output :math:`\\beta = V s` can be registered. Then it works wherever a loss is named: in flows, in
descents, for every map and model. Anything else, here two heads that share one output, goes to ``gradient_flow``, which
takes any differentiable function of named tensors.
"""

# %%
# The exponential loss is registered. Its gradient stays along :math:`\beta_*`, as that of the logistic loss does, so
# its flow runs along the same orbit at its own speed.
import sys

import matplotlib.pyplot as plt
import numpy as np
import torch

import softmaxlab as sl


@sl.polarization.register
def exponential(output, beta):
    return torch.exp(-output @ beta)


rng = np.random.default_rng(0)
beta = np.array([1.0, 0.0, 0.0, 0.0])
start = {"beta": beta, "V": 0.3 * rng.standard_normal((4, 5)), "a": np.zeros(5)}
own = sl.simulate(sl.polarization.Flow("exponential", **start, t_end=1e6, points=60))
logistic = sl.simulate(sl.polarization.Flow("logistic", **start, t_end=1e6, points=60))
print(f"largest weight: {own['weights'][-1].max():.4f} (exponential), {logistic['weights'][-1].max():.4f} (logistic)")


# %%
# ``gradient_flow`` takes any function of named tensors. Here two heads with their own scores and values add up their
# outputs.
def two_heads(V, a, W, c):
    output = V @ torch.softmax(a, dim=0) + W @ torch.softmax(c, dim=0)
    return torch.nn.functional.softplus(-output @ torch.as_tensor(beta))


tensors = {"V": start["V"], "a": np.zeros(5), "W": 0.3 * rng.standard_normal((4, 5)), "c": np.zeros(5)}
heads = sl.polarization.gradient_flow(two_heads, tensors, t_end=1e6, points=60, rtol=1e-7)
weights = {name: np.exp(heads[name]) / np.exp(heads[name]).sum(axis=1, keepdims=True) for name in "ac"}
print(f"largest weights of two heads: {weights['a'][-1].max():.4f} and {weights['c'][-1].max():.4f}")

# %%
# Both heads polarize, each to the token with the largest value of its own.
figure, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(9, 3.2), layout="constrained")
left.semilogx(own["t"], own["weights"], "C0-", logistic["t"], logistic["weights"], "C1--")
left.set(title="exponential (lines) and logistic (dashes)", xlabel="time t", ylabel="weights")
right.semilogx(heads["t"], weights["a"], "C0-", heads["t"], weights["c"], "C1--")
right.set(title="first head (lines) and second (dashes)", xlabel="time t")

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
