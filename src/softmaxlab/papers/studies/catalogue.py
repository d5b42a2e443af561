"""Our studies. A new one is one file and one line here."""

from softmaxlab.papers.studies import claims_forecast, claims_optimizers, forecast, optimizers, winners

FIGURES = (forecast.Forecast, optimizers.Choice, winners.Winners)
CLAIMS = (*claims_forecast.CLAIMS, *claims_optimizers.CLAIMS)
