"""Small transformers: how sinks and sparse attention form in training."""

from softmaxlab.training.run import Run as Run
from softmaxlab.training.tasks import Classification as Classification
from softmaxlab.training.tasks import Induction as Induction
from softmaxlab.training.tasks import Task as Task

__all__ = ["Classification", "Induction", "Run", "Task"]
