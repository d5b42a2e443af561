"""The specialization paper's figures and claims, and ours about it. A new one is one file and one line here."""

from softmaxlab.papers.specialization import (
    claims_bayes,
    claims_gradient,
    claims_heads,
    claims_hessian,
    claims_losses,
    claims_model,
    claims_phases,
)

FIGURES = ()
CLAIMS = (
    *claims_model.CLAIMS,
    *claims_gradient.CLAIMS,
    *claims_hessian.CLAIMS,
    *claims_phases.CLAIMS,
    *claims_heads.CLAIMS,
    *claims_bayes.CLAIMS,
    *claims_losses.CLAIMS,
)
