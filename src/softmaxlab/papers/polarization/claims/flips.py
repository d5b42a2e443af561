"""Claims of the polarization paper about one swapped token (Section 4.2), judged on classification runs.

At its own level a claim about flip rates is judged on the committed table, which has all runs of Figures 6 and 18 to
21, the paper's own protocol; refined, on models trained four times as long from other seeds. Runs are compared in pairs
that differ in one setting only (pairs.py). Which tokens heads look at is in no table: those models are trained here.
"""

import itertools
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.papers.claim import Claim, Evidence, Finding, Verdict
from softmaxlab.papers.polarization.classification_figures import EASY, READ_AT
from softmaxlab.papers.polarization.pairs import CONFIDENCE, LEAST_PAIRS, Pairs, differences, few, joined, matched
from softmaxlab.papers.polarization.run_groups import NORMALISED, OTHERS, Change, both, flips, of_maps, some, trained
from softmaxlab.papers.polarization.runs import chosen, mean
from softmaxlab.training import Classification, Run
from softmaxlab.training.grid import grid
from softmaxlab.training.presets import RATES, SEEDS, VOCABULARIES

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

SOURCE = "varre2026polarization"
SETTING = ["map", "heads", "layers", "lr", "seed", "mlp", "layernorm", "task.vocab"]
HEADS, LAYERS = (1, 2, 4), (1, 2)
ONE_HEAD = Run(task=Classification(), layers=1, heads=1)
BARE = Run(task=Classification(), mlp=False, layernorm=False)  # Figure 21's
LONG = 40  # epochs, four times the paper's
OTHER_SEEDS = (5, 6, 7)
STRONGEST = ("softmax", "elu_norm", "mlp_norm", "mlp", "elu")  # softmax, and the maps next to it in the table


@dataclass(frozen=True)
class FlipSubject:
    """The committed runs, with labels exchanged for a control, or runs to be trained now."""

    exchanged: Change = field(default_factory=dict)
    specs: tuple[Run, ...] = ()

    def table(self) -> "Table":
        return trained(self.specs) if self.specs else flips(self.exchanged)


def flips_of_one_head(subject: FlipSubject) -> Finding:
    """Softmax against every other map, one layer and one head: at READ_AT its rate, at every vocabulary the pairs."""
    runs = chosen(subject.table(), layers=1, heads=1, mlp=True, layernorm=True)
    softmax = some("flips-one-head", "runs of softmax", chosen(runs, map="softmax"))
    others = tuple(map for map in (*NORMALISED, *OTHERS) if map != "softmax")
    some("flips-one-head", "runs of other maps", of_maps(runs, others))
    parts = [differences(*matched(runs, "map", "softmax", map, SETTING), "flips", map) for map in others]
    pairs = joined(parts)
    rates = {int(vocab): mean(part["flips"]) for vocab, part in softmax.groupby("task.vocab")}  # pyright: ignore[reportArgumentType]
    shown = ", ".join(f"{rate:.2f} (vocabulary {vocab})" for vocab, rate in rates.items())
    measured = (
        f"mean flip rate of softmax {shown}, judged at {READ_AT}; softmax less another map at equal settings, signs of "
        f"pairs: {pairs}{few(pairs)}"
    )
    if READ_AT not in rates:
        return Finding(Verdict.UNDECIDED, f"{measured}; no run at vocabulary {READ_AT}")
    if rates[READ_AT] <= EASY or pairs.verdict() is Verdict.FAILS:
        return Finding(Verdict.FAILS, measured)
    every = all(2 * part.positive > part.unequal for part in parts if part.unequal)
    return Finding(pairs.verdict() if every else Verdict.UNDECIDED, measured)


