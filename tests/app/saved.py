"""A probe result made by hand, as the probe's own writer writes it, with patterns beside it."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from softmaxlab.probing.summary import Subject
from tests.report.test_probe_files import head_tables, report

TOKENS = [f"t{i}" for i in range(70)]


def save(
    folder: Path, patterns: bool = False, subjects: tuple[str, ...] = ("model",), statistics: str = "full"
) -> Path:
    """Layer 0 has two heads, layer 1 three; the pattern saved is that of head 1.2."""
    folder.mkdir(parents=True)
    tables = [head_tables(sink=0.5 + 0.4 * i) for i in range(len(subjects))]
    if statistics == "fast":
        tables = [replace(each, heads=each.heads.drop(columns=["sparsity", "effective_keys"])) for each in tables]
    made = report(*map(Subject, subjects, tables))
    made.settings |= {"bos": "auto", "seed": 0, "batch_size": 4, "statistics": statistics, "eager": False}
    made.settings |= {"compare": [], "revisions": [], "swap": []}
    if patterns:
        w = np.tril(np.ones((len(TOKENS), len(TOKENS))))
        made.patterns, made.pattern_tokens = {"1.2": w / w.sum(axis=1, keepdims=True)}, TOKENS
    made.write_tables(folder, "csv")
    return folder
