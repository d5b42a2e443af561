"""Our studies. A new one is one file and one line here."""

from softmaxlab.papers.studies import (
    bumps,
    claims_forecast,
    claims_optimizers,
    forecast,
    mitigation,
    optimizers,
    winners,
)

FIGURES = (forecast.Forecast, optimizers.Choice, winners.Winners, mitigation.Mitigation, bumps.Bumps)
CLAIMS = (*claims_forecast.CLAIMS, *claims_optimizers.CLAIMS)
