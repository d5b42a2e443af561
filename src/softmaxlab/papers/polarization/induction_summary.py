"""Summaries of the figures of induction runs, in sentences, from their counts and means [panel, map, heads]."""

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.sink_runs import ACCURATE, NORMALISED, OTHERS


def seen_accuracy(result: Result) -> str:
    """Say how many runs solve the task, and name the worst setting."""
    accuracy, runs = result["accuracy"], result["runs"]
    known = np.isfinite(accuracy)
    if not known.any():
        return _nothing(result, "no run has an accuracy")
    panel, map, heads = worst = np.unravel_index(np.where(known, accuracy, np.inf).argmin(), accuracy.shape)
    number = result["heads"][heads]
    setting = f"{result['map'][map]}, {number} head{'s' if number > 1 else ''}, {result['panel'][panel]}"
    return (
        f"{result['passed'].sum()} of {runs.sum()} runs solve the task, and the mean accuracy is above {ACCURATE:g} in"
        f" {(accuracy[known] > ACCURATE).sum()} of {known.sum()} settings, least ({accuracy[worst]:.3f}) for"
        f" {setting}; {(runs == 0).sum()} settings were not run."
    )


def seen_sinks(result: Result) -> str:
    """Say whether most heads are sinks."""
    share = _share(result, np.isfinite(result["share"]))
    if np.isnan(share):
        return _nothing(result, "no run that solves the task has sink scores")
    return (
        f"On average {share:.2f} of the heads are sinks in the {result['scored'].sum()} runs that solve the task and"
        f" have scores: most are{'' if share > 0.5 else ' not'}; whether heads duplicate each other is not shown."
    )


def seen_maps(result: Result) -> str:
    """Say in how many pairs of maps the normalised positive one has more sinks."""
    names = result["map"]
    shares = {str(map): _share(result, (names == map)[:, None]) for map in names}
    ours, others = ([shares[map] for map in kind if shares.get(map, -1.0) >= 0] for kind in (NORMALISED, OTHERS))
    if not ours or not others:
        return _nothing(result, "not both kinds of maps have sink scores")
    more = sum(one > other for one in ours for other in others)
    return (
        f"The share of sink heads is {min(ours):.2f} to {max(ours):.2f} under normalised positive maps and"
        f" {min(others):.2f} to {max(others):.2f} under unnormalised or signed ones: the former have more in {more} of"
        f" {len(ours) * len(others)} pairs of maps."
    )


def seen_positions(result: Result) -> str:
    """Say in how many pairs of runs that differ in positions alone the one without them has more sinks."""
    without, other = result["pair"][np.isfinite(result["pair"]).all(axis=1)].T
    if not len(other):
        return _nothing(result, "no two runs differ in positions alone")
    more = without.mean() > other.mean()
    return (
        f"Of {len(other)} pairs of solved runs that differ in positions alone the one without positions has more sink"
        f" heads in {(without > other).sum()} and fewer in {(without < other).sum()}; on average"
        f" {without.mean():.2f} against {other.mean():.2f} of the heads: {'more' if more else 'not more'} sinks."
    )


def _share(result: Result, which: np.ndarray) -> float:
    """The mean share of sinks of all scored runs among the settings; NaN of none."""
    known = np.isfinite(result["share"]) & which
    scored = result["scored"][known]
    return float(np.average(result["share"][known], weights=scored)) if scored.sum() else np.nan


def _nothing(result: Result, why: str) -> str:
    return f"Nothing can be seen: {why if result['runs'].sum() else 'there are no runs'}."
