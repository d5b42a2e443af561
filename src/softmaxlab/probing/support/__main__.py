"""The table of architectures: `python -m softmaxlab.probing.support [--out FILE] [--kind KIND] [MODEL_TYPE ...]`.

Every architecture is tried in a process of its own, with a limit of time and of memory.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from softmaxlab.core.files import atomic
from softmaxlab.probing.extra import transformers
from softmaxlab.probing.support.page import page
from softmaxlab.probing.support.tiny import KINDS, first_sentence, model_types
from softmaxlab.probing.support.trial import ERROR, NOT_BUILT, Trial, try_architecture

MEMORY = 8 << 30  # bytes of address space of one trial
SECONDS = 240  # of one trial


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m softmaxlab.probing.support", description=__doc__)
    parser.add_argument("types", nargs="*", metavar="MODEL_TYPE", help="default: all that transformers knows")
    parser.add_argument("--kind", choices=tuple(KINDS), action="append", help="default: all kinds")
    parser.add_argument("--rows", type=Path, help="keep results here, one JSON line each, and skip those it has")
    parser.add_argument("--no-new", action="store_true", help="try nothing: write the page from what --rows holds")
    parser.add_argument("--out", type=Path, help="write the page here, as Markdown")
    options = parser.parse_args(arguments)
    transformers().logging.set_verbosity_error()
    torch.set_num_threads(1)
    known = _read(options.rows)
    cases = [(kind, *pair) for kind in options.kind or KINDS for pair in model_types(kind).items()]
    cases = [case for case in cases if not options.types or case[1] in options.types]
    for case in cases:
        if case[:2] in known or options.no_new:
            continue
        trial = run_apart(*case)
        known[case[:2]] = trial
        print(f"{trial.kind}: {trial.model_type}: {trial.verdict} {trial.reason}".rstrip(), flush=True)
        if options.rows:
            with options.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(trial.row(), ensure_ascii=False) + "\n")
    trials = [known[case[:2]] for case in cases if case[:2] in known]
    if options.out:
        untried = [case[:2] for case in cases if case[:2] not in known]
        with atomic(options.out) as draft:
            draft.write_text(page(trials, untried), encoding="utf-8")
    return 0 if all(trial.is_honest for trial in trials) else 1


def run_apart(kind: str, model_type: str, class_name: str) -> Trial:
    """Try an architecture in a process of its own."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, kind, model_type, class_name))
    process.start()
    theirs.close()
    trial = Trial(kind, model_type, class_name, NOT_BUILT, f"no result within {SECONDS} s and {MEMORY >> 30} GB")
    try:
        if ours.poll(SECONDS):
            trial = Trial(**ours.recv())
    except EOFError:
        trial.reason = "the process ended"
    process.kill()
    process.join()
    return trial


def _work(pipe: Any, kind: str, model_type: str, class_name: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    try:
        trial = try_architecture(kind, model_type, class_name)
    except Exception as error:  # a traceback is a fault of ours: the table says so
        trial = Trial(kind, model_type, class_name, ERROR, f"{type(error).__name__}: {first_sentence(error)}")
    pipe.send(trial.row())


def _read(path: Path | None) -> dict[tuple[str, str], Trial]:
    if path is None or not path.exists():
        return {}
    trials = [Trial(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    return {(trial.kind, trial.model_type): trial for trial in trials}


if __name__ == "__main__":
    sys.exit(main())
