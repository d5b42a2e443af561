"""Flow and descent against plain NumPy loops, in one run: `python benchmarks/polarization.py`.

Two loops stand here for each problem. `written` is what one writes from the paper's formulas to see a run: the softmax
Jacobian as a matrix, the loss kept at each step. `leanest` makes the same steps with every product arranged by hand and
keeps nothing. Loops are timed on `SLICE` steps and scaled by the number of steps; ours on all of them, with everything:
checks, 400 recorded steps, the result. Compiling is timed apart, in a process of its own with nothing kept from before.

Error: for descent, the largest relative difference to the loop after `SLICE` steps; for the flow, to a solution with
rtol = 1e-12 (gradient descent itself is 1e-3 away from the flow).
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

import softmaxlab as sl
from softmaxlab.polarization import Descent, Flow

SLICE = 20_000
REPEATS = 7
COLUMNS = ("problem", "steps", "loop", "loop_seconds", "our_seconds", "ratio", "error", "compile_seconds")
Steps = Callable[..., tuple[np.ndarray, np.ndarray]]


def softmax(a):
    e = np.exp(a - np.max(a))
    return e / np.sum(e)


def logistic_written(V, a, lr, steps, beta):
    losses = []
    for _ in range(steps):
        s = softmax(a)
        m = beta @ (V @ s)
        losses.append(np.log1p(np.exp(-m)))
        g = -beta / (1 + np.exp(m))
        J = np.diag(s) - np.outer(s, s)
        V, a = V - lr * np.outer(g, s), a - lr * J @ (V.T @ g)
    return V, a


def logistic_leanest(V, a, lr, steps, beta):
    V, a = V.copy(), a.copy()
    for _ in range(steps):
        e = np.exp(a - a.max())
        s = e / e.sum()
        u = beta @ V
        m = u @ s
        gamma = lr / (1 + np.exp(m))
        V += np.outer(gamma * beta, s)
        a += gamma * s * (u - m)
    return V, a


def regression_written(V, a, lr, steps, beta, X):
    losses = []
    for _ in range(steps):
        s = softmax(a)
        residual = X @ (V @ s) - beta
        losses.append(np.sum(residual**2))
        g = 2 * X.T @ residual
        J = np.diag(s) - np.outer(s, s)
        V, a = V - lr * np.outer(g, s), a - lr * J @ (V.T @ g)
    return V, a


def regression_leanest(V, a, lr, steps, beta, X):
    V, a = V.copy(), a.copy()
    for _ in range(steps):
        e = np.exp(a - a.max())
        s = e / e.sum()
        g = (2 * lr) * ((X @ (V @ s) - beta) @ X)
        h = g @ V
        V -= np.outer(g, s)
        a -= s * (h - h @ s)
    return V, a


def cross_entropy_written(V, a, lr, steps, target):
    losses = []
    for _ in range(steps):
        s = softmax(a)
        q = softmax(V @ s)
        losses.append(-np.sum(target * np.log(q)))
        g = q - target
        J = np.diag(s) - np.outer(s, s)
        V, a = V - lr * np.outer(g, s), a - lr * J @ (V.T @ g)
    return V, a


def cross_entropy_leanest(V, a, lr, steps, target):
    V, a = V.copy(), a.copy()
    for _ in range(steps):
        e = np.exp(a - a.max())
        s = e / e.sum()
        beta = V @ s
        q = np.exp(beta - beta.max())
        g = lr * (q / q.sum() - target)
        h = g @ V
        V -= np.outer(g, s)
        a -= s * (h - h @ s)
    return V, a


def problems() -> dict[str, tuple[Descent, dict[str, Steps]]]:
    """The settings of Figures 2, 3 and 10, from a generator of ours."""
    normal = np.random.default_rng(123).standard_normal
    beta = normal(8)
    logistic = Descent(
        "logistic", beta=beta / np.linalg.norm(beta), V=0.1 * normal((8, 8)), a=np.zeros(8), lr=0.1, steps=10**6
    )
    left, right = (np.linalg.qr(normal((20, 20)))[0] for _ in range(2))
    X = left * np.linspace(1, 1 / 5, 20) @ right.T
    regression = Descent(
        "regression", beta=normal(20), X=X, V=1e-5 * normal((20, 20)), a=1e-3 * normal(20), lr=1e-3, steps=3 * 10**5
    )
    target = softmax(10 * np.random.default_rng(123).random(10))
    cross_entropy = Descent(
        "cross_entropy", target=target, V=0.1 * normal((10, 10)), a=np.zeros(10), lr=0.1, steps=10**6
    )
    return {
        "logistic, p = 8": (logistic, {"written": logistic_written, "leanest": logistic_leanest}),
        "regression, 20 × 20": (regression, {"written": regression_written, "leanest": regression_leanest}),
        "cross-entropy, 10 × 10": (cross_entropy, {"written": cross_entropy_written, "leanest": cross_entropy_leanest}),
    }


def rows() -> list[dict]:
    """One row for each problem and loop."""
    table = []
    for name, (spec, loops) in problems().items():
        compiling = compile_seconds(spec)
        sl.simulate(spec.replace(steps=1))
        ours = best(lambda spec=spec: sl.simulate(spec))
        short = sl.simulate(spec.replace(steps=SLICE))
        data = {field: getattr(spec, field) for field in ("beta", "X", "target") if getattr(spec, field) is not None}
        for kind, loop in loops.items():
            arguments = {"V": spec.V, "a": spec.a, "lr": spec.lr, "steps": SLICE, **data}
            V, a = loop(**arguments)
            theirs = best(lambda loop=loop, arguments=arguments: loop(**arguments)) * spec.steps / SLICE
            error = max(difference(short["V"][-1], V), difference(short["a"][-1], a))
            table.append(row(f"descent: {name}", spec.steps, kind, theirs, ours, error, compiling))
    return [flow_row(table[1]["loop_seconds"]), *table]


def flow_row(loop_seconds: float) -> dict:
    """The flow to Figure 2's t = 1e5 against the leanest loop of descent to it."""
    spec, _ = problems()["logistic, p = 8"]
    fields = {name: getattr(spec, name) for name in ("loss", "beta", "V", "a")}
    flow = Flow(**fields, t_end=spec.lr * spec.steps)
    result, tight = sl.simulate(flow), sl.simulate(flow.replace(rtol=1e-12))
    error = max(difference(result[name][-1], tight[name][-1]) for name in ("a", "u"))
    return row(
        "flow: logistic, p = 8, t = 1e5",
        spec.steps,
        "leanest",
        loop_seconds,
        best(lambda: sl.simulate(flow)),
        error,
        0.0,
    )


