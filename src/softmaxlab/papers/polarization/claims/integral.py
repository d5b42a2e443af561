"""Claims of Section 3 about the mechanism: replicator dynamics, the integral of the gradient, gradients out of line.

Let g = −∇ℓ(β) stay along β*, θ = ∫‖g‖ dt and w = Vᵀβ*/‖β*‖. Then da/dθ = J w and dw/dθ = s: neither the loss nor ‖β*‖
is left, so that weights are a function of θ and of the start alone (ours; it proves the paper's sentence).
"""

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.claim import Claim, Finding, Verdict
from softmaxlab.papers.polarization.figures.unaligned import Unaligned, separable
from softmaxlab.papers.polarization.instances import finished
from softmaxlab.papers.polarization.problems import along, classification, regression
from softmaxlab.polarization import Descent, Flow, Problem

PAPER = "varre2026polarization"
STEP = 1e-5  # of central differences, as a length: their error is its square, and rounding over it, both below 1e-9
SIGN_FLOOR = 1e-6  # of what is compared, relative to the largest token: below, a sign is the differences' error
EQUAL = 1e-8  # of weights at equal θ: solver (rtol 1e-10) and interpolation between 2000 times make 4e-11
NORMS = (0.5, 1.0, 3.0)  # of β*
KAPPAS = (1.0, 2.0, 3.0, 4.0, 5.0)
TURNED = 0.9  # cosine below which two gradients are out of line: 26 degrees
POLARIZED = 0.9  # largest weight, of 20 or 8 tokens
SPREADS, TOO_WIDE = (0.5, 1.0), (8.0,)  # of samples: separable, and not


def follows_replicator(map: str) -> Finding:
    """Whether a′_i, and u″_i by both clocks, have the sign of u_i − ⟨u, s⟩, at every token and time."""
    run = finished(Flow(**classification(8, None), map=map, t_end=1e6, points=60, rtol=1e-10))
    agreed = np.mean([_agreements(run, k) for k in range(len(run["t"]))], axis=0)
    first = _agreements(run, 0)
    text = (
        f"signs as u − ⟨u, s⟩, Figure 2's instance to t = 1e6: a′ {agreed[0]:.0%}, u″ {agreed[1]:.0%} in time t and "
        f"{agreed[2]:.0%} in Γ; at t = 0 {first[0]:.0%}, {first[1]:.0%}, {first[2]:.0%}"
    )
    return Finding(Verdict.HOLDS if agreed[0] == first[2] == 1 else Verdict.FAILS, text)


