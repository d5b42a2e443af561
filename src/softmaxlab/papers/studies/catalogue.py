"""Our studies. A new one is one file and one line here."""

from softmaxlab.papers.studies import (
    bias_rule,
    bumps,
    claims_forecast,
    claims_mitigation,
    claims_optimizers,
    forecast,
    mitigation,
    optimizers,
    small_models,
    winners,
)

FIGURES = (
    forecast.Forecast,
    optimizers.Choice,
    winners.Winners,
    mitigation.Mitigation,
    bumps.Bumps,
    small_models.SmallModels,
    bias_rule.BiasRule,
)
CLAIMS = (*claims_forecast.CLAIMS, *claims_optimizers.CLAIMS, *claims_mitigation.CLAIMS)
