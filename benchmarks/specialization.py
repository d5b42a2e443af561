"""Flow and reduced SGD against the plain ways, in one run: `python benchmarks/specialization.py`, about eight minutes.

flow      Figure 4 left to τ = 300. The plain way is what Appendix B describes: Euler's steps of .02, and expectations
          as means over the same 1e5 independent samples, in vectorised NumPy. It is timed on `SLICE` of its 15,000
          steps and scaled. Both errors are root mean squares over heads, features and 31 times of the difference in m
          to a flow with 2^17 base points from the same start; the median over `DRAWS` draws of samples, since now and
          then a draw sends a head elsewhere. Euler's error is that of its samples (on the same ones it is .001 away
          from RK45), so it is measured by RK45 on such samples. Ours is the flow with the fewest base points that has
          no larger error.
rest      Softmax heads of Figure 4 until they are certified to be at a minimum, seeds 0 to 2. The plain way takes the
          same 2^15 base points to τ = 4e4, with no certificate, by SciPy's LSODA: vectorised NumPy for the gradient,
          and a Jacobian by differences over a quarter of the points. The time is the mean; if a flow of ours does not
          end at a minimum with all eight combinations of signs, that is said.
reduced   One step of SGD with N_b = D, L = 10, H = F = 2, against method="direct", which draws vectors of length D; and
          at D = 1e8 against itself at D = 1e4, the same batch. `us_per_sample` is ours.

Times are processor times, which other work on the machine disturbs little. A ratio is plain over ours.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

import softmaxlab as sl
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.specialization import SGD, FlippingSpike, Flow, Gaussian, SingleLocation
from softmaxlab.specialization.sampling import symmetric

TAU, STEP, SAMPLES, SLICE = 300.0, 0.02, 100_000, 200
DRAWS = 8
POINTS = (2**8, 2**9, 2**10, 2**11, 2**12, 2**13)
CONVERGED = 2**17
REPEATS = 5
REST_SEEDS, REST_UNTIL, REST_POINTS = 3, 4e4, 2**15
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


def rest_row() -> dict:
    model = SingleLocation(Gaussian(F=3, nu=(20.0, 1.0)), 5, 8)
    sl.simulate(Flow(model, tau_end=1.0, samples=2**6))  # compiles
    ours, theirs, kinds = [], [], []
    for seed in range(REST_SEEDS):
        flow = Flow(model, seed=seed, points=2)
        kept = []
        ours.append(seconds(lambda flow=flow, kept=kept: kept.append(sl.simulate(flow))))
        kinds.append((kept[0].notes["certificate"]["kind"], len({tuple(m > 0) for m in kept[0]["m"][-1]})))
        theirs.append(seconds(lambda flow=flow: plain_flow(flow)))
    told = "all minima, 8 signs" if set(kinds) == {("minimum", 8)} else str(kinds)
    return row(
        f"rest: Figure 4 ({told})", "LSODA, 2^15 points", float(np.mean(theirs)), float(np.mean(ours)), ">= 3", 0.0, 0.0
    )


def plain_flow(flow: Flow) -> np.ndarray:
    """m̂ and r of softmax heads at `REST_UNTIL`, as one would write it."""
    model, order = flow.model, flow.order()
    H, F = order.m.shape
    all_of_them = symmetric(model, REST_POINTS, flow.seed).X
    some = symmetric(model, REST_POINTS // 4, flow.seed).X

    def velocity(y: np.ndarray, X: np.ndarray) -> np.ndarray:
        K, total = y.reshape(H, F + H), np.zeros((H, F + H))
        for part in np.array_split(X, max(1, X.shape[-1] // 1000), axis=-1):
            chi = np.tensordot(K, part, 1)
            s = np.exp(chi - chi.max(axis=1, keepdims=True))
            s /= s.sum(axis=1, keepdims=True)
            res = s.mean(axis=0)
            res[0] -= 1
            c = (2 / H) * s * (res - (s * res).sum(axis=1, keepdims=True))
            total += c.reshape(H, -1) @ part.reshape(F + H, -1).T
        return -total.ravel() / X.shape[-1]

    def jacobian(tau: float, y: np.ndarray) -> np.ndarray:
        here, h = velocity(y, some), 1e-6
        return np.stack([(velocity(y + h * e, some) - here) / h for e in np.eye(len(y))], axis=1)

    start = np.hstack([order.m, order.r]).ravel()
    with one_blas_thread():
        found = solve_ivp(
            lambda tau, y: velocity(y, all_of_them), (0, REST_UNTIL), start, "LSODA", jac=jacobian, rtol=1e-3, atol=1e-5
        )
    return found.y[:, -1]


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
    return [flow_row(), rest_row(), *sgd_rows()]


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
        errors = f"{r['plain_error']:.3f}, {r['our_error']:.3f}" if r["our_error"] else "-"
        print(
            f"{r['problem']:62}{r['plain_way']:26}{r['plain_seconds']:10.3g}{r['our_seconds']:10.3g}{r['ratio']:9.4g} "
            f"{r['target']:9}{errors:>16}{r['us_per_sample']:11.2f}"
        )


if __name__ == "__main__":
    main()
