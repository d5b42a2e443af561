"""
How many heads?
===============

Proposition IV.2 says: as many heads as the signal has values. We train with fewer heads, with as many, and with more,
and then remove heads from the largest model to see which were needed.
"""

# %%
# Four one-hot spikes give the signal four values.
import sys

import matplotlib.pyplot as plt

import softmaxlab as sl

lab = sl.specialization
heads = (1, 2, 3, 4, 6, 8)
model = lab.SingleLocation(lab.OneHotSpikes(F=4, nu=10.0), length=5, heads=1, map="bayes_softmax")
flows = lab.flow_many(lab.Flow(model.replace(heads=H), tau_end=300.0, points=3, samples=2**9, seed=H) for H in heads)
risk, _ = model.bayes_risk()
for H, flow in zip(heads, flows):
    print(f"H = {H}: loss {flow['loss'][-1]:.3f} (Bayes risk {risk:.3f})")

# %%
# Eight heads do no better than four. Which of them matter? We remove them one by one, always the cheapest next. The
# rule by which the others are rescaled decides the outcome.
order = lab.OrderParameters.at(flows[-1])
rules = ("renormalise", "total", "count")
pruned = {rule: sl.simulate(lab.Pruning(model.replace(heads=8), order, rule, 2**10)) for rule in rules}

# %%
# Four heads can go at no cost, if those that stay are renormalised.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(heads, [flow["loss"][-1] for flow in flows], "D-")
left.axhline(risk, color="k", ls=":")
left.set(title="trained with H heads", xlabel="H", ylabel="loss")
for (rule, result), mark in zip(pruned.items(), "so^"):
    right.plot(result["pruned"], result["loss"], f"{mark}-", label=rule)
right.axhline(risk, color="k", ls=":")
right.set(title="of 8 heads, some removed", xlabel="heads removed", ylim=(0, 1.2))
right.legend(title="rule")

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
