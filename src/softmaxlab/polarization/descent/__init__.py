"""Discrete descent of the value-softmax model, in compiled engines and in NumPy."""

from softmaxlab.polarization.descent.descent import Descent as Descent
from softmaxlab.polarization.descent.descent import descend_many as descend_many

__all__ = ["Descent", "descend_many"]
