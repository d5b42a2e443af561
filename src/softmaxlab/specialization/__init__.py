"""The single-location model: how attention heads specialize under SGD, and what the best estimator does."""

from softmaxlab.specialization import landscape as landscape
from softmaxlab.specialization.bayes import bayes_softmax_parameters as bayes_softmax_parameters
from softmaxlab.specialization.flow import Flow as Flow
from softmaxlab.specialization.flow import flow_many as flow_many
from softmaxlab.specialization.model import SingleLocation as SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters as OrderParameters
from softmaxlab.specialization.order_parameters import noisy_start as noisy_start
from softmaxlab.specialization.order_parameters import random_start as random_start
from softmaxlab.specialization.priors import Discrete as Discrete
from softmaxlab.specialization.priors import FlippingSpike as FlippingSpike
from softmaxlab.specialization.priors import Gaussian as Gaussian
from softmaxlab.specialization.priors import OneHotSpikes as OneHotSpikes
from softmaxlab.specialization.priors import Prior as Prior
from softmaxlab.specialization.priors import Sampled as Sampled
from softmaxlab.specialization.priors import register as register
from softmaxlab.specialization.pruning import Pruning as Pruning
from softmaxlab.specialization.sequences import Sequences as Sequences
from softmaxlab.specialization.sgd import SGD as SGD

__all__ = [
    "SGD",
    "Discrete",
    "FlippingSpike",
    "Flow",
    "Gaussian",
    "OneHotSpikes",
    "OrderParameters",
    "Prior",
    "Pruning",
    "Sampled",
    "Sequences",
    "SingleLocation",
    "bayes_softmax_parameters",
    "flow_many",
    "landscape",
    "noisy_start",
    "random_start",
    "register",
]