def flips_fall(subject: FlipSubject) -> Finding:
    """Softmax without MLP and LayerNorm: heads 1, 2, 4 by layers 1, 2, at equal learning rate and seed."""
    runs = chosen(subject.table(), map="softmax", mlp=False, layernorm=False, task__vocab=41)
    cells = {(h, n): some("flips-fall", f"runs with H = {h}, L = {n}", chosen(runs, heads=h, layers=n))
             for h in HEADS for n in LAYERS}  # fmt: skip
    steps = [(name, one, other) for name, values in (("heads", HEADS), ("layers", LAYERS))
             for one, other in itertools.pairwise(values)]  # fmt: skip
    parts = [_fall(runs, *step) for step in steps]
    pairs = joined(parts)
    rates = np.array([[mean(cells[h, n]["flips"]) for n in LAYERS] for h in HEADS])
    rows = "; ".join(f"H = {h}: {row[0]:.2f}, {row[1]:.2f}" for h, row in zip(HEADS, rates))
    measured = (
        f"mean flip rates for L = 1, 2: {rows} ({len(runs)} runs); the fall in pairs of runs, signs by step: {pairs}"
        f"{few(pairs, len(steps))}"
    )
    verdict = pairs.verdict(len(steps))
    if verdict is Verdict.HOLDS and rates[-1, -1] >= rates[0, 0] / 2:
        return Finding(Verdict.FAILS, measured)
    every = all(2 * part.positive > part.unequal for part in parts)
    return Finding(Verdict.UNDECIDED if verdict is Verdict.HOLDS and not every else verdict, measured)


def _fall(runs: "Table", name: str, one: int, other: int) -> Pairs:
    """Return by how much the rate falls from one number of heads or layers to the next."""
    fewer, more = matched(runs, name, one, other, SETTING)
    step = f"{ {'heads': 'H', 'layers': 'L'}[name] } {one} → {other}"
    return Pairs(np.full(len(fewer), step), (fewer["flips"] - more["flips"]).to_numpy(dtype=float), "steps")


@dataclass(frozen=True)
class Heads:
    """Models whose heads' favourite tokens are compared; `copied` gives all heads of a layer those of the first."""

    specs: tuple[Run, ...]
    copied: bool = False


def heads_differ(heads: Heads) -> Finding:
    """Judge how many pairs of heads of a layer have different favourites, over samples: the mean, and run by run."""
    from scipy.stats import binomtest

    shares = np.array([_different(favourites(spec), heads.copied) for spec in heads.specs])  # pyright: ignore[reportArgumentType]
    number = np.array([spec.heads for spec in heads.specs])
    parts = [(h, np.sort(shares[number == h])) for h in sorted(set(number))]
    shown = "; ".join(f"H = {h}: median {np.median(x):.2f} ({x[0]:.2f} to {x[-1]:.2f})" for h, x in parts)
    most = int((shares > 0.5).sum())
    low, high = binomtest(most, len(shares)).proportion_ci(CONFIDENCE, method="wilson")
    measured = (
        f"share of samples in which two heads of a layer look at different tokens most: {shown}; mean "
        f"{shares.mean():.2f} of {len(shares)} runs, more than half in {most} of them ({CONFIDENCE:.0%} interval "
        f"{low:.2f} to {high:.2f}); heads that choose by chance: .90"
    )
    if len(shares) < LEAST_PAIRS:
        return Finding(Verdict.UNDECIDED, f"{measured}; a verdict needs {LEAST_PAIRS} runs")
    return Finding(Verdict.HOLDS if low > 0.5 else Verdict.FAILS if high < 0.5 else Verdict.UNDECIDED, measured)


@cache
def favourites(spec: Run) -> np.ndarray:
    """The token, CLS left out, that CLS attends to most, of every evaluation sample: [layer, head, sample]."""
    from softmaxlab.training.evaluate import patterns
    from softmaxlab.training.run import train

    model, _ = train(spec, "cpu")
    tokens = spec.task.data(spec.seed, "evaluate", "cpu").tokens
    place = patterns(model, tokens)[..., -1, :-1].argmax(dim=-1)
    return tokens.expand(*place.shape[:2], -1, -1).gather(-1, place[..., None])[..., 0].numpy()


def _different(favourite: np.ndarray, copied: bool) -> float:
    """The share of pairs of heads of a layer, over samples and layers, that differ."""
    favourite = np.repeat(favourite[:, :1], favourite.shape[1], axis=1) if copied else favourite
    i, j = np.triu_indices(favourite.shape[1], 1)
    return float((favourite[:, i] != favourite[:, j]).mean())


