"""Our studies. A new one is one file and one line here."""

from softmaxlab.papers.studies import forecast, optimizers

FIGURES = (forecast.Forecast, optimizers.Choice)
CLAIMS = ()
