"""Claims of the optimizers study, judged on its table: docs/studies/optimizers.md."""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from softmaxlab.papers.claim import Finding, Verdict
from softmaxlab.studies.adam_window import window
from softmaxlab.studies.claim_helpers import holds_if, needed, study_claim
from softmaxlab.studies.figures.optimizers import BETAS, FACTOR, Choice, Edge, edges, noiseless_adam, plain_adam
from softmaxlab.studies.figures.winners import QUERIES, Winners

if TYPE_CHECKING:
    from softmaxlab.studies.claim_helpers import Change, Table

HELD_OUT = 32
POLARIZED = 0.9  # the protocol's: a largest weight that is an end
RIGHT = 63 / 64  # the protocol's
SIGNIFICANT = 0.05  # the protocol's


def ten_times_slower(table: "Table") -> "Table":
    """Return the table as if each run had been made at a tenth of its learning rate."""
    return table.assign(lr=table["lr"] / 10)


def as_predicted(table: "Table") -> "Table":
    """Return the table as if the formula were exact: no run right inside its window, all right outside."""
    settings = zip(*(table[name] for name in ("lr", "p", "scale", "beta1", "beta2")))
    windows = [(lr, window(int(p), scale, beta1, beta2)) for lr, p, scale, beta1, beta2 in settings]
    return table.assign(right=[0.0 if edge and edge[0] < lr < edge[1] else 1.0 for lr, edge in windows])


def mixed_up(table: "Table") -> "Table":
    """Return the table with the rows of Adam and of gradient descent exchanged."""
    names = {"adam": "gd", "gd": "adam"}
    return table.assign(optimizer=[names.get(name, name) for name in table["optimizer"]])


def _met(edge: Edge) -> bool:
    return edge.factor <= FACTOR  # NaN, a window that only one of them has, is not


def _described(edge: Edge) -> str:
    return f"{edge.side} at scale {edge.scale:g}: {edge.measured:.2g} measured, {edge.predicted:.2g} predicted"


def _finding(edges: list[Edge]) -> Finding:
    bad = [edge for edge in edges if not _met(edge)]
    measured = f"{len(edges) - len(bad)} of {len(edges)} boundaries within a factor of 2"
    if bad:
        measured += f"; not: {'; '.join(map(_described, bad))}"
    return holds_if(bool(edges) and not bad, measured)


def lower_edges(change: "Change") -> Finding:
    return _finding([e for e in _held_out(change) if e.side == "lower"])


def upper_edges(change: "Change") -> Finding:
    return _finding([e for e in _held_out(change) if e.side == "upper"])


def _held_out(change: "Change") -> list[Edge]:
    table = change(Choice.read())
    return edges(needed(plain_adam(table.loc[table["p"] == HELD_OUT]), f"Adam at p = {HELD_OUT}"))


def memories(change: "Change") -> Finding:
    table = noiseless_adam(change(Choice.read()))
    other = (table["beta1"] != BETAS[0]) | (table["beta2"] != BETAS[1])
    return _finding(edges(needed(table.loc[other & (table["p"] == HELD_OUT)], f"other memories at p = {HELD_OUT}")))


def descents(change: "Change") -> Finding:
    table = change(Choice.read())
    rows = table.loc[table["optimizer"].isin(["gd", "momentum"]) & (table["noise"] == 0)]
    rows = needed(rows.loc[rows["largest"] > POLARIZED], "gradient descent and momentum that polarize")
    least = rows["right"].min(skipna=False)
    measured = f"least share of right winners {least:.2f} over {len(rows)} polarized cells"
    return holds_if(bool(least >= RIGHT), measured)


def follows_the_flow(change: "Change") -> Finding:
    """The protocol's sign test, for each optimizer by itself since both begin with the same heads.

    Without a condition only if it is passed with plain queries too, the setting that was chosen later.
    """
    from scipy.stats import binomtest

    table = change(Winners.read())
    table = needed(table.loc[table["matched"] == "lowest"], "heads at the lowest loss")
    measured, met = [], {}
    for (shifted, optimizer), heads in cast(Any, table.groupby(["shifted", "optimizer"], sort=False)):
        flow, adam = (int((heads[name] == heads["token"]).sum()) for name in ("flow", "adam"))
        p = binomtest(flow, flow + adam).pvalue if flow + adam else 1.0
        met[shifted] = met.get(shifted, True) and flow > adam and bool(p <= SIGNIFICANT)
        where = f"{QUERIES[shifted]}, {optimizer}"
        measured.append(f"{where}: flow's winner in {flow} of {len(heads)} heads, Adam's in {adam} (p = {p:.2g})")
    if met == {True: True, False: False}:
        return Finding(Verdict.CONDITION, "with shifted queries only; " + "; ".join(measured))
    return holds_if(all(met.values()), "; ".join(measured))


def winners_exchanged(table: "Table") -> "Table":
    return table.rename(columns={"flow": "adam", "adam": "flow"})


_claim = partial(
    study_claim,
    "2",
    tolerance="the protocol's thresholds, written before the runs: a factor of 2, 63 of 64 seeds, a sign test at 5 %",
    figures=("optimizers",),
)
SLOWER = "all learning rates ten times smaller than they were"
CLAIMS = (
    _claim("window-lower", "A formula fitted at 4 and 8 tokens gives the lower edge of Adam's window at 32 tokens",
           lower_edges, ten_times_slower, SLOWER),
    _claim("window-upper", "A formula fitted at 4 and 8 tokens gives the upper edge of Adam's window at 32 tokens",
           upper_edges, as_predicted,
           "winners as the formula predicts them, on which the claim must hold", expected=Verdict.FAILS),
    _claim("window-memory", "The boundaries follow Adam's memories", memories, ten_times_slower, SLOWER),
    _claim("descent-right", "Gradient descent and momentum pick the flow's winner wherever they polarize", descents,
           mixed_up, "the runs of Adam and of gradient descent exchanged"),
    _claim("winners", "A transformer's sink follows the flow's early winner, not Adam's, under SGD and AdamW",
           follows_the_flow, winners_exchanged, "the two winners exchanged", expected=Verdict.CONDITION,
           figures=("winners",)),
)  # fmt: skip