def compile_seconds(spec: Descent) -> float:
    """What compiling this spec's kernel takes in a fresh process."""
    code = "import sys, softmaxlab as sl; print(sl.simulate(sl.from_json(sys.stdin.read())).notes['compile_seconds'])"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", code]
        text = spec.replace(steps=1).json_text()
        run = subprocess.run(command, input=text, capture_output=True, text=True, check=True, env=environment)
    return float(run.stdout)


def row(problem: str, steps: int, loop: str, theirs: float, ours: float, error: float, compiling: float) -> dict:
    return dict(zip(COLUMNS, (problem, steps, loop, theirs, ours, theirs / ours, error, compiling)))


def best(run: Callable[[], object]) -> float:
    """The least of `REPEATS` processor times, in seconds, which other work on the machine disturbs little."""
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return min(seconds)


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def main() -> None:
    print(f"{'':32}{'steps':>9}  {'loop':8}{'loop, s':>9}{'ours, s':>9}{'ratio':>7}{'error':>9}{'compile, s':>12}")
    for r in rows():
        print(
            f"{r['problem']:32}{r['steps']:9}  {r['loop']:8}{r['loop_seconds']:9.2f}{r['our_seconds']:9.4f}"
            f"{r['ratio']:7.0f}{r['error']:9.0e}{r['compile_seconds']:12.2f}"
        )


if __name__ == "__main__":
    main()
