"""The loss landscape before and during specialization: one place for its pieces."""

from softmaxlab.specialization.landscape.coefficients import HessianCoefficients as HessianCoefficients
from softmaxlab.specialization.landscape.coefficients import QuarticCoefficients as QuarticCoefficients
from softmaxlab.specialization.landscape.coefficients import hessian_coefficients as hessian_coefficients
from softmaxlab.specialization.landscape.coefficients import mean_gradient_at_origin as mean_gradient_at_origin
from softmaxlab.specialization.landscape.coefficients import quartic_coefficients as quartic_coefficients
from softmaxlab.specialization.landscape.cubature import Cubature as Cubature
from softmaxlab.specialization.landscape.cubature import cubature as cubature
from softmaxlab.specialization.landscape.escape import Escape as Escape
from softmaxlab.specialization.landscape.escape import Growth as Growth
from softmaxlab.specialization.landscape.escape import curvature as curvature
from softmaxlab.specialization.landscape.escape import escape_rates as escape_rates
from softmaxlab.specialization.landscape.escape import growth as growth
from softmaxlab.specialization.landscape.softmax1_fixed_points import conserved_quantity as conserved_quantity
from softmaxlab.specialization.landscape.softmax1_fixed_points import gain_on_curve as gain_on_curve
from softmaxlab.specialization.landscape.softmax1_fixed_points import softmax1_gradient as softmax1_gradient
from softmaxlab.specialization.landscape.softmax1_fixed_points import (
    unspecialised_fixed_point as unspecialised_fixed_point,
)
from softmaxlab.specialization.landscape.unspecialised_gradient import MeanGradient as MeanGradient
from softmaxlab.specialization.landscape.unspecialised_gradient import mean_gradient as mean_gradient
from softmaxlab.specialization.landscape.unspecialised_gradient import unspecialised as unspecialised
