"""
Which map for which signal?
===========================

Softmax must spend its weight on some token, softmax-1 may spend it on none, and Bayes-softmax lets heads compete. Which
of them a signal needs depends on where it points: if heads can all be aligned with it, softmax will do.
"""

# %%
# There are three signals of the same strength: a spike that keeps its mean direction, a Gaussian that points anywhere,
# and one of four directions at a time.
import sys

import matplotlib.pyplot as plt
import numpy as np

import softmaxlab as sl

lab = sl.specialization
signals = {
    "flipping spike": lab.FlippingSpike(nu=(8.0, 8.0)),
    "Gaussian": lab.Gaussian(F=2, nu=(8.0, 8.0)),
    "one-hot spikes": lab.OneHotSpikes(F=4, nu=8.0),
}
maps = ("softmax", "softmax1", "bayes_softmax")

# %%
# Nine flows run at once. The losses are out of sample. Softmax-1 is slow and still on its way at the end.
models = [lab.SingleLocation(prior, length=5, heads=4, map=map) for prior in signals.values() for map in maps]
flows = lab.flow_many(lab.Flow(model, tau_end=300.0, points=3, samples=2**9) for model in models)
losses = np.reshape([flow["loss"][-1] for flow in flows], (len(signals), len(maps)))
risks = [lab.SingleLocation(prior, length=5, heads=1).bayes_risk(samples=2**11)[0] for prior in signals.values()]
for name, row, risk in zip(signals, losses, risks):
    print(f"{name:15}" + "  ".join(f"{map} {loss:.3f}" for map, loss in zip(maps, row)) + f"  Bayes risk {risk:.3f}")

# %%
# Bayes-softmax is close to the best possible answer each time; softmax is only where the signal has a mean.
figure, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
place = np.arange(len(signals))
for k, map in enumerate(maps):
    ax.bar(place + 0.25 * (k - 1), losses[:, k], width=0.22, label=map, hatch=("", "//", "..")[k], alpha=0.8)
ax.hlines(risks, place - 0.4, place + 0.4, "k", "--", label="Bayes risk")
ax.set_xticks(place, list(signals))
ax.set_ylabel("loss after training")
ax.legend()

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