def _agreements(run: Result, k: int) -> np.ndarray:
    """Shares of tokens at the k-th time for a′, d²u/dt² and d²u/dΓ²."""
    problem, at = run.spec, {name: run[name][k] for name in ("V", "a")}
    assert isinstance(problem, Problem)
    beta = problem.given("beta")
    model, loss, map = problem.model_of(), problem.loss_of(), problem.map_of()

    def velocity(at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return model.velocity(loss, map, at)

    now = velocity(at)
    h = STEP / np.sqrt(sum(np.square(x).sum() for x in now.values()))
    ahead, behind = ({name: at[name] + sign * h * now[name] for name in at} for sign in (1, -1))
    in_time = beta @ (velocity(ahead)["V"] - velocity(behind)["V"]) / (2 * h)
    in_strength = map.weights(ahead["a"]) - map.weights(behind["a"])  # du/dΓ = b s
    u, s = beta @ at["V"], run["weights"][k]
    fitness = u - u @ s
    return np.array([_same_signs(x, fitness) for x in (now["a"], in_time, in_strength)])


def _same_signs(x: np.ndarray, y: np.ndarray) -> float:
    clear = (np.abs(x) > SIGN_FLOOR * np.abs(x).max()) & (np.abs(y) > SIGN_FLOOR * np.abs(y).max())
    return float((np.sign(x) == np.sign(y))[clear].mean())


def integral_sets_weights(clock: str) -> Finding:
    """Weights of logistic and square losses with several ‖β*‖ at equal θ (or t), and θ of the paper's five κ."""
    runs = [_aligned(loss, norm) for loss in ("logistic", "square") for norm in NORMS]
    clocks = [np.linalg.norm(run.spec.beta) * run["strength"] if clock == "θ" else run["t"] for run in runs]  # type: ignore[union-attr]
    at = np.linspace(0.0, min(x[-1] for x in clocks), 50)
    weights = np.array([_interpolated(at, x, run["weights"]) for x, run in zip(clocks, runs)])
    apart = float(np.ptp(weights, axis=0).max())
    grows = bool((np.diff(weights.max(axis=-1), axis=1) > -EQUAL).all())
    theta, largest = np.array([_integral(kappa) for kappa in KAPPAS]).T
    order = bool((np.diff(theta) > 0).all() and (np.diff(largest) > 0).all())
    text = (
        f"weights of {len(runs)} losses and ‖β*‖ at equal {clock} differ by {apart:.1e} at most; "
        f"regression, κ = 1 to 5: ∫‖∇ℓ‖dt {', '.join(f'{x:.0f}' for x in theta)}, "
        f"largest weight {', '.join(f'{x:.3f}' for x in largest)}"
    )
    return Finding(Verdict.HOLDS if apart < EQUAL and grows and order else Verdict.FAILS, text)


def _aligned(loss: str, norm: float) -> Result:
    fields = along(8, 0, norm)  # V(0) is along β*, of a size that does not depend on the norm
    fields["a"] = np.zeros(8)
    return finished(Flow(loss=loss, **fields, t_end=1e4, points=2000, rtol=1e-10))


def _interpolated(at: np.ndarray, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    from scipy.interpolate import PchipInterpolator

    before = np.maximum.accumulate(np.concatenate([[-1.0], x[:-1]]))
    kept = x > before + 1e-9 * x[-1]  # θ of the square loss stands still in the end, but for rounding
    return PchipInterpolator(x[kept], values[kept])(at)


def _integral(kappa: float) -> tuple[float, float]:
    """∫‖∇ℓ‖ dt and the largest weight of the authors' regression."""
    run = finished(Descent(**regression(20, None, kappa), lr=1e-3, steps=300_000, points=400))
    return float(np.trapezoid(np.linalg.norm(_gradients(run), axis=1), run["t"])), float(run["weights"][-1].max())


def _gradients(run: Result) -> np.ndarray:
    """−∇ℓ at the output V s, over time."""
    assert isinstance(run.spec, Problem)
    return -run.spec.loss_of().gradient(np.einsum("tdp,tp->td", run["V"], run["weights"]))


def persists_unaligned(spreads: tuple[float, ...]) -> Finding:
    """Figure 3's problem at κ = 5, and the logistic loss of 64 samples in a cone, from three seeds."""
    run = finished(Descent(**regression(20, None, 5.0), lr=1e-3, steps=300_000, points=400))
    g = _gradients(run)
    g = g[: np.searchsorted(-run["loss"], -1e-6 * run["loss"][0])]  # later it is the rest of a finished fit
    cosine = float((g @ g[0] / np.linalg.norm(g, axis=1) / np.linalg.norm(g[0])).min())
    flows = [Unaligned(t_end=1e8).flow("small", spread, seed) for spread in spreads for seed in range(3)]
    largest = [float(finished(flow)["weights"][-1].max()) for flow in flows]
    can = [separable(flow.given("X")) for flow in flows]
    text = (
        f"κ = 5: the gradient turns to a cosine of {cosine:.2f} with its start and the largest weight is "
        f"{run['weights'][-1].max():.3f}; samples, separable in {sum(can)} of {len(can)} runs: "
        f"the largest weight is {min(largest):.3f} at least"
    )
    persists = cosine < TURNED and run["weights"][-1].max() > POLARIZED and min(largest) > POLARIZED
    return Finding(Verdict.HOLDS if persists else Verdict.FAILS, text)


CLAIMS = (
    Claim(
        id="polarization/replicator",
        source=PAPER,
        place="Section 3.1, intuition from replicator dynamics",
        statement="Omitting scaling factors and normalization terms, a′ ∼ u − ⟨u, s⟩1 and u″ ∼ u − ⟨u, s⟩1",
        tolerance=f"signs, of a′ always and of u″ in Γ at uniform weights, where the terms left out vanish; "
        f"what is below {SIGN_FLOOR:g} of the largest is the differences' error",
        judge=follows_replicator,
        subject="softmax",
        control="sigmoid",
        control_is="elementwise sigmoid, without the centring term",
        remark="with all terms, d²u/dΓ² = b s ⊙ (s ⊙ (u − m) − Σ s²(u − m)), and in time −γ(1 − γ) m′ b s comes on "
        "top: the winner, whose u grows as log t, decelerates though it is the fittest",
    ),
    Claim(
        id="polarization/integral",
        source=PAPER,
        place="Section 3.2, regression",
        statement="Sparsification is controlled by the integral of the gradient's magnitude",
        tolerance=f"{EQUAL:g} of a weight: solver and interpolation make 4e-11",
        judge=integral_sets_weights,
        subject="θ",
        control="t",
        control_is="time in place of the integral",
    ),
    Claim(
        id="polarization/unaligned",
        source=PAPER,
        place="Section 3.2, limitations, Figure 3",
        statement="Polarization persists without exact alignment of the gradient with one direction",
        tolerance=f"out of line: cosine below {TURNED:g}; polarized: largest weight above {POLARIZED:g}",
        judge=persists_unaligned,
        subject=SPREADS,
        control=TOO_WIDE,
        control_is="samples that cannot be separated, whose gradients cancel",
        figures=("polarization/fig03", "polarization/confound", "polarization/unaligned"),
    ),
)
