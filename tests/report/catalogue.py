"""A catalogue of two figures and three claims, some of which go wrong, and a probe; importable by spawned processes."""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.errors import MissingExtra
from softmaxlab.papers.claim import Claim, Finding, Verdict
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.report.tasks import DOCUMENT, Probe


class Line(FigureSpec):
    """A line."""

    id: ClassVar[str] = "attention/line"
    title: ClassVar[str] = 'A <b>line</b> & its "slope" $ν_1$'
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Figure 1"
    reports: ClassVar[str] = "It <script>rises</script>"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"points": 3}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s"}

    points: int = 5

    def _run(self, device: str) -> Result:
        return Result({"x": np.arange(self.points)}, {"x": ("x",)}, notes={"rises": True})

    @staticmethod
    def draw(result: Result):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4, 2), layout="constrained")
        figure.subplots().plot(result["x"])
        figure.suptitle("A line of\nthree points")
        return figure


class Raising(Line):
    """Nothing."""

    id: ClassVar[str] = "attention/raising"
    title: ClassVar[str] = "A figure that raises"
    place: ClassVar[str] = "Figure 2"

    def _run(self, device: str) -> Result:
        raise ZeroDivisionError("the <figure> cannot be computed")


class Sleeping(Line):
    """A figure that says when it has begun, and takes long."""

    id: ClassVar[str] = "attention/sleeping"

    def _run(self, device: str) -> Result:
        Path("begun").write_text(str(os.getpid()))
        time.sleep(600)
        raise AssertionError


FIGURES = {figure.id: figure for figure in (Line, Raising)}


def sign(value: float) -> Finding:
    return Finding(Verdict.HOLDS if value > 0 else Verdict.FAILS, f"u_0 = {value} & <more>")


def raise_(value: float) -> Finding:
    raise ValueError("cannot be judged")


def claim(id: str, judge: Any, subject: float, expected: Verdict) -> Claim:
    about, shown = ("softmaxlab", "Figure 1", "u_0 > 0", "none"), ("attention/line",)
    return Claim(id, *about, judge, subject, -subject, "the other sign", expected, figures=shown)


CLAIMS = {
    c.id: c
    for c in (
        claim("attention/holds", sign, 1.0, Verdict.HOLDS),
        claim("attention/fails", sign, -1.0, Verdict.FAILS),
        claim("attention/unjudged", raise_, 1.0, Verdict.HOLDS),
    )
}


def no_extra(folder: Path) -> None:
    raise MissingExtra("the demo model is not installed")


PROBE = Probe("tiny", "softmaxlab probe tiny", no_extra)


def write_document(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DOCUMENT).write_text("{}")
