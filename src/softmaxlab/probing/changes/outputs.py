"""Where the outputs of heads go: the linear map W_O that turns them into a part of the hidden state.

It is not in the registry's call, so it is found by the names that transformers uses.
"""

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.sites import Site, root

INSIDE = ("o_proj", "out_proj", "c_proj", "dense", "o", "wo")  # in the site itself
BESIDE = ("output.dense",)  # next to it: BERT, ViT


def output_map(model: nn.Module, site: Site) -> nn.Module:
    """W_O of a site."""
    around = root(model).get_submodule(site.name.rpartition(".")[0])
    for parent, names in ((site.module, INSIDE), (around, BESIDE)):
        for name in names:
            try:
                return parent.get_submodule(name)
            except AttributeError:
                continue
    raise SpecError(f"the output projection of {site.name} is not found: it is none of {', '.join(INSIDE + BESIDE)}")


def output_matrix(map: nn.Module, width: int, like: Tensor) -> Tensor:
    """W_O as a matrix [width, d] in float32, by calling it: it may be quantised, offloaded or adapted."""
    points = torch.eye(width, dtype=like.dtype, device=like.device)[None]
    origin = torch.zeros_like(points[:, :1])
    return (map(points)[0].float() - map(origin)[0].float()).detach()
