"""
A prior of your own
===================

One token in a sequence carries a signal :math:`\\theta` in a plane. What can attention heads make of it if you choose
the law of :math:`\\theta`? A law of a few points is a ``Discrete`` prior; any other is registered as a function of
uniform numbers.
"""

# %%
# The signal takes four points with unequal probabilities. The best weights are known: those of Bayes-softmax with a
# head for each point.
import sys

import matplotlib.pyplot as plt
import numpy as np

import softmaxlab as sl

lab = sl.specialization
points = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, 0.0], [0.0, -2.5]])
prior = lab.Discrete(points, [0.4, 0.3, 0.2, 0.1])
model = lab.SingleLocation(prior, length=5, heads=4, map="bayes_softmax")
risk, error = model.bayes_risk(samples=2**11)
best = lab.bayes_softmax_parameters(prior)
loss, _ = model.loss(best.m, best.r, best.b)
print(f"Bayes risk {risk:.4f} ± {error:.4f}; loss of the parameters of Proposition IV.2: {loss:.4f}")

# %%
# Training finds them: the heads travel to the points.
flow = sl.simulate(lab.Flow(model, tau_end=200.0, points=60, samples=2**9))
print(f"after training {flow['loss'][-1]:.4f} ± {flow['loss_error'][-1]:.4f}; {flow.status.sentence}")


# %%
# A ring is a function of uniform numbers. It is no finite set of points, so no finite number of heads is enough.
@lab.register
def ring(u):
    angle = 2 * np.pi * u[:, 0]
    return 3.0 * np.column_stack([np.cos(angle), np.sin(angle)])


on_ring = {H: lab.SingleLocation(lab.Sampled("ring", F=2), length=5, heads=H, map="bayes_softmax") for H in (1, 2, 3)}
trained = {H: sl.simulate(lab.Flow(model, tau_end=100.0, points=40, samples=2**10)) for H, model in on_ring.items()}
for H, result in trained.items():
    print(f"ring, H = {H}: {result['loss'][-1]:.3f}")

# %%
# Three heads share the ring evenly.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
left.scatter(*points.T, s=1500 * prior.atoms()[1], alpha=0.4)
left.plot(flow["m"][:, :, 0], flow["m"][:, :, 1], "C2-")
left.plot(*flow["m"][-1].T, "kD")
left.set(title="four points: heads find them", xlabel="feature 1", ylabel="feature 2", aspect="equal")
right.plot(*ring(np.linspace(0, 1, 100)[:, None]).T, alpha=0.4, lw=6)
right.plot(trained[3]["m"][:, :, 0], trained[3]["m"][:, :, 1], "C2-")
right.plot(*trained[3]["m"][-1].T, "kD")
right.set(title="a ring: heads share it", xlabel="feature 1", aspect="equal")

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
