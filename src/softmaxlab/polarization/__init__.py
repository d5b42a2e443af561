"""The value-softmax model L(V σ(a)): gradient flow, gradient descent, and what is known exactly."""

from softmaxlab.polarization import exact as exact
from softmaxlab.polarization.descent import Descent as Descent
from softmaxlab.polarization.descent import descend_many as descend_many
from softmaxlab.polarization.flow import Flow as Flow
from softmaxlab.polarization.flow import StrengthFlow as StrengthFlow
from softmaxlab.polarization.flow import gradient_flow as gradient_flow
from softmaxlab.polarization.losses import names as names
from softmaxlab.polarization.losses import register as register
from softmaxlab.polarization.problem import Problem as Problem

__all__ = [
    "Descent",
    "Flow",
    "Problem",
    "StrengthFlow",
    "descend_many",
    "exact",
    "gradient_flow",
    "names",
    "register",
]
