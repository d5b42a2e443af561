"""Gradient flow of the value-softmax model, and of any differentiable loss."""

from softmaxlab.polarization.flow.any_loss import gradient_flow as gradient_flow
from softmaxlab.polarization.flow.flow import Flow as Flow
from softmaxlab.polarization.flow.flow import StrengthFlow as StrengthFlow

__all__ = ["Flow", "StrengthFlow", "gradient_flow"]
