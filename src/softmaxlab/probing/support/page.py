"""The table of architectures as Markdown."""

from collections import Counter
from importlib.metadata import version

from softmaxlab.probing.support.tiny import KINDS
from softmaxlab.probing.support.trial import EAGER, ERROR, NOT_BUILT, REFUSED, TOLERANCE, WORKS, WRONG, Trial

COMMAND = "python -m softmaxlab.probing.support --out docs/architectures.md"


def page(trials: list[Trial], untried: list[tuple[str, str]]) -> str:
    """All trials, one table for each kind, with counts and versions; `untried` are (kind, type) without a trial."""
    counts = Counter(trial.verdict for trial in trials)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (WORKS, EAGER, REFUSED) if counts[verdict])
    tried = [trial for trial in trials if trial.verdict != NOT_BUILT]
    errors = f", and {counts[ERROR]} ended in an error of transformers" if counts[ERROR] else ""
    lines = [
        "# Which architectures can be measured",
        "",
        f"{len(tried)} architectures of transformers {version('transformers')} were built tiny from their "
        f"configuration and tried, without padding and padded on either side. The results are: {said}. "
        f"{counts[WRONG]} gave other numbers without saying so{errors}. "
        f"{counts[NOT_BUILT]} more could not be built tiny. Nothing is known of these but the check that every probe "
        "makes: the first batch is run with and without us, and a difference stops the probe.",
        "",
        f"*Works*: sparsity, sink score and entropy of every head are within {TOLERANCE:g} of those of the weights "
        "that the model's own eager attention returns, where it returns them and gives the model's logits, and the "
        "logits are the same with and without us; the columns *heads* and *logits* have the largest differences. "
        "*Eager only*: `--eager` "
        "(`eager=True`) measures the model. *Refused*: one line says why.",
        "",
        f"Made with torch {version('torch').split('+')[0]} by `{COMMAND}`.",
        "",
    ]
    if untried:
        lines += [f"Not tried yet ({len(untried)}; the same command with `--rows FILE` goes on where it stopped):", ""]
        for kind in KINDS:
            if names := [name for of, name in untried if of == kind]:
                lines += [f"- {kind}: {', '.join(names)}"]
        lines.append("")
    for kind in KINDS:
        rows = [trial for trial in trials if trial.kind == kind]
        if rows:
            lines += [f"## {kind.capitalize()} models", "", "| type | result | heads | logits | reason |"]
            lines += ["|---|---|---|---|---|", *(_row(trial) for trial in rows), ""]
    return "\n".join(lines)


def _row(trial: Trial) -> str:
    reason = trial.reason.replace("|", "\\|")
    return (
        f"| {trial.model_type} | {trial.verdict} | {_number(trial.statistics)} | {_number(trial.logits)} | {reason} |"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0e}" if value else "0"
