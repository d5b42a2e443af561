"""Heads of pretrained models: measure them, change their map, and see what it costs.

Needs the extra `hf` (transformers), which is imported when a model is first used.
"""

from softmaxlab.probing.changes.fold import fold_sink as fold_sink
from softmaxlab.probing.changes.loss import change as change
from softmaxlab.probing.changes.loss import loss as loss
from softmaxlab.probing.changes.prune import prune as prune
from softmaxlab.probing.changes.prune import pruned as pruned
from softmaxlab.probing.changes.quantise import quantised as quantised
from softmaxlab.probing.changes.redundancy import redundancy as redundancy
from softmaxlab.probing.compare import compare as compare
from softmaxlab.probing.compare import compare_tables as compare_tables
from softmaxlab.probing.conclusions import conclusions as conclusions
from softmaxlab.probing.maps.saving import detach as detach
from softmaxlab.probing.maps.saving import load_swapped as load_swapped
from softmaxlab.probing.maps.saving import save_swapped as save_swapped
from softmaxlab.probing.maps.saving import swap_of as swap_of
from softmaxlab.probing.maps.swap import swapped as swapped
from softmaxlab.probing.models.corpora import batches as batches
from softmaxlab.probing.models.corpora import sequences as sequences
from softmaxlab.probing.models.corpora import texts as texts
from softmaxlab.probing.models.load import load as load
from softmaxlab.probing.probe import examine as examine
from softmaxlab.probing.probe import probe as probe
from softmaxlab.probing.small import LanguageModel as LanguageModel
from softmaxlab.probing.small import train_and_save as train_and_save
from softmaxlab.probing.streaming.arrays import from_weights as from_weights
from softmaxlab.probing.watch import watch as watch

__all__ = [
    "LanguageModel",
    "batches",
    "change",
    "compare",
    "compare_tables",
    "conclusions",
    "detach",
    "examine",
    "fold_sink",
    "from_weights",
    "load",
    "load_swapped",
    "loss",
    "probe",
    "prune",
    "pruned",
    "quantised",
    "redundancy",
    "save_swapped",
    "sequences",
    "swap_of",
    "swapped",
    "texts",
    "train_and_save",
    "watch",
]
