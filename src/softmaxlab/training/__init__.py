"""Small transformers: how sinks and sparse attention form in training."""

from softmaxlab.core.tables import write_table as write_table
from softmaxlab.training.checkpoint import load as load
from softmaxlab.training.checkpoint import save as save
from softmaxlab.training.forecast import forecast as forecast
from softmaxlab.training.grid import grid as grid
from softmaxlab.training.heads import attention_weights as attention_weights
from softmaxlab.training.language_model import LanguageModel as LanguageModel
from softmaxlab.training.language_model import train_and_save as train_and_save
from softmaxlab.training.run import Run as Run
from softmaxlab.training.run import train as train
from softmaxlab.training.sweep import sweep as sweep
from softmaxlab.training.tasks import Classification as Classification
from softmaxlab.training.tasks import Induction as Induction
from softmaxlab.training.tasks import Task as Task
from softmaxlab.training.tasks import register as register

__all__ = [
    "Classification",
    "Induction",
    "LanguageModel",
    "Run",
    "Task",
    "attention_weights",
    "forecast",
    "grid",
    "load",
    "register",
    "save",
    "sweep",
    "train",
    "train_and_save",
    "write_table",
]
