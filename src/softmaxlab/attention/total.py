"""The map `sum`: w = χ/Σχ exactly, with f(x) = x in the polarization paper's σ_f. Singular at Σχ = 0.

Rows sum to 1, but weights may be negative, or huge near Σχ = 0; a row at exactly 0 attends nowhere, by convention.
"""

from softmaxlab.attention.linear import linear
from softmaxlab.attention.map import Map

MAPS = (Map("sum", linear, normalise="sum", row_stochastic=True, source="varre2026polarization"),)
