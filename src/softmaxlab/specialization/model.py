"""The single-location model: which of L tokens carries the signal, told by H attention heads.

    token ε:  X_ε ~ N(Σ_f θ_f k*_f, I_D), θ ~ P_θ;   the others X_l ~ N(0, I_D);   to be found: X_ε      eq. (2)
    ŷ = Σ_l w_l X_l,   w = (1/H) Σ_h σ(χ, b, v; h),   χ_h = X k_h                                         eq. (3)
    Ẽ(m, r, b, v) = E Σ_l (w_l − δ_{l,ε})²,   χ_hl = Σ_f m̂_hf χ*_fl + Σ_h' r_hh' ξ_h'l                   eqs. (10), (11)

Tokens are exchangeable, so ε is always the first one here.
"""

from typing import Any

import numpy as np

from softmaxlab.errors import SpecError
from softmaxlab.specialization import bayes, population
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.problem import Problem

SAMPLES = 2**14  # in each of the independent sets that give a standard error
MOST_SAMPLES = 2**24
PER_NUMBER = 3e-9  # seconds of a number in a gradient on one core, within a factor of ten


class SingleLocation(Problem):
    """A prior, the sequence length L, the number of heads H and their map."""

    def loss(
        self, m: Any, r: Any, b: Any = None, v: float = 1.0, p: Any = None, samples: int = SAMPLES, seed: int = 0
    ) -> tuple[float, float]:
        """Ẽ and its standard error at order parameters m [head, feature] and r [head, head].

        b and v have no effect on a map that does not use them (softmax: neither; Bayes-softmax: b only). `samples`
        counts those of each of 8 independent sets, the images of all points included (sampling.py).
        """
        return population.loss(self, self._order(m, r, b, v, p), *_drawn(samples, seed))

    def gradient(
        self, m: Any, r: Any, b: Any = None, v: float = 1.0, p: Any = None, samples: int = SAMPLES, seed: int = 0
    ) -> population.Gradient:
        """∇Ẽ in m, r, b and v, over the samples of `loss`."""
        return population.gradient(self, self._order(m, r, b, v, p), *_drawn(samples, seed))

    def bayes_risk(self, samples: int = SAMPLES, seed: int = 0) -> tuple[float, float]:
        """The least possible loss, of the estimator that knows the spikes and the prior, and its standard error.

        `samples` is as in `loss`. For continuous priors but the Gaussian there is a bias beside the error (bayes.py).
        """
        return bayes.risk(self, *_drawn(samples, seed))

    def sample_seconds(self, samples: int) -> float:
        """The seconds that a gradient over so many samples takes."""
        return PER_NUMBER * samples * self.length * (self.features + self.heads) * self.heads

    def sample_memory(self, samples: int) -> float:
        """Bytes of so many samples, with a copy."""
        return 2 * 8.0 * samples * self.length * (self.features + self.heads)

    def _order(self, m: Any, r: Any, b: Any, v: float, p: Any) -> OrderParameters:
        b = np.zeros(self.heads) if b is None else b
        return OrderParameters(m=m, r=r, b=b, v=v, p=p).of(self)


def _drawn(samples: Any, seed: Any) -> tuple[int, int]:
    """Both as whole numbers, or an error."""
    for name, value, least, most in (("samples", samples, 1, MOST_SAMPLES), ("seed", seed, 0, None)):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < least or (most and value > most):
            upto = f" up to {most}" if most else ""
            raise SpecError(f"{name} must be a whole number from {least}{upto}, got {value!r}")
    return int(samples), int(seed)
