"""
Maps side by side
=================

Which normalisations of attention scores polarize? The same problem, from the same start, under five maps: softmax, the
normalised square and relu, the elementwise sigmoid, and sparsemax.
"""

# %%
# Scores start near 1, so that every map is defined there.
import sys

import matplotlib.pyplot as plt
import numpy as np

import softmaxlab as sl

rng = np.random.default_rng(1)
beta = rng.standard_normal(6)
problem = sl.polarization.Flow(
    "logistic",
    beta=beta / np.linalg.norm(beta),
    V=0.1 * rng.standard_normal((6, 6)),
    a=1 + 0.1 * rng.standard_normal(6),
    t_end=1e8,
    points=120,
)
maps = ("softmax", "square_norm", "relu_norm", "sigmoid", "sparsemax")
results = {map: sl.simulate(problem.replace(map=map)) for map in maps}

# %%
# The share of the largest weight in the total tells sparse from dense: 1 is one-hot, 1/6 uniform. The notes of a result
# say which solver ran; for relu, whose weights reach 0 in finite time, how many events it met.
for map, result in results.items():
    s = result["weights"][-1]
    print(
        f"{map:12} share {s.max() / s.sum():.4f}  total {s.sum():.3f}  {result.notes['solver']}, "
        f"{result.notes['evaluations']} evaluations, {result.notes['events']} events"
    )

# %%
# Softmax, square and relu go to one token; sigmoid lets every weight go to 1 and is dense.
figure, axes = plt.subplots(1, len(maps), sharey=True, figsize=(13, 2.8), layout="constrained")
for ax, (map, result) in zip(axes, results.items()):
    ax.semilogx(result["t"], result["weights"])
    ax.set(title=map, xlabel="time t")
axes[0].set_ylabel("weights")

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
