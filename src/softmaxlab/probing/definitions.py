"""The meaning of every column of a table of heads, in one sentence each."""

from softmaxlab.measure.thresholds import KEY_SHARE, SINK_VISIBILITY

ERROR = "…_se"
SAMPLING = "_sampling_se"
_POOLED = "mean over all queries of all sequences that are not padding, the first query included"
DEFINITIONS = {
    "layer": "self-attention layer, from 0 in the order of the model's modules (an encoder's before a decoder's)",
    "head": "query head of the layer, from 0",
    "sparsity": f"largest weight of a row over the row's total; {_POOLED}",
    "sink": f"weight on the sequence's first token over the row's total, 0 outside a window; {_POOLED}",
    "entropy": f"Σ −w log w in nats, of |w|/Σ|w| for unnormalised maps, a learned sink as one more term; {_POOLED}",
    "entropy_normalised": "entropy over the log of the number of visible keys, mean over queries; 1 if uniform",
    "effective_keys": "(Σ|w|)²/Σw² of a row, mean over queries: the number of keys a head reads",
    "keys_above": f"number of keys with more than {KEY_SHARE} of the row's total, mean over queries",
    "total": "Σw of a row over real keys, mean over queries; 1 for softmax, less with a learned sink or softmax-1",
    "empty": "share of the queries that give no key any weight; all means but that of `total` leave them out",
    "sink_value": "‖v_0‖ of the first token's value over the mean ‖v‖ of the sequence; mean over sequences",
    "sink_output": "‖w_0 v_0‖/‖Σ w v‖: how much of the head's output the first token's value is; mean over queries",
    "sink_sequences": (
        "share of the sequences in which α_0 > ε, with α_k the mean weight on key k over the queries that see it"
    ),
    "max_logit": (
        "largest score that a counted query gives a visible key, scaled, with bias and soft cap: what QK-clipping "
        "watches; not a mean, so without a standard error"
    ),
    "first_layer, last_layer": "the first and the last layer in which the position and token of a sink are a sink",
    ERROR: "standard error of the mean, with sequences as the independent samples",
    f"…{SAMPLING}": "standard error that comes from measuring a sample of the queries (queries=N) instead of all",
    "sink keys": f"keys with α_k > ε that at least {SINK_VISIBILITY:.0%} of the queries see",
}
FAST = ("sink", "entropy", "total", "empty", "sink_value", "sink_output", "sink_sequences")
FULL = (
    "sparsity", "sink", "entropy", "entropy_normalised", "effective_keys", "keys_above", "total", "empty",
    "sink_value", "sink_output", "sink_sequences",
)  # fmt: skip
