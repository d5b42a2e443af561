"""Gradient flow of the order parameters, continued until it is certified to be at rest if asked."""

from softmaxlab.specialization.flow.flow import Flow as Flow
from softmaxlab.specialization.flow.flow import flow_many as flow_many

__all__ = ["Flow", "flow_many"]
