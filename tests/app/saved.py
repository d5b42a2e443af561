"""A probe result made by hand, as the probe's own writer writes it, with patterns beside it."""

import json
from pathlib import Path

import numpy as np

from softmaxlab.report.probe_record import Subject, write_files
from tests.report.test_probe_files import findings, record

TOKENS = [f"t{i}" for i in range(70)]


def save(folder: Path, patterns: bool = False, subjects: tuple[str, ...] = ("model",)) -> Path:
    """Layer 0 has two heads, layer 1 three; the pattern saved is that of head 1.2."""
    folder.mkdir(parents=True)
    told = record(*(Subject(label, findings(sink=0.5 + 0.4 * i)) for i, label in enumerate(subjects)))
    told.settings |= {"bos": "auto", "seed": 0}
    write_files(told, folder, "csv")
    if patterns:
        w = np.tril(np.ones((len(TOKENS), len(TOKENS))))
        w /= w.sum(axis=1, keepdims=True)
        (folder / "patterns.json").write_text(json.dumps({"tokens": TOKENS, "patterns": {"1.2": w.tolist()}}))
    return folder
