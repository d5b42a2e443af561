"""Figures and claims about the attention maps themselves. A new one is one file and one line here."""

from softmaxlab.papers.attention import claims, maps

FIGURES = (maps.Maps,)
CLAIMS = claims.CLAIMS
