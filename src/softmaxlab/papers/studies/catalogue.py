"""Our studies. A new one is one file and one line here."""

from softmaxlab.papers.studies import claims_optimizers, optimizers, winners

FIGURES = (optimizers.Choice, winners.Winners)
CLAIMS = claims_optimizers.CLAIMS
