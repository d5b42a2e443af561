"""Could induction runs stop earlier? `python benchmarks/stopping.py` asks the committed full runs, in seconds.

A rule that looks at what the figures show: stop once the share of second-layer heads with a sink score above 0.9 has
not changed for `window` steps, not counting the first epoch. Each full run with tracked heads is stopped by the rule,
and its share there is compared with the share at its end.
"""

import json

import numpy as np
import pandas

from softmaxlab.papers.polarization.runs import TABLES

SINK = 0.9
FIRST_EPOCH = 391  # steps
WINDOWS = (400, 800, 1200, 1600, 2000, 2500)


def full_runs() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Map, steps [time] and shares of sink heads [time] of the runs that were tracked to their end."""
    table = pandas.read_csv(TABLES / "induction.csv")
    found = []
    for _, run in table[table["track_sink_score"].notna() & table["stopped_at"].isna()].iterrows():
        scores = np.array(json.loads(run["track_sink_score"]), dtype=float)  # [time, layer, head]
        found.append((run["map"], np.array(json.loads(run["track_step"])), (scores[:, 1] > SINK).mean(axis=1)))
    return found


def stopped(steps: np.ndarray, shares: np.ndarray, window: int) -> int:
    """The index of the record at which the rule stops, the last one if it does not."""
    for i, step in enumerate(steps):
        recent = shares[(steps >= step - window) & (steps <= step)]
        if step >= FIRST_EPOCH + window and np.ptp(recent) == 0:
            return i
    return len(steps) - 1


def rows() -> list[dict]:
    runs = full_runs()
    table = []
    for window in WINDOWS:
        ends = [stopped(steps, shares, window) for _, steps, shares in runs]
        wrong = [map for (map, _, shares), end in zip(runs, ends) if shares[end] != shares[-1]]
        saved = np.mean([1 - steps[end] / steps[-1] for (_, steps, _), end in zip(runs, ends)])
        table.append({"window": window, "runs": len(runs), "saved": float(saved), "wrong": ", ".join(wrong) or "-"})
    return table


def main() -> None:
    for r in rows():
        print(f"window {r['window']} steps, {r['runs']} runs: {r['saved']:.0%} of the steps saved, wrong: {r['wrong']}")


if __name__ == "__main__":
    main()
