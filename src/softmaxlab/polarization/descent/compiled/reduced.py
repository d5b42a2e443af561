"""Gradient descent of the logistic value model in (a, u), exact for the discrete steps.

With u = Vᵀβ*, b = ‖β*‖², m = ⟨u, s⟩, γ = 1/(1 + e^m), each step of V ← (1 − lr·λ)V + lr γ β* sᵀ gives

    u ← (1 − lr·λ) u + lr γ b s,    a ← (1 − lr·λ) a + lr γ Jᵀu,    V = c V(0) + β* (u − c u(0))ᵀ/b,  c = (1 − lr·λ)^k,

with λ the weight decay: p numbers a step in place of d·p.
"""

from math import exp, inf

from softmaxlab.core.jit import entry
from softmaxlab.polarization.descent.compiled.linear import dot
from softmaxlab.polarization.descent.compiled.maps import weigh


@entry
def advance(map, rates, b, a, u, work, steps):
    """Move a and u in place by `steps` steps; return the steps made and Σγ over them.

    `rates` is (lr, 1 − lr·λ). It stops before a step whose m is not finite.
    """
    lr, keep = rates
    s, k = work
    total = 0.0
    for step in range(steps):
        c = weigh(map, a, s, k)
        m = dot(s, u)
        if not abs(m) < inf:
            return step, total
        gamma = 1 / (1 + exp(m))
        total += gamma
        for i in range(a.size):
            a[i] = keep * a[i] + lr * gamma * k[i] * (u[i] - c * m)
            u[i] = keep * u[i] + lr * gamma * b * s[i]
    return steps, total
