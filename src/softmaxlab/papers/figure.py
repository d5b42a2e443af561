"""A figure is a spec whose result can be drawn: its settings are fields, its presets are changes of them."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Spec
from softmaxlab.errors import unknown

if TYPE_CHECKING:
    import matplotlib.figure


class FigureSpec(Spec):
    """Base of all figures. A leaf gives its facts as class attributes, `_run` for data and `draw` for the picture."""

    id: ClassVar[str]  # "polarization/fig02"
    title: ClassVar[str]
    source: ClassVar[str] = "softmaxlab"  # or a key in references.bib
    place: ClassVar[str] = ""  # "Figure 2"
    reports: ClassVar[str] = ""  # what the paper, or we, say it shows
    # what "quick" and "paper" change of the settings; "committed" is for studies
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    errata: ClassVar[tuple[str, ...]] = ()  # points about the figure itself, "polarization/24"
    cost: ClassVar[dict[str, str]] = {"quick": "", "paper": ""}  # time on two cores per preset, "2 s"
    quick_within: ClassVar[dict[str, float]] = {}  # how far numbers of the quick preset may be from the paper's

    @classmethod
    def preset(cls, name: str) -> Self:
        if name not in cls.presets:
            raise unknown("preset", name, cls.presets)
        return cls(**cls.presets[name])

    @classmethod
    def shown_at(cls, preset: str) -> str:
        """Return the preset that a reproduction shows: "committed" for studies, whose quick runs take minutes."""
        return "committed" if preset == "quick" and "committed" in cls.presets else preset

    @staticmethod
    def seen(result: Result) -> str:
        """Return a sentence with numbers on what the arrays show; empty if the verdict of a claim says it."""
        return ""

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        """Return the numbers that the picture shows, by name; quick and paper presets must agree (paper_level.py)."""
        return {}

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        raise NotImplementedError
