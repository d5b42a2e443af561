"""Flow and reduced SGD against the plain ways, in one run: `python benchmarks/specialization.py`, about three minutes.

flow      Figure 4 left to τ = 300. The plain way is what Appendix B describes: Euler's steps of .02, and expectations
          as means over the same 1e5 independent samples, in vectorised NumPy. It is timed on `SLICE` of its 15,000
          steps and scaled. Both errors are root mean squares over heads, features and 31 times of the difference in m
          to a flow with 2^17 base points from the same start; the median over `DRAWS` draws of samples, since now and
          then a draw sends a head elsewhere. Euler's error is that of its samples (on the same ones it is .001 away
          from RK45), so it is measured by RK45 on such samples. Ours is the flow with the fewest base points that has
          no larger error.
reduced   One step of SGD with N_b = D, L = 10, H = F = 2, against method="direct", which draws vectors of length D; and
          at D = 1e8 against itself at D = 1e4, the same batch. `us_per_sample` is ours.

Times are processor times, which other work on the machine disturbs little. A ratio is plain over ours.
"""

import time
from collections.abc import Callable

import numpy as np

import softmaxlab as sl
from softmaxlab.specialization import SGD, FlippingSpike, Flow, Gaussian, SingleLocation

TAU, STEP, SAMPLES, SLICE = 300.0, 0.02, 100_000, 200
DRAWS = 8
POINTS = (2**8, 2**9, 2**10, 2**11, 2**12, 2**13)
CONVERGED = 2**17
REPEATS = 5
COLUMNS = (
    "problem",
    "plain_way",
    "plain_seconds",
    "our_seconds",
    "ratio",
    "target",
    "plain_error",
    "our_error",
    "us_per_sample",
)


def euler(X: np.ndarray, m: np.ndarray, r: np.ndarray, step: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Softmax heads on samples X [sample, token, feature and head], the first token relevant."""
    N, H, F = len(X), *m.shape
    for _ in range(steps):
        K = np.hstack([m, r])
        e = np.exp(X @ K.T)
        s = e / e.sum(axis=1, keepdims=True)
        res = s.mean(axis=2)
        res[:, 0] -= 1
        c = (2 / H) * s * (res[:, :, None] - (s * res[:, :, None]).sum(axis=1, keepdims=True))
        gradient = c.reshape(-1, H).T @ X.reshape(-1, F + H) / N
        m, r = m - step * gradient[:, :F], r - step * gradient[:, F:]
    return m, r


def samples(model: SingleLocation, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((SAMPLES, model.length, model.features + model.heads))
    X[:, 0, : model.features] *= np.sqrt(1 + np.diag(model.prior.moments()[1]))
    return X


def flow_row() -> dict:
    model = SingleLocation(Gaussian(F=3, nu=(20.0, 1.0)), 5, 8)
    start = Flow(model).order()
    flow = Flow(model, tau_end=TAU, start=start, points=31)
    exact = sl.simulate(flow.replace(samples=CONVERGED, seed=10**6))["m"]
    plain_error = error(flow.replace(sampling="plain", samples=SAMPLES), exact)
    for chosen in POINTS:
        our_error = error(flow.replace(samples=chosen), exact)
        if our_error <= plain_error:
            break
    ours = best(lambda: sl.simulate(flow.replace(samples=chosen)))
    X = samples(model, np.random.default_rng(0))
    theirs = seconds(lambda: euler(X, start.m, start.r, STEP, SLICE)) * (TAU / STEP / SLICE)
    problem = f"flow: Figure 4 left to τ = {TAU:g}, ours with {chosen} base points"
    return row(problem, "Euler .02, 1e5 samples", theirs, ours, ">= 1000", plain_error, our_error)


def error(flow: Flow, exact: np.ndarray) -> float:
    """The root mean square; its median over draws of the samples."""
    gaps = (sl.simulate(flow.replace(seed=draw))["m"] - exact for draw in range(DRAWS))
    return float(np.median([np.sqrt(np.mean(np.square(gap))) for gap in gaps]))


def step_seconds(dim: int, batch: int, method: str, steps: int) -> float:
    """One step of SGD; a run makes one gradient more than steps, for the last loss."""
    model = SingleLocation(FlippingSpike(nu=(2.0, 2.0)), 10, 2)
    spec = SGD(model, dim=dim, batch=batch, lr=0.02, tau_end=0.02 * steps, points=2, method=method)
    run = best if method == "reduced" else seconds
    return run(lambda: sl.simulate(spec)) / (steps + 1)


def sgd_rows() -> list[dict]:
    step_seconds(1000, 100, "reduced", 1)  # compiles
    reduced = {dim: step_seconds(dim, dim, "reduced", 20) for dim in (1000, 10_000)}
    far = step_seconds(10**8, 10_000, "reduced", 20)
    direct = {1000: step_seconds(1000, 1000, "direct", 4), 10_000: step_seconds(10_000, 10_000, "direct", 1)}
    table = [
        row(f"SGD, one step, D = N_b = {dim:.0e}", "direct", direct[dim], reduced[dim], target, 0.0, 0.0, dim)
        for dim, target in ((1000, "-"), (10_000, ">= 300"))
    ]
    flat = row(
        "SGD, one step, D = 1e8, N_b = 1e4", "reduced, D = 1e4", reduced[10_000], far, ">= 0.83", 0.0, 0.0, 10_000
    )
    return [*table, flat]


def rows() -> list[dict]:
    return [flow_row(), *sgd_rows()]


def row(
    problem: str,
    plain: str,
    theirs: float,
    ours: float,
    target: str,
    plain_error: float,
    our_error: float,
    batch: int | None = None,
) -> dict:
    per_sample = 1e6 * ours / batch if batch else 0.0
    values = (problem, plain, theirs, ours, theirs / ours, target, plain_error, our_error, per_sample)
    return dict(zip(COLUMNS, values))


def seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def best(run: Callable[[], object]) -> float:
    return min(seconds(run) for _ in range(REPEATS))


def main() -> None:
    head = f"{'':62}{'plain way':26}{'plain, s':>10}{'ours, s':>10}{'ratio':>8}"
    print(f"{head}  {'target':9}{'errors':>16}{'μs/sample':>11}")
    for r in rows():
        errors = f"{r['plain_error']:.3f}, {r['our_error']:.3f}" if r["our_error"] else "exact in law"
        print(
            f"{r['problem']:62}{r['plain_way']:26}{r['plain_seconds']:10.3g}{r['our_seconds']:10.3g}{r['ratio']:9.4g} "
            f"{r['target']:9}{errors:>16}{r['us_per_sample']:11.2f}"
        )


if __name__ == "__main__":
    main()
