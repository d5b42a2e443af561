"""Claims of the mitigation study, judged on its four tables: docs/studies/mitigation.md."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Finding, Verdict
from softmaxlab.studies.claim_helpers import holds_if, needed, study_claim
from softmaxlab.studies.figures.bias_rule import NEAR, RULE, BiasRule, excess
from softmaxlab.studies.figures.bumps import Bumps, bumps
from softmaxlab.studies.figures.mitigation import Fall, Mitigation, draws, recovered, steepest_fall
from softmaxlab.studies.figures.small_models import MEASURES, SmallModels, seeds_led

if TYPE_CHECKING:
    from softmaxlab.studies.claim_helpers import Change, Table

HALF = 0.5  # of the damage; of what the prefix recovers
ERRORS = 2.0  # standard errors by which a loss lies above that of a larger bias
FEWEST, MOST = 3, 0.75  # texts with a bump, and the share of them at which the massive activation is gone
SEEDS = 2  # of three, in which softmax leads


def closes(change: "Change", fold: str) -> Finding:
    table = needed(change(Mitigation.read()), "losses of texts")
    gaps = [recovered(table, fold, draw) for draw in draws(table)]
    measured = ", ".join(f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in gaps)
    return holds_if(all(low > HALF for _, low, _ in gaps), f"it closes {measured} of the int8 gap")


def bias(change: "Change") -> Finding:
    table = needed(change(Mitigation.read()), "losses of texts")
    pairs = [[recovered(table, fold, draw)[0] for fold in ("bias", "prefix")] for draw in draws(table)]
    measured = ", ".join(f"{own:.2f} (prefix {other:.2f})" for own, other in pairs)
    return holds_if(all(own >= HALF * other for own, other in pairs), f"biases close {measured} of the int8 gap")


def falls_again(change: "Change") -> Finding:
    table = needed(change(Mitigation.read()), "losses of texts")
    falls = [steepest_fall(table, draw, "all") for draw in draws(table)]
    return holds_if(any(fall.errors > ERRORS for fall in falls), "; ".join(map(_described, falls)))


def gone_at_bumps(change: "Change") -> Finding:
    table = needed(change(Bumps.read()), "losses of texts")
    gone = bumps(table)["small"].tolist()
    measured = f"{len(gone)} of {table['text'].nunique()} texts have a bump, at {sum(gone)} it is gone"
    return holds_if(len(gone) >= FEWEST and sum(gone) >= MOST * len(gone), measured)


def leads(change: "Change") -> Finding:
    table = change(SmallModels.read())
    seeds = len(set(table["seed"]))
    if seeds < SEEDS:
        raise SpecError(f"this claim is about {SEEDS} seeds and more, these rows have {seeds}")
    led_by_measure = {name: seeds_led(table, "softmax", measure) for measure, name in MEASURES.items()}
    measured = "; ".join(f"{name}: softmax's in {led} of {seeds} seeds" for name, led in led_by_measure.items())
    return holds_if(min(led_by_measure.values()) >= SEEDS, measured)


def near_the_best(change: "Change") -> Finding:
    """A task on which every bias is near the best does not count, as the protocol has it."""
    table = change(BiasRule.read())
    rules = needed(table.loc[table["b"] == RULE], f"the rule's bias, {RULE:g}")
    counted, measured = [], []
    for task in dict.fromkeys(rules["task"]):
        above = excess(table, task)
        near = above <= NEAR
        counted += [] if near.all() else [near[RULE]]
        within = f"{near.sum()} of {len(near)} biases within 10 %"
        measured.append(f"{task}: {100 * above[RULE]:.1f} % above the best, {within}")
    return holds_if(bool(counted) and all(counted), "; ".join(measured))


def _described(fall: Fall) -> str:
    return f"from b = {fall.b:g} to {fall.larger:g} by {fall.nats:.3f} nats, {fall.errors:.1f} standard errors"


def bias_for(table: "Table", fold: str) -> "Table":
    """Return the table with the rows of a fold and those of biases exchanged."""
    names = {fold: "bias", "bias": fold}
    return table.assign(change=[names.get(name, name) for name in table["change"]])


def mirrored(table: "Table") -> "Table":
    """Biases with their signs changed."""
    return table.assign(b=-table["b"])


def gone_with_the_loss(table: "Table") -> "Table":
    """Return the table as if massive activations fell e-fold with every fiftieth of a nat."""
    softmax = table.loc[table["b"] == -np.inf].set_index("text")["loss"]
    rise = table["loss"].to_numpy() - softmax.loc[table["text"]].to_numpy()
    return table.assign(top=np.exp(-50.0 * rise))


def tenfold(table: "Table") -> "Table":
    """Return the table as if softmax had ten times the sinks, massive activations and int8 gap."""
    times = np.where(table["kind"] == "softmax", 10.0, 1.0)
    gap = table["int8_loss"] - table["loss"]
    return table.assign(
        sink=times * table["sink"], massive=times * table["massive"], int8_loss=table["loss"] + times * gap
    )


def worse_away_from_zero(table: "Table") -> "Table":
    """Return the table as if each unit of |b| cost a tenth of the loss."""
    return table.assign(loss=table["loss"] * (1 + table["b"].abs() / 10))


PROTOCOL = "the protocol's thresholds, written before the runs; intervals are over texts, counts over seeds"
_claim = partial(study_claim, tolerance=PROTOCOL, figures=("mitigation",))
CLAIMS = (
    _claim("3 A", "int8-sink",
           "Keeping the first token's keys and values in float closes more than half of the int8 gap",
           partial(closes, fold="first"), partial(bias_for, fold="first"),
           "the rows of biases exchanged with those of the first token in float"),
    _claim("3 A", "int8-prefix", "A searched prefix that takes the sink closes more than half of the int8 gap",
           partial(closes, fold="prefix"), partial(bias_for, fold="prefix"),
           "the rows of biases exchanged with those of the prefix",
           tolerance="the threshold that the protocol has for the first token; intervals are over texts"),
    _claim("3 A", "int8-bias", "A bias and a value for each sink head recover half of what the prefix does", bias,
           partial(bias_for, fold="prefix"),
           "the rows of the prefix and of biases exchanged, on which the claim must hold", expected=Verdict.FAILS),
    _claim("3 A", "softmax1-dip", "The mean loss with softmax-1 in place of softmax falls again as its bias grows",
           falls_again, mirrored, "biases with their signs changed, on which the claim must hold",
           expected=Verdict.FAILS),
    _claim("3 A", "softmax1-bumps", "Where the loss of one text begins to fall again, its massive activation is gone",
           gone_at_bumps, gone_with_the_loss,
           "massive activations that fall with the loss, on which the claim must hold",
           expected=Verdict.FAILS, figures=("bumps",)),
    _claim("3 B", "softmax-leads", "Softmax has the largest sinks, massive activations and int8 gap", leads,
           tenfold, "ten times the values of softmax, on which the claim must hold", expected=Verdict.FAILS,
           figures=("small-models",)),
    _claim("3 C", "bias-rule",
           "The bias that softmax-1's conserved quantity selects has a loss within 10 % of the best",
           near_the_best, worse_away_from_zero,
           "losses that grow with |b|, on which the claim must hold", expected=Verdict.FAILS,
           figures=("bias-rule",)),
)  # fmt: skip
