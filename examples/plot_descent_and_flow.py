"""
Descent, flow, and Adam
=======================

Gradient flow is the theory; a training loop makes steps. How far apart are they, and does the optimizer matter? For
gradient descent the difference is of the order of the learning rate. Adam goes elsewhere.
"""

# %%
# All runs have one start, with tokens in the order of :math:`u(0) = V(0)^\top \beta_*`, so token 0 should win.
import sys

import matplotlib.pyplot as plt
import numpy as np

import softmaxlab as sl

rng = np.random.default_rng(2)
beta = rng.standard_normal(8)
beta /= np.linalg.norm(beta)
V = 0.1 * rng.standard_normal((8, 8))
start = {"loss": "logistic", "beta": beta, "V": V[:, np.argsort(-(beta @ V))], "a": np.zeros(8)}
flow = sl.simulate(sl.polarization.Flow(**start, t_end=1e4, points=200, rtol=1e-12))

# %%
# Descent runs to the same time t = lr · steps. Its difference to the flow falls in proportion to the learning rate.
rates = np.array([0.4, 0.2, 0.1, 0.05])
specs = [sl.polarization.Descent(**start, lr=lr, steps=round(1e4 / lr), points=2) for lr in rates]
gaps = np.array([np.abs(run["a"][-1] - flow["a"][-1]).max() for run in sl.polarization.descend_many(specs)])
for lr, gap in zip(rates, gaps):
    print(f"lr {lr:4}: largest difference of scores {gap:.2e}, per lr {gap / lr:.4f}")

# %%
# Adam at its usual learning rate polarizes as well, but another token wins.
adam = sl.simulate(sl.polarization.Descent(**start, lr=1e-3, steps=20_000, optimizer="adam"))
print(f"the flow picks token {flow['weights'][-1].argmax()}, Adam token {adam['weights'][-1].argmax()}")

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
left.semilogx(flow["t"], flow["weights"])
left.set(title="flow", xlabel="time t", ylabel="weights")
middle.loglog(rates, gaps, "o-")
middle.set_xticks(rates, [f"{lr:g}" for lr in rates])
middle.set_xticks([], minor=True)
middle.set(title="descent against flow", xlabel="learning rate", ylabel="difference of scores")
right.semilogx(adam["step"], adam["weights"])
right.set(title="Adam, lr 0.001", xlabel="step", ylabel="weights")

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
