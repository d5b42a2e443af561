"""`stop="settled"`: a run ends once it has solved its task and its heads have come to rest.

Settled means: accuracy above SOLVED, and the sink score of every head (classification, which has no sink: its sparsity)
stayed within REST over the last WINDOW steps. A head with empty rows (evaluate.py) does not rest: which rows its score
is a mean of may change. It is looked at every EVERY steps on the evaluation sequences.
"""

from collections import deque

import torch

from softmaxlab.training.evaluate import accuracy, patterns, through_time
from softmaxlab.training.model import Transformer
from softmaxlab.training.tasks import Data, Task

SOLVED = 0.99
REST = 0.02
WINDOW = 400  # steps
EVERY = 100  # steps


class EarlyStopping:
    """Watches a model in training; `reached` says whether it may stop."""

    def __init__(self, task: Task, model: Transformer, data: Data):
        self.task, self.model, self.data = task, model, data
        self.step = 0  # of the last reading
        self.recent: deque[torch.Tensor] = deque(maxlen=WINDOW // EVERY + 1)

    def reached(self, step: int) -> bool:
        if step % EVERY:
            return False
        self.step = step
        scores = through_time(self.task, patterns(self.model, self.data.tokens))
        resting = scores.get("sink_score", scores["sparsity"])
        self.recent.append(resting.masked_fill(scores["empty"] > 0, torch.nan))
        if len(self.recent) < WINDOW // EVERY + 1:
            return False
        path = torch.stack(tuple(self.recent))
        moved = path.amax(dim=0) - path.amin(dim=0)
        # a score that is not a number never rests
        if not bool((moved < REST).all()):
            return False
        accuracies = accuracy(self.model, self.data)
        return bool(accuracies.get("induction_accuracy", accuracies["accuracy"]) > SOLVED)

    def earlier(self) -> tuple[int, dict[str, torch.Tensor]]:
        """The first of the last readings: its step, and the scores of heads without empty rows by their name."""
        name = "sink_score" if self.task.causal() else "sparsity"
        return self.step - WINDOW, {name: self.recent[0]}
