"""Every threshold by which something is called a sink, a massive activation or a dormant head, defined once."""

SINK = 0.9  # sink score above which the polarization paper calls a head a sink head
SINK_EPS = 0.3  # ε: mean weight above which the literature on language models calls a key a sink (Gu et al. 2025)
SINK_VISIBILITY = 0.25  # share of a sequence's queries that must see a key before it can be a sink: no mere neighbour
SINK_FREQUENCY = 0.5  # a position is worth keeping in a cache if it is a sink in more than this share of the sequences
KEY_SHARE = 0.01  # share of a row's weight above which `keys_above` counts a key
DORMANT_OUTPUT = 0.5  # a sink head is dormant if the first token gives more than this share of its output
MASSIVE = 100.0  # |h| above which an activation may be massive (Sun et al. 2024),
MASSIVE_RATIO = 1000.0  # if it also exceeds this multiple of its layer's median |h|
