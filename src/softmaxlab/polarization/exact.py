"""Exact facts about the flow: invariants, closed forms, asymptotic constants.

Derivations: docs/theory/polarization.md. V [d, p] values, a [p] scores, s = σ(a), u = Vᵀβ*, b = ‖β*‖², m = ⟨u,s⟩,
γ the speed of the strength Γ = ∫γ dt, J = ∂s/∂a. Arrays over time have time first.
"""

from collections.abc import Mapping

import numpy as np

from softmaxlab.attention import MAPS
from softmaxlab.polarization.maps import vector_map
from softmaxlab.polarization.problem import Problem
from softmaxlab.polarization.reduction import is_aligned

HOMOGENEOUS = ("sum", "relu_norm", "square_norm", "abs_norm")  # s does not feel a → c a

# F with F′ = f/f′, for the elementwise maps
PRIMITIVES = {
    "linear": lambda a: a**2 / 2,
    "relu": lambda a: a**2 / 2,
    "abs": lambda a: a**2 / 2,
    "square": lambda a: a**2 / 4,
    "sigmoid": lambda a: a + np.exp(a),
    "elu": lambda a: np.where(a > 0, a + a**2 / 2, a),
}


# --- invariants ------------------------------------------------------------------------------------------------------


def invariants(problem: Problem, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All that the flow of this problem conserves, by formula, each [t, …] and constant in exact arithmetic."""
    quantities: dict[str, np.ndarray] = {}
    model = problem.model_of()
    scores = arrays[model.scored]
    if problem.model != "tied" and MAPS[problem.map].shift_invariant:
        quantities["Σa"] = scores.sum(axis=-1)
    if problem.map in HOMOGENEOUS:
        quantities["‖a‖²"] = np.square(scores).sum(axis=-1)
    if problem.model == "tied" or problem.freeze is not None:
        return quantities
    V = arrays["V"] if problem.model == "matrix" else np.swapaxes(arrays["V"], 1, 2)  # [t, token, feature]
    A = scores if problem.model == "matrix" else scores[:, None]  # [t, query, token]
    if problem.map in PRIMITIVES:
        quantities["½‖V_i‖² − ΣF(a_i)"] = 0.5 * np.square(V).sum(axis=-1) - PRIMITIVES[problem.map](A).sum(axis=1)
    if problem.map == "linear":
        quantities["VᵀV − aaᵀ"] = V @ np.swapaxes(V, 1, 2) - np.swapaxes(A, 1, 2) @ A
    if is_aligned(problem):
        beta = problem.given("beta")
        quantities["V − β*uᵀ/b"] = V - (V @ beta)[..., None] * beta / (beta @ beta)
    if problem.model == "value" and problem.map == "softmax" and scores.shape[-1] == 2:
        quantities["‖V_0 − V_1‖² − 4 sinh²(½(a_0 − a_1))"] = two_token(scores, V)
    return quantities


def two_token(a: np.ndarray, V: np.ndarray) -> np.ndarray:
    """‖V_0 − V_1‖² − 4 sinh²((a_0 − a_1)/2) for softmax with p = 2 and any loss; V is [t, token, feature].

    With a gradient along β* it reads (u_0 − u_1)² − 4b sinh²((a_0 − a_1)/2), divided by b: pass V = u/√b.
    """
    return np.square(V[:, 0] - V[:, 1]).sum(axis=-1) - 4 * np.sinh(0.5 * (a[:, 0] - a[:, 1])) ** 2


# --- closed forms ----------------------------------------------------------------------------------------------------


def margin_at_fixed_weights(t: np.ndarray, m: float, rate: float) -> np.ndarray:
    """m(t) of the logistic loss when s stays put, from m at t = 0: m + e^m grows by rate·t, with rate = b‖s‖².

    That is so with frozen scores, with one token (rate b), and with p equal tokens (rate b/p).
    """
    from scipy.special import wrightomega

    c = m + np.exp(m) + rate * np.asarray(t, dtype=float)
    omega = wrightomega(c).real  # ω + log ω = c, so ω = e^m
    return np.where(omega > 1.0, np.log(omega), c - omega)


def residual_at_fixed_weights(t: np.ndarray, residual: np.ndarray, s: np.ndarray) -> np.ndarray:
    """β* − β(t) of the square loss when s stays put, [t, d]."""
    return np.exp(-(s @ s) * np.asarray(t, dtype=float))[:, None] * residual


def sum_map_orbit(theta: np.ndarray, a: np.ndarray, u: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    """a and u without their means, for the map `sum`, at θ = ∫ dΓ/Σa: a″ = b a. Each [θ, token]."""
    a, u = a - a.mean(), u - u.mean()
    root = np.sqrt(b)
    c, h = np.cosh(root * theta)[:, None], np.sinh(root * theta)[:, None]
    return a * c + u * h / root, u * c + a * root * h


def two_token_strength(x: float, a: np.ndarray, u: np.ndarray, b: float) -> float:
    """Γ at which a_0 − a_1 comes to x, for softmax with p = 2 from a, u with a_0 ≥ a_1 and u_0 > u_1.

    dΓ = 2 cosh²(x/2) dx/w along the orbit w = u_0 − u_1 = √(w(0)² + 4b (sinh²(x/2) − sinh²(x(0)/2))).
    """
    from scipy.integrate import quad

    start, w = a[0] - a[1], u[0] - u[1]

    def slope(y: float) -> float:
        return 2 * np.cosh(y / 2) ** 2 / np.sqrt(w**2 + 4 * b * (np.sinh(y / 2) ** 2 - np.sinh(start / 2) ** 2))

    return quad(slope, start, x, epsabs=0, epsrel=1e-13, limit=200)[0]


# --- rates that hold at all times ------------------------------------------------------------------------------------


def loss_rate(map: str, V: np.ndarray, a: np.ndarray, r: np.ndarray) -> float:
    """dL/dt = −rᵀ M r with M = ‖s‖² I + V J Jᵀ Vᵀ and r = −∇ℓ (Lemma D.2), for the value model."""
    sigma = vector_map(map)
    s = sigma.weights(a)
    return -float((s @ s) * (r @ r) + np.square(sigma.pullback(a, s, r @ V)).sum())


def squared_gradient(problem: Problem, at: Mapping[str, np.ndarray]) -> np.ndarray:
    """‖∇L‖² [t] = −dL/dt along the flow, from parameters [t, …]; those that are frozen do not count."""
    model, map, loss = problem.model_of(), problem.map_of(), problem.loss_of()
    z = model.scores(at)
    s = map.weights(z)
    r = -loss.gradient(model.output(at, s))
    values = at[model.valued]
    if problem.model == "matrix":
        r = r / r.shape[-2]
        x = map.pullback(z, s, r @ np.swapaxes(values, -1, -2))
        parts = {"V": _squares(np.swapaxes(s, -1, -2) @ r, 2), "A": _squares(x, 2)}
    else:
        x = map.pullback(z, s, (r[..., None, :] @ values)[..., 0, :])
        parts = {"V": _squares(r, 1) * _squares(s, 1), "a": _squares(x, 1)}
    if problem.model == "tied":  # U′ = r sᵀ + x aᵀ and a′ = Uᵀx
        crossed = 2 * (r * x).sum(axis=-1) * (s * at["a"]).sum(axis=-1)
        pulled = (x[..., None, :] @ values)[..., 0, :]
        parts = {"U": parts["V"] + _squares(x, 1) * _squares(at["a"], 1) + crossed, "a": _squares(pulled, 1)}
    return sum((x for name, x in parts.items() if name != problem.frozen()), np.zeros(()))


def _squares(x: np.ndarray, axes: int) -> np.ndarray:
    return np.square(x).sum(axis=tuple(range(-axes, 0)))


def square_rate(s: np.ndarray, u: np.ndarray, b: float) -> np.ndarray:
    """λ in γ′ = −λ γ for square loss and softmax, V ∥ β*: ‖s‖² + ‖J u‖²/b, at least 1/p (C.1). s and u are [..., p]."""
    pulled = s * (u - (s * u).sum(axis=-1, keepdims=True))
    return np.square(s).sum(axis=-1) + np.square(pulled).sum(axis=-1) / b


def ratio_bound(strength: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Theorem 3.3b: s_j/s_0 ≤ 1/(1 + δΓ/p) from a(0) = 0, with δ the least gap of u(0)."""
    gap = np.diff(np.sort(u)).min() if len(u) > 1 else np.inf
    return 1.0 / (1.0 + gap / len(u) * np.asarray(strength))


# --- limits of the logistic flow -------------------------------------------------------------------------------------


def loser_constant(b: float, p: int, slowdown: float = 1.0) -> float:
    """The limit of s_i log²t for every token but the winner: 2b/p. It is approached like Γ^−(2/p).

    `slowdown` is 1, or T in the matrix model with equal rows, where scores move T times slower than values.
    """
    return 2.0 * slowdown * b / p


def approach_exponent(p: int) -> float:
    """Losers' weights become equal like Γ^−(2/p)."""
    return 2.0 / p


def strength_limit(log_t: np.ndarray, b: float) -> np.ndarray:
    """Γ ~ log t / b."""
    return np.asarray(log_t) / b


def winner_limit(log_t: np.ndarray, b: float) -> np.ndarray:
    """u of the winner, and m: log(b t)."""
    return np.asarray(log_t) + np.log(b)


def loss_limit(b: float) -> float:
    """The limit of t · loss: 1/b."""
    return 1.0 / b


def square_map_log_ratio(log_t: np.ndarray, b: float, norm: float) -> np.ndarray:
    """−log(s_i/s_0) for the map x²/Σx²: 2 log²t/(b‖a‖²); `norm` is ‖a‖², which is conserved."""
    return 2.0 * np.square(log_t) / (b * norm)


def tied_column_limit(log_t: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Norm of the winner's column of U in the tied model: log t/‖β*‖."""
    return np.asarray(log_t) / np.linalg.norm(beta)
