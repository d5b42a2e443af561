"""What a flow costs and how exact it is at the default tolerance: `softmaxlab bench flow_solvers`.

Error: the largest relative difference over all recorded times to another solver, Radau, at rtol = 1e-12.
"""

import time
from typing import Any

import numpy as np

import softmaxlab as sl
from softmaxlab.polarization import Flow

TIGHT = 1e-12


def problems() -> dict[str, Flow]:
    normal = np.random.default_rng(123).standard_normal
    beta = normal(8)
    logistic = Flow("logistic", beta=beta / np.linalg.norm(beta), V=0.1 * normal((8, 8)), a=np.zeros(8), t_end=1e5)
    target = np.exp(10 * np.random.default_rng(0).random(10))
    prediction = Flow(
        "cross_entropy", target=target / target.sum(), V=0.1 * normal((10, 10)), a=np.zeros(10), t_end=1e6
    )
    return {f"logistic, p = 8, t = {t:g}": logistic.replace(t_end=t) for t in (1e5, 1e12, 1e100, 1e300)} | {
        "cross-entropy, 10 × 10, t = 1e6": prediction
    }


def rows() -> list[dict[str, Any]]:
    table = []
    for name, spec in problems().items():
        sl.simulate(spec)  # imports
        began = time.process_time()
        result = sl.simulate(spec)
        seconds = time.process_time() - began
        exact = sl.simulate(spec.replace(solver="Radau", rtol=TIGHT))
        error = max(np.abs(result[x] - exact[x]).max() / np.abs(exact[x]).max() for x in ("a", "V"))
        notes = result.notes
        table.append(
            {
                "flow": name,
                "solver": notes["solver"],
                "evaluations": notes["evaluations"],
                "seconds": seconds,
                "error": error,
            }
        )
    return table


if __name__ == "__main__":
    for row in rows():
        print(row)
