"""The work of a probe: load, cut the text, measure, change the model and measure again."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import typer

from softmaxlab.cli.probe_asked import Asked
from softmaxlab.cli.probe_cut import Wanted
from softmaxlab.cli.probe_inputs import Inputs, inputs
from softmaxlab.cli.probe_measure import measured
from softmaxlab.core import progress
from softmaxlab.errors import SpecError
from softmaxlab.probing.changes.loss import change, lacks_loss
from softmaxlab.probing.maps.swap import swapped
from softmaxlab.probing.models.corpora import Corpus, texts
from softmaxlab.probing.models.load import Loaded, load
from softmaxlab.probing.streaming.eager import eager_sites
from softmaxlab.probing.streaming.sites import root
from softmaxlab.report.probe_record import Record, Subject

FLOP = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (0.0, "k"))


def work(asked: Asked) -> Record:
    """Everything asked for. Ctrl-C ends it early, with what there is, once something has been measured."""
    with _silent_elsewhere():
        return _work(asked)


@contextmanager
def _silent_elsewhere() -> Iterator[None]:
    """Progress is for a terminal; a log of someone's pipeline should hold results."""
    log = logging.getLogger(progress.__name__)
    before = log.level
    log.setLevel(before if sys.stderr.isatty() else logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def _work(asked: Asked) -> Record:
    corpus = texts(asked.text)
    first = asked.revisions[0] if asked.revisions else None
    loaded = _load(asked, asked.model, first)
    given = inputs(loaded, corpus, _wanted(asked))
    _check_fit(asked, loaded)
    _say_work(asked, loaded, corpus, given)
    record = _record(asked, loaded, corpus, given)
    try:
        for step in _steps(asked):
            step(asked, loaded, corpus, given, record)
    except KeyboardInterrupt:
        if not record.subjects:
            raise
        record.interrupted = True
    return record


Step = Callable[[Asked, Loaded, Corpus, Inputs, Record], None]


def _steps(asked: Asked) -> list[Step]:
    from softmaxlab.cli import probe_steps as steps

    wanted: list[tuple[Any, Step]] = [
        (True, _measure),
        (asked.attention, steps.draw_patterns),
        (asked.check, steps.check),
        (asked.swap, _swap),
        (asked.mitigate, steps.mitigate),
        (asked.prune, steps.prune),
        (asked.compare, _compare),
        (asked.revisions, _revisions),
    ]
    return [step for is_wanted, step in wanted if is_wanted]


def _measure(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    label = f"{loaded.name}@{asked.revisions[0]}" if asked.revisions else loaded.name
    if reason := lacks_loss(loaded.model):
        record.notes.append(f"no loss: {reason}")
    record.subjects.append(Subject(label, *measured(asked, loaded.model, given)))
    if record.subjects[0].found.interrupted:
        raise KeyboardInterrupt


def _swap(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    for swap in asked.swap:
        fitting = given.calibration if swap.fits else None
        with swapped(loaded.model, swap.map, swap.bias, calibration=fitting):
            _again(asked, str(swap), loaded, given, record)


def _compare(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    for name in asked.compare:
        other = _load(asked, name, None)
        _add_other(asked, other.name, other, corpus, given, record)


def _revisions(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    for revision in asked.revisions[1:]:
        other = _load(asked, asked.model, revision)
        _add_other(asked, f"{asked.model}@{revision}", other, corpus, given, record)


def _add_other(asked: Asked, label: str, other: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    """Another model on the same text, cut by its own tokenizer at the same length."""
    its = inputs(other, corpus, replace(_wanted(asked), length=given.length))
    if not _same(given, its):
        record.notes.append(
            f"{label} reads other tokens than {record.subjects[0].label}: losses per token do not compare"
        )
    _again(asked, label, other, its, record, comparable=_same(given, its))


def _again(asked: Asked, label: str, loaded: Loaded, given: Inputs, record: Record, comparable: bool = True) -> None:
    """Measure a changed model, and what the change costs."""
    found, after = measured(asked, loaded.model, given)
    if found.interrupted:
        raise KeyboardInterrupt
    before = record.subjects[0].loss
    cost = change(before, after) if comparable and before is not None and after is not None else None
    record.subjects.append(Subject(label, found, after, cost))


def _same(one: Inputs, other: Inputs) -> bool:
    pairs = list(zip(one.batches, other.batches))
    return all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in pairs)


def _load(asked: Asked, name: str, revision: str | None) -> Loaded:
    if sys.stderr.isatty():
        typer.echo(f"loading {name}", err=True)
    return load(name, device=asked.device, dtype=asked.dtype, device_map=asked.device_map, revision=revision)


def _wanted(asked: Asked) -> Wanted:
    return Wanted(asked.length, asked.samples, asked.bos, asked.seed, asked.batch_size, asked.fits)


def _check_fit(asked: Asked, loaded: Loaded) -> None:
    """Refuse what this model does not have, before any pass over the text."""
    from softmaxlab.probing.streaming.attach import refuse_unswitchable

    found = [site for site in eager_sites(loaded.model) if not site.cross]
    if not asked.eager:
        from softmaxlab.probing.streaming.sites import sites

        refuse_unswitchable(root(loaded.model), sites(loaded.model))
    for layer in asked.layers or ():
        if layer >= len(found):
            raise SpecError(f"--layers: there is no layer {layer}, the model has {len(found)}, from 0")
    for layer, head in asked.attention:
        if layer >= len(found) or head >= found[layer].heads:
            raise SpecError(f"--attention: there is no head {layer}.{head}, the model has {len(found)} layers from 0")
    if asked.prune is not None and asked.prune >= sum(site.heads for site in found):
        raise SpecError(f"--prune {asked.prune}: the model has only {sum(site.heads for site in found)} heads")
    if (asked.mitigate or asked.prune) and (reason := lacks_loss(loaded.model)):
        raise SpecError(f"--{'mitigate' if asked.mitigate else 'prune'} is judged by the loss: {reason}")


def _say_work(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs) -> None:
    """What will be measured, before the work starts."""
    model = root(loaded.model)
    size, found = model.num_parameters(), [site for site in eager_sites(loaded.model) if not site.cross]
    heads = sum(site.heads for site in found)
    unit, letter = next((unit, letter) for unit, letter in FLOP if 2 * size * given.tokens >= unit)
    cost = f"{2 * size * given.tokens / (unit or 1e3):.3g} {letter}FLOP a pass"
    what = f"{loaded.name}: {len(found)} layers, {heads} heads, {size / 1e6:,.4g} M parameters in {_dtype(model)}"
    typer.echo(f"{what}; {given.amount} of {corpus.name!r}, {cost}; {given.token_0}", err=True)
    if told := _calibration(corpus, given):
        typer.echo(f"fitting on {told}", err=True)


def _calibration(corpus: Corpus, given: Inputs) -> str | None:
    if not given.calibration_lengths:
        return None
    return f"{given.calibration_amount.rstrip(',')} of {corpus.name!r}, none of which is measured"


def _dtype(model: Any) -> str:
    return str(model.dtype).removeprefix("torch.")


def _record(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs) -> Record:
    model = root(loaded.model)
    told = {"name": loaded.name, "class": type(model).__name__, "kind": loaded.kind, "sha256": loaded.sha256}
    told |= {"hashed": loaded.hashed, "parameters": model.num_parameters(), "dtype": _dtype(model)}
    text = {"name": corpus.name, "sha256": corpus.sha256, "T": given.length, "sequences": len(given.lengths)}
    text |= {
        "amount": given.amount,
        "tokens": given.tokens,
        "lengths": given.lengths,
        "token_0": given.token_0,
        "uniform_sink": given.uniform,
        "calibration": _calibration(corpus, given),
    }
    names = ("bos", "eps", "seed", "batch_size", "statistics", "eager", "device", "device_map")
    settings = {name: getattr(asked, name) for name in (*names, "mitigate", "prune")}
    settings |= {"compare": list(asked.compare), "revisions": list(asked.revisions)}
    settings |= {"swap": [str(swap) for swap in asked.swap]}
    return Record(told, text, settings, _token_of(loaded.tokenizer))


def _token_of(tokenizer: Any) -> Callable[[int], str]:
    def token(id: int) -> str:
        return tokenizer.decode([id]) or str(tokenizer.convert_ids_to_tokens(id))

    return token
