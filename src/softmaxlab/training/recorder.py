"""Record a run while it goes on: its losses, the tracks that its spec asks for, and a tracker's curves."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np

from softmaxlab.training import trackers
from softmaxlab.training.loop import Step
from softmaxlab.training.model import Transformer
from softmaxlab.training.tasks import Data, Task
from softmaxlab.training.tracking import ClsTrack, HeadTrack

Labelled = tuple[str, Any, tuple[str, ...]]  # name, values, axes


class Recorder:
    """`with Recorder(...) as recorder: recorder.after(step)` at every step of `steps`; then its arrays."""

    def __init__(
        self,
        task: Task,
        model: Transformer,
        held_out: Data,
        steps: int,
        track: tuple[str, ...],
        tracker: trackers.Tracker | None,
    ):
        self.tracker = tracker
        self.sums, self.counts, self.steps, self.diverged = [], [], 0, False
        self.unlogged: Step | None = None
        self.tracks = []
        if "heads" in track:
            self.tracks.append(HeadTrack(task, model, held_out, steps))
        if "cls" in track:
            self.tracks.append(ClsTrack(model, held_out))

    def __enter__(self) -> Self:
        for track in self.tracks:
            track.after(0)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.tracker is not None:
            if self.unlogged is not None:  # the last step, however the run ended
                self._log(self.unlogged)
            self.tracker.close()

    def after(self, step: Step) -> None:
        self.steps = step.number
        self._add_loss(step)
        for track in self.tracks:
            track.after(step.number)
        self.unlogged = step
        if step.number % trackers.EVERY == 0:
            self._log(step)

    def _log(self, step: Step) -> None:
        if self.tracker is not None:
            self.tracker.log(step.number, {"loss": float(step.loss)})
        self.unlogged = None

    def _add_loss(self, step: Step) -> None:
        if step.epoch == len(self.sums):
            self.sums.append(0.0)
            self.counts.append(0)
        self.sums[-1] += step.loss  # a tensor: reading it at every step would wait for the device
        self.counts[-1] += 1
        if step.ends_epoch:
            self.diverged = not np.isfinite(float(self.sums[-1]))

    def arrays(self) -> Iterator[Labelled]:
        """The mean loss of each epoch (of one cut short, over the steps made), and the tracks."""
        means = [float(total) / count for total, count in zip(self.sums, self.counts)]
        yield "epoch", np.arange(1, len(means) + 1), ("epoch",)
        yield "train_loss", np.array(means), ("epoch",)
        for track in self.tracks:
            yield from track.arrays()
