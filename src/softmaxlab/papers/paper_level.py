"""The numbers that a figure shows at the quick and at the paper preset, stored, and the rule that both agree.

A quick picture may draw fewer points, seeds or dimensions; it must not say something else than the same figure at the
paper preset. To put a figure under this rule:

1. Give it `summarize(result)`: the numbers that its picture shows, by name ("largest weight, κ = 5"). Numbers that grow
   with the preset, as counts of seeds do, are given as shares.
2. Give it `quick_within`: by name, how far the quick number may be from the paper's, with a reason in a comment. Names
   that are not in it must be equal.
3. Run `softmaxlab check --figures --refined --write ID`. It computes both presets and stores their numbers with digest,
   command and date in `data/paper_level` of the paper. Commit that file.

`softmaxlab check --figures` computes the quick preset and compares. tests/papers/test_paper_level.py does so for
figures that take few seconds and compares the stored numbers of the others. The digest is of the preset's spec and of
the source of `summarize`: numbers of another digest are stale and count as missing.
"""

import dataclasses
import inspect
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from softmaxlab.core.files import atomic
from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SoftmaxlabError, SpecError
from softmaxlab.papers import records
from softmaxlab.papers.figure import FigureSpec

FOLDER = Path("data", "paper_level")
DIGITS = 6  # of a stored number
Preset = Literal["quick", "paper"]
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Summary:
    """The numbers of a figure at one preset, with what they were computed from, by which command and when."""

    numbers: dict[str, float]
    digest: str
    command: str
    date: str  # "2026-11-18"
    seconds: float  # of the processor


def is_compared(figure: type[FigureSpec]) -> bool:
    """Whether its quick preset differs from the paper's and it has numbers to compare."""
    return figure.summarize is not FigureSpec.summarize and figure.preset("quick") != figure.preset("paper")


def path_of(figure: type[FigureSpec]) -> Path:
    folder = Path(inspect.getfile(figure)).parent
    home = folder.parent if folder.name == "figures" else folder  # the module of a plugin has no such folder
    return home / FOLDER / f"{figure.id.split('/', 1)[-1]}.json"


def read(figure: type[FigureSpec]) -> dict[Preset, Summary]:
    """Return the stored numbers by preset, those that are not stale."""
    path = path_of(figure)
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["presets"]
    summaries = {preset: Summary(**summary) for preset, summary in stored.items()}
    return {preset: each for preset, each in summaries.items() if each.digest == digest(figure, preset)}


def write(figure: type[FigureSpec], summaries: Mapping[Preset, Summary]) -> Path:
    path = path_of(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {"figure": figure.id, "presets": {preset: asdict(summary) for preset, summary in summaries.items()}}
    with atomic(path) as draft:
        draft.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def digest(figure: type[FigureSpec], preset: str) -> str:
    return records.digest(figure.summarize, figure.preset(preset))


def compute(figure: type[FigureSpec], preset: Preset) -> Summary:
    """Compute the figure at a preset and summarize it; a run that ended early has no summary."""
    began = time.process_time()
    result = simulate(figure.preset(preset))
    if not result.status.ok:
        raise SoftmaxlabError(f"{figure.id} at the preset {preset} cannot be summarized: {result.status}")
    numbers = {name: float(f"{value:.{DIGITS}g}") for name, value in figure.summarize(result).items()}
    return Summary(
        numbers=numbers,
        digest=digest(figure, preset),
        command=f"softmaxlab check --figures --refined --write {figure.id}",
        date=date.today().isoformat(),
        seconds=round(time.process_time() - began, 1),
    )


def disagreements(quick: Numbers, paper: Numbers, within: Mapping[str, float]) -> list[str]:
    """Return a sentence for each number by which the quick preset says something else; NaN agrees with nothing."""
    if unused := [name for name in within if name not in paper]:
        raise SpecError(f"quick_within names {unused[0]!r}, which is not among the numbers {', '.join(paper)}")
    sentences = []
    for name in dict.fromkeys([*paper, *quick]):
        one, other = quick.get(name, math.nan), paper.get(name, math.nan)
        if not abs(one - other) <= within.get(name, 0.0):
            sentences.append(f"{name}: {one:g} at quick, {other:g} at paper, allowed is ± {within.get(name, 0.0):g}")
    return sentences


@dataclass(frozen=True)
class Comparison:
    """A figure's numbers at both presets; `paper` is None if nothing is stored or what is stored is stale."""

    figure: type[FigureSpec]
    quick: Summary
    paper: Summary | None

    @property
    def problems(self) -> list[str]:
        """Return why the quick picture is not known to be true; empty if it is."""
        if self.paper is None:
            return ["no numbers of the paper preset are stored, or they are stale"]
        return disagreements(self.quick.numbers, self.paper.numbers, self.figure.quick_within)

    @property
    def ok(self) -> bool:
        return not self.problems

    def plain(self) -> dict[str, Any]:
        paper = None if self.paper is None else dataclasses.asdict(self.paper)
        rest = {"paper": paper, "within": dict(self.figure.quick_within), "problems": self.problems, "ok": self.ok}
        return {"id": self.figure.id, "quick": dataclasses.asdict(self.quick), **rest}


def compare(figure: type[FigureSpec], *, refined: bool = False, store: bool = False) -> Comparison:
    """Compute the quick preset, with `refined` the paper's too, and compare; `store` keeps what was computed."""
    computed: dict[Preset, Summary] = {"quick": compute(figure, "quick")}
    if refined:
        computed["paper"] = compute(figure, "paper")
    both = read(figure) | computed
    if store:
        write(figure, both)
    return Comparison(figure, both["quick"], both.get("paper"))
