"""Heads of pretrained models: measure them, change their map, and see what it costs.

`ProbeSession(ProbeOptions("smollm2")).run()` is `softmaxlab probe smollm2` as a library. Needs the extra `hf`
(transformers), which is imported when a model is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from softmaxlab.probing.compare import compare as compare
from softmaxlab.probing.compare import compare_tables as compare_tables
from softmaxlab.probing.extra import transformers as _transformers
from softmaxlab.probing.head_similarity import redundancy as redundancy
from softmaxlab.probing.heads import HeadTables as HeadTables
from softmaxlab.probing.heads import measure_heads as measure_heads
from softmaxlab.probing.heads import probe as probe
from softmaxlab.probing.interventions.fold_sink import fold_sink as fold_sink
from softmaxlab.probing.interventions.prune import prune as prune
from softmaxlab.probing.interventions.prune import pruned as pruned
from softmaxlab.probing.interventions.quantise import quantised as quantised
from softmaxlab.probing.load import load as load
from softmaxlab.probing.next_token_loss import change as change
from softmaxlab.probing.next_token_loss import loss as loss
from softmaxlab.probing.options import ProbeOptions as ProbeOptions
from softmaxlab.probing.options import SwapOption as SwapOption
from softmaxlab.probing.recommendations import recommendations as recommendations
from softmaxlab.probing.report import ProbeReport as ProbeReport
from softmaxlab.probing.session import ProbeSession as ProbeSession
from softmaxlab.probing.sink_monitor import SinkMonitor as SinkMonitor
from softmaxlab.probing.streaming.from_weights import from_weights as from_weights
from softmaxlab.probing.swap.saving import detach as detach
from softmaxlab.probing.swap.saving import load_swapped as load_swapped
from softmaxlab.probing.swap.saving import save_swapped as save_swapped
from softmaxlab.probing.swap.saving import swap_of as swap_of
from softmaxlab.probing.swap.swapped import swapped as swapped
from softmaxlab.probing.text import batches as batches
from softmaxlab.probing.text import sequences as sequences
from softmaxlab.probing.text import texts as texts
from softmaxlab.probing.watch import watch as watch

if TYPE_CHECKING:
    from softmaxlab.probing.sink_callback import SinkCallback as SinkCallback

__all__ = [
    "HeadTables",
    "ProbeOptions",
    "ProbeReport",
    "ProbeSession",
    "SinkCallback",
    "SinkMonitor",
    "SwapOption",
    "batches",
    "change",
    "compare",
    "compare_tables",
    "detach",
    "fold_sink",
    "from_weights",
    "load",
    "load_swapped",
    "loss",
    "measure_heads",
    "probe",
    "prune",
    "pruned",
    "quantised",
    "recommendations",
    "redundancy",
    "save_swapped",
    "sequences",
    "swap_of",
    "swapped",
    "texts",
    "watch",
]

_EARLIER_NAMES = {  # names that moved → where they are now; they stay importable from here
    "LanguageModel": ("softmaxlab.training.language_model", "LanguageModel"),
    "train_and_save": ("softmaxlab.training.language_model", "train_and_save"),
    "examine": ("softmaxlab.probing.heads", "measure_heads"),
    "conclusions": ("softmaxlab.probing.recommendations", "recommendations"),
}
_NEEDS_TRANSFORMERS = {"SinkCallback": ("softmaxlab.probing.sink_callback", "SinkCallback")}  # a subclass of theirs


def __getattr__(name: str) -> Any:
    elsewhere = _EARLIER_NAMES | _NEEDS_TRANSFORMERS
    if name not in elsewhere:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _NEEDS_TRANSFORMERS:
        _transformers()  # so that its absence is said in our words
    module, attribute = elsewhere[name]
    return getattr(importlib.import_module(module), attribute)
