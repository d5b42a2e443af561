"""Import, compile and compute what the first views would otherwise wait for."""

from softmaxlab.app import attention, polarization, specialization
from softmaxlab.app.states import Attention, Polarization, Specialization


def warm_up() -> None:
    """Compute the default views and one step of each compiled kernel."""
    polarization.panels(Polarization())
    polarization.portrait(Polarization())
    for optimizer in ("gd", "adam"):  # the reduced kernel and the one of everything else
        polarization.solve(Polarization(optimizer=optimizer, horizon=0.0))
    specialization.solve(Specialization(), "coarse")
    specialization.risk(Specialization())
    attention.pattern(Attention())
