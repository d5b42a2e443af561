"""Stochastic gradient descent of the heads, on vectors (direct) or on their Gram matrices (reduced)."""

from softmaxlab.specialization.sgd.sgd import SGD as SGD

__all__ = ["SGD"]
