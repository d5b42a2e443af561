"""`SinkMonitor` as a callback of `transformers.Trainer`.

    Trainer(model, args, train_dataset=data, callbacks=[SinkCallback(every=100)]).train()

This file imports transformers; `sl.probing.SinkCallback` loads it when it is first used.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pandas
from transformers import TrainerCallback
from transformers.integrations.integration_utils import default_logdir, get_reporting_integration_callbacks

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.sink_monitor import SinkMonitor, as_log
from softmaxlab.probing.watch import Statistics

SUFFIX = ".sinks"  # of our TensorBoard file, beside that of the Trainer


class SinkCallback(TrainerCallback):
    """Measure the heads every N optimizer steps on the training batches of that step, never on evaluation.

    Rows go to whatever `report_to` names (as `sinks/sink`, `sinks/max_logit`, …), to `trainer.state.log_history`, and
    to `table()`; `heads()` has a row per step, layer and head. The table is printed at the end unless `quiet`. Every
    process of a distributed run measures its own batches; the first one reports.
    """

    def __init__(
        self, every: int = 100, statistics: Statistics = "full", eps: float = SINK_EPS, quiet: bool = False
    ) -> None:
        if not (isinstance(every, int) and not isinstance(every, bool) and every >= 1):
            raise SpecError(f"every must be a whole number of optimizer steps from 1, got {every!r}")
        self.every, self.eps, self.quiet = every, eps, quiet
        self.statistics: Statistics = statistics
        self.monitor: SinkMonitor | None = None
        self._reporters: list[Any] = []

    def table(self) -> pandas.DataFrame:
        """One row per measured step of the latest training."""
        return pandas.DataFrame() if self.monitor is None else self.monitor.table()

    def heads(self) -> pandas.DataFrame:
        """One row per measured step, layer and head of the latest training."""
        return pandas.DataFrame() if self.monitor is None else self.monitor.heads()

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        self._close()  # of a training that was broken off
        self.monitor = SinkMonitor(model, self.every, self.statistics, self.eps)
        self.monitor.open()
        self.monitor.steps = state.global_step  # a resumed run goes on counting
        if state.is_world_process_zero:
            self._reporters = [_reporter(kind, args) for kind in get_reporting_integration_callbacks(args.report_to)]

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        if self.monitor is None or (row := self.monitor.step()) is None:
            return
        logs = as_log(row)
        state.log_history.append(logs | {"epoch": state.epoch, "step": state.global_step})
        for reporter in self._reporters:
            reporter.on_log(args, state, control, logs=dict(logs), model=model)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._close()
        if state.is_world_process_zero and not self.quiet and len(self.table()):
            print(self.table().to_string(index=False, float_format="{:.4g}".format))

    def _close(self) -> None:
        if self.monitor is not None:
            self.monitor.close()
        for reporter in self._reporters:
            if getattr(reporter, "tb_writer", None) is not None:
                reporter.tb_writer.close()
        self._reporters = []


def _reporter(kind: type, args: Any) -> Any:
    """An integration of our own: the Trainer's are not within reach, but runs and folders of logs can be shared."""
    reporter = kind()
    if getattr(reporter, "_SummaryWriter", None) is not None:  # a file is named by its second: not that of the Trainer
        reporter._SummaryWriter = partial(reporter._SummaryWriter, filename_suffix=SUFFIX)
    if hasattr(reporter, "tb_writer") and reporter.logging_dir is None:
        begun = [path for path in Path(args.output_dir, Path(default_logdir()).parent).glob("*") if path.is_dir()]
        newest = max(begun, key=lambda path: path.stat().st_mtime, default=Path(args.output_dir, default_logdir()))
        reporter.logging_dir = str(newest)
    return reporter
