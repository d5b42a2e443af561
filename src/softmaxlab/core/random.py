"""One seed, many independent generators, each found by its name.

Names instead of an order of calls: adding a draw in one place never changes the numbers of another.
"""

import hashlib

import numpy as np


def generator(seed: int, name: str) -> np.random.Generator:
    """The NumPy generator called `name` under `seed`."""
    return np.random.default_rng(_sequence(seed, name))


def torch_generator(seed: int, name: str, device: str = "cpu"):
    """The torch generator called `name` under `seed`."""
    import torch

    state = int(_sequence(seed, name).generate_state(1, np.uint64)[0])
    # torch takes a signed 64-bit seed
    return torch.Generator(device).manual_seed(state >> 1)


def _sequence(seed: int, name: str) -> np.random.SeedSequence:
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(digest, "<u4").tolist()))
