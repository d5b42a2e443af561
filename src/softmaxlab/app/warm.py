"""What the first views would wait for: imports, compiled kernels, first figures."""

from softmaxlab.app import attention, polarization, specialization
from softmaxlab.app.states import Attention, Polarization, Specialization


def everything() -> None:
    """The default views, and one step of each compiled kernel."""
    polarization.panels(Polarization())
    polarization.portrait(Polarization())
    for optimizer in ("gd", "adam"):  # the reduced kernel and the one of everything else
        polarization.solve(Polarization(optimizer=optimizer, horizon=0.0))
    specialization.solve(Specialization(), "coarse")
    specialization.risk(Specialization())
    attention.pattern(Attention())
