"""Small random problems for every loss, map and model, as specs."""

import numpy as np

LOSSES = ("logistic", "square", "regression", "cross_entropy", "kl", "dataset")
MODELS = ("value", "tied", "matrix")
P, D, N = 5, 6, 4  # tokens, features, samples


def fields(loss: str, map: str, model: str, seed: int = 0) -> dict:
    """The fields of a problem: positive values and scores, away from kinks and inside the domain of every loss."""
    generator = np.random.default_rng(seed)
    d = D if model == "value" else P
    values = 0.5 + 0.3 * generator.random((d, P))
    scores = 0.3 + 0.5 * generator.random((P, P) if model == "matrix" else P)
    parameters = {
        "value": {"V": values, "a": scores},
        "tied": {"U": 0.4 * values, "a": scores},
        "matrix": {"V": values.T, "A": scores},
    }[model]
    direction = generator.standard_normal(d)
    X = 0.5 * generator.standard_normal((N, d))
    distribution = generator.random(d) + 0.5
    data = {
        "logistic": {"beta": direction},
        "square": {"beta": direction},
        "regression": {"beta": generator.standard_normal(N), "X": X},
        "cross_entropy": {"target": distribution / distribution.sum()},
        "kl": {"target": distribution / distribution.sum()},
        "dataset": {"X": X, "target": np.sign(generator.standard_normal(N))},
    }[loss]
    return {"loss": loss, "map": map, "model": model, **parameters, **data}


def rows_and_values(fields: dict) -> tuple[np.ndarray, np.ndarray]:
    """a [rows, p] and V [d, p], whatever the model."""
    if fields["model"] == "matrix":
        return fields["A"], fields["V"].T
    return fields["a"][None], fields["U"] if fields["model"] == "tied" else fields["V"]