def _several_heads(
    seeds: tuple[int, ...], layers: tuple[int, ...], rates: tuple[float, ...], epochs: int = 10
) -> Heads:
    base = BARE.replace(epochs=epochs, measure=())
    return Heads(tuple(grid(base, heads=(2, 4), layers=layers, lr=rates, seed=seeds)))


DISTINCT = _several_heads((0, 1, 2, 3, 4, 5), (1,), (1e-3,))

CLAIMS = (
    Claim(
        id="polarization/flips-one-head",
        source=SOURCE,
        place="Section 4.2, Figure 6",
        statement="With one layer and one head, swapping one token easily reverses the softmax model's predictions",
        tolerance=f"softmax's mean flip rate at vocabulary {READ_AT} above {EASY:g}, and pairs with every other map "
        "mostly above it at all three vocabularies; the text does not say which vocabulary Figure 6 is of, and the "
        f"authors' notebook draws one at a time: we read it at {READ_AT}, that of Figure 5",
        judge=flips_of_one_head,
        subject=FlipSubject(),
        control=FlipSubject({"map": both("softmax", "sigmoid")}),
        control_is="the same runs with the names of softmax and sigmoid exchanged",
        evidence=Evidence("own", horizon="10 epochs", runs="the paper's: all 495 of Figure 6, five seeds"),
        refined=FlipSubject(
            specs=tuple(
                grid(ONE_HEAD.replace(epochs=LONG), **{"task.vocab": VOCABULARIES}, seed=OTHER_SEEDS, map=STRONGEST)
            )
        ),
        refined_evidence=Evidence(
            "refined", horizon="40 epochs", runs="45: five maps, three vocabularies, seeds 5 to 7"
        ),
        remark="At 41 a model has four inputs in all (erratum 23). With 81 and 161 tokens, where sequences are a "
        "sample, softmax's mean rate is .75 and .70: still the largest of all maps, and far from always.",
        erratum=("polarization/23",),
        figures=("polarization/fig06",),
    ),
    Claim(
        id="polarization/flips-fall",
        source=SOURCE,
        place="Section 4.2, Appendix F.3, Figure 21",
        statement="More heads or layers lead to a diminishing flip rate",
        tolerance="the rate falls in most pairs of runs (95 % interval above a half), in most of every step to more "
        "heads or layers, and to half or less at the end",
        judge=flips_fall,
        subject=FlipSubject(),
        control=FlipSubject({"heads": both(1.0, 4.0)}),
        control_is="the same runs with the labels of 1 and 4 heads exchanged",
        evidence=Evidence("own", horizon="10 epochs", runs="the paper's: softmax's 90 of Figure 21, five seeds"),
        refined=FlipSubject(specs=tuple(grid(BARE.replace(epochs=LONG), heads=HEADS, layers=LAYERS, seed=OTHER_SEEDS))),
        refined_evidence=Evidence("refined", horizon="40 epochs", runs="18 at learning rate 1e-3, seeds 5 to 7"),
        erratum=("polarization/23",),
        figures=("polarization/fig21",),
    ),
    Claim(
        id="polarization/heads-distinct",
        source=SOURCE,
        place="Section 4.2",
        statement="Different heads concentrate attention on distinct tokens",
        tolerance="in most runs (95 % interval above a half) two heads of a layer look at different tokens in more "
        "than half of the samples",
        judge=heads_differ,
        subject=DISTINCT,
        control=Heads(DISTINCT.specs, copied=True),
        control_is="the same models with every head a copy of the first of its layer",
        evidence=Evidence("own", horizon="10 epochs", runs="12: H = 2, 4, L = 1, seeds 0 to 5"),
        refined=_several_heads(OTHER_SEEDS, LAYERS, (1e-3,), LONG),
        refined_evidence=Evidence("refined", horizon="40 epochs", runs="12: H = 2, 4, L = 1, 2, seeds 5 to 7"),
        protocol=_several_heads(SEEDS, LAYERS, RATES),
        protocol_evidence=Evidence(
            "paper protocol", horizon="10 epochs", runs="60: H = 2, 4, L = 1, 2 of Figure 21, three rates, five seeds"
        ),
    ),
)
