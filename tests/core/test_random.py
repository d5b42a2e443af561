import numpy as np
import torch

from softmaxlab.core.random import generator, torch_generator


def test_the_same_name_gives_the_same_numbers():
    assert generator(3, "init").standard_normal() == generator(3, "init").standard_normal()
    draws = [torch.randn(4, generator=torch_generator(3, "init")) for _ in range(2)]
    assert torch.equal(*draws)
    others = [torch.randn(4, generator=torch_generator(s, n)) for s, n in ((3, "data"), (4, "init"))]
    assert not any(torch.equal(draws[0], other) for other in others)


def test_the_numbers_never_change():
    """A literal: seeds in papers and stored results must mean the same in every release."""
    assert generator(0, "scores").integers(10**9, size=3).tolist() == [422024413, 11182772, 158337530]


def test_names_and_seeds_are_independent():
    streams = [generator(s, n).standard_normal(20_000) for s in (0, 1) for n in ("a", "b", "ab")]
    correlation = np.corrcoef(streams) - np.eye(len(streams))
    # 15 pairs of 20,000 samples: the largest |z| of 15 normals stays below 4.5 with probability 1 − 1e-4
    assert np.abs(correlation).max() < 4.5 / np.sqrt(20_000)
