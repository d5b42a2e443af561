"""Fold the sink into the learned sinks of an architecture that has them (gpt-oss): what a checkpoint can hold.

    s'_h = log(e^{s_h} + e^{b_h})   in heads whose mean weight on the first token is above ε

with b_h the mean score of the first token, as in `Constants`. It is softmax-1 with a bias per head: weight moves from
the first token to no token. The first token keeps its key, and its value is not replaced: the parameters have no room
for one. `cost` tells what that does.
"""

from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.inference import Batch
from softmaxlab.probing.interventions.deployed import write_sinks
from softmaxlab.probing.interventions.folded import Folded
from softmaxlab.probing.interventions.sink_constants import calibrated
from softmaxlab.probing.streaming.sites import root, sites


def has_learned_sinks(model: nn.Module) -> bool:
    """Whether every layer has a parameter `sinks`, one score per head."""
    return all(isinstance(getattr(site.module, "sinks", None), nn.Parameter) for site in sites(model))


class LearnedSinks(Folded):
    """Inside `with sinks:` the model computes with s'; `save` writes them for use without softmaxlab."""

    method = "bias"

    def __init__(self, model: nn.Module, calibration: list[Batch], eps: float = SINK_EPS) -> None:
        if not has_learned_sinks(model):
            raise SpecError(f"model {type(root(model)).__name__} has no learned sinks to fold a bias into")
        super().__init__(model)
        self.top = root(model)
        constants = calibrated(model, calibration, eps)
        self.sinks: dict[str, Tensor] = {}  # by the parameter's name
        for site in sites(model):
            s, part = site.module.get_parameter("sinks"), constants[site.name]
            b = part.b.to(s.device)
            folded = torch.where(part.heads.to(s.device), torch.logaddexp(s.detach().to(b.dtype), b), s.detach())
            self.sinks[f"{site.name}.sinks"] = folded.to(s.dtype)

    def fold(self, undo: ExitStack) -> None:
        for name, value in self.sinks.items():
            parameter = self.top.get_parameter(name)
            undo.callback(setattr, parameter, "data", parameter.data)
            parameter.data = value

    def save(self, folder: str | Path) -> list[Path]:
        """Write sinks.safetensors and a loader that needs transformers and safetensors alone; return the paths."""
        return write_sinks(type(self.top).__name__, self.sinks, folder)
