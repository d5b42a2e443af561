"""A model whose sink is folded away for the length of a block: what the three ways to do it have in common."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from torch import nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.next_token_loss import Change, change, loss


class Folded(ABC):
    """Within `with folded:` the model computes with its sink folded away."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._undo: ExitStack | None = None

    @abstractmethod
    def fold(self, undo: ExitStack) -> None:
        """Change the model, and leave in `undo` what changes it back."""

    def __enter__(self) -> Self:
        if self._undo is not None:
            raise SpecError("this fold is in use already")
        with ExitStack() as undo:
            self.fold(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        undo, self._undo = self._undo, None
        if undo is not None:
            undo.close()

    def cost(self, batches: Any) -> Change:
        """Return Δloss in float, on the same tokens (a sequence's first is predicted in neither)."""
        before = loss(self.model, batches)
        with self:
            return change(before, loss(self.model, batches))
