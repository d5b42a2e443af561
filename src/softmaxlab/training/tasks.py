"""Tasks of the small transformers: sequences made at once, in one tensor, the same on every machine for a seed.

    induction       BOS t_1 … t_k t'_i → t_{i+1}: k distinct tokens, one of them again, and what followed it the first
                    time (t'_k itself if i = k). t'_i is t_i, or, `shifted`, a symbol of its own for each token.
    classification  k distinct tokens of one of the groups that the vocabulary is split into, then CLS → which group

Loss: the cross-entropy at the last position, CLS in classification; induction adds `aux` times its mean at the others.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core import plugins
from softmaxlab.core.random import generator
from softmaxlab.core.spec import Record
from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    from torch import Tensor

Count = Annotated[int, Field(ge=1, le=10**8)]
Positions = Literal["additive", "concat", "none"]
Split = Literal["train", "evaluate"]


@dataclass(frozen=True)
class Data:
    """Token ids [sample, position], and what is to be predicted: [sample, position], or [sample] at the last one."""

    tokens: "Tensor"
    targets: "Tensor"


class Task(Record):
    """Sequences of a fixed length over a vocabulary. `train` and `evaluate` say how many there are."""

    train: Count
    evaluate: Count

    def symbols(self) -> int:
        """The number of token ids."""
        raise NotImplementedError(f"{type(self).__name__} gives no number of symbols")

    def outputs(self) -> int:
        """The number of classes that are predicted."""
        raise NotImplementedError(f"{type(self).__name__} gives no number of outputs")

    def length(self) -> int:
        """The number of tokens that the model sees."""
        raise NotImplementedError(f"{type(self).__name__} gives no length")

    def own_positions(self) -> Positions:
        """The positional embedding that goes with the task unless a run says otherwise."""
        raise NotImplementedError(f"{type(self).__name__} gives no positions")

    def drawn_among(self) -> int:
        """Return among how many symbols the tokens of a sample are drawn at once; 0 if one by one."""
        return 0

    def weight_elsewhere(self) -> float:
        """The weight of the loss at positions other than the last."""
        return 0.0

    def queries(self) -> slice:
        """Return the queries at which heads are measured: all but the first token, which sees itself alone."""
        return slice(1, None)

    def causal(self) -> bool:
        """Whether a token sees only those before it."""
        return True

    def seen(self) -> np.ndarray:
        """Return which keys the measured queries see, [query, key]."""
        everything = np.ones((self.length(), self.length()), dtype=bool)
        return (np.tril(everything) if self.causal() else everything)[self.queries()]

    def arrays(self, draw: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and targets of so many samples."""
        raise NotImplementedError(f"{type(self).__name__} draws no samples")

    def data(self, seed: int, split: Split, device: str = "cpu") -> Data:
        """The training or evaluation sequences of a seed."""
        import torch

        samples = self.train if split == "train" else self.evaluate
        tokens, targets = self.arrays(generator(seed, f"training/{split}"), samples)
        self._check("tokens", tokens, [(samples, self.length())], self.symbols())
        shapes = [(samples, self.length())] + [(samples,)] * (self.weight_elsewhere() == 0)
        self._check("targets", targets, shapes, self.outputs())
        return Data(*(torch.from_numpy(array.astype(np.int64)).to(device) for array in (tokens, targets)))

    def _check(self, name: str, array: np.ndarray, shapes: list[tuple[int, ...]], below: int) -> None:
        """Refuse what a task of one's own may give by mistake."""
        array, who = np.asarray(array), f"{type(self).__name__}.arrays"
        if array.shape not in shapes:
            raise SpecError(f"{who}: {name} must have shape {' or '.join(map(str, shapes))}, got {array.shape}")
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= below:
            got = f"{array.dtype} from {array.min()} to {array.max()}"
            raise SpecError(f"{who}: {name} must be whole numbers from 0 to {below - 1}, got {got}")


class Induction(Task):
    """Predict a bigram seen in context. `vocab` counts BOS and the plain tokens; shifted symbols come on top."""

    vocab: Annotated[int, Field(ge=3, le=10**6)] = 51
    tokens: Annotated[int, Field(ge=2, le=10_000)] = 10
    shifted: bool = True
    aux: Annotated[float, Field(ge=0.0)] = 0.2
    train: Count = 100_000
    evaluate: Count = 1_000

    @model_validator(mode="after")
    def _enough_tokens(self) -> Self:
        if self.vocab - 1 < self.tokens:
            least = self.tokens + 1
            raise ValueError(
                f"vocab must be at least {least}, for BOS and {self.tokens} distinct tokens, got {self.vocab}"
            )
        return self

    def symbols(self) -> int:
        return self.vocab + (self.vocab - 1) * self.shifted

    def outputs(self) -> int:
        return self.symbols()

    def length(self) -> int:
        return self.tokens + 2

    def own_positions(self) -> Positions:
        return "additive"

    def drawn_among(self) -> int:
        return self.vocab - 1

    def weight_elsewhere(self) -> float:
        return self.aux

    def queries(self) -> slice:
        """Return the queries whose next token is random: not BOS, and not the last two (E.1)."""
        return slice(1, -2)

    def arrays(self, draw: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Plain tokens are 1 … vocab − 1, BOS is 0, the shifted symbol of t is t + vocab − 1."""
        k, rows = self.tokens, np.arange(samples)
        plain = 1 + distinct(draw, samples, self.vocab - 1, k)
        again = draw.integers(k, size=samples)
        query = plain[rows, again] + (self.vocab - 1) * self.shifted
        following = np.hstack([plain, query[:, None]])[rows, again + 1]
        whole = np.hstack([np.zeros((samples, 1), int), plain, query[:, None], following[:, None]])
        return whole[:, :-1], whole[:, 1:]


class Classification(Task):
    """Tell which of `labels` equal groups of the vocabulary the tokens come from. `vocab` counts CLS, which is id 0."""

    vocab: Annotated[int, Field(ge=3, le=10**6)] = 41
    labels: Annotated[int, Field(ge=2, le=10**5)] = 4
    tokens: Annotated[int, Field(ge=1, le=10_000)] = 10
    train: Count = 10_000
    evaluate: Count = 1_000

    @model_validator(mode="after")
    def _equal_groups(self) -> Self:
        group, rest = divmod(self.vocab - 1, self.labels)
        if rest or group < self.tokens:
            raise ValueError(
                f"vocab must be CLS and {self.labels} equal groups of at least {self.tokens} tokens, got {self.vocab}"
            )
        return self

    def symbols(self) -> int:
        return self.vocab

    def outputs(self) -> int:
        return self.labels

    def length(self) -> int:
        return self.tokens + 1

    def own_positions(self) -> Positions:
        return "none"

    def drawn_among(self) -> int:
        return (self.vocab - 1) // self.labels

    def queries(self) -> slice:
        """CLS."""
        return slice(-1, None)

    def causal(self) -> bool:
        return False

    def arrays(self, draw: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
        group = (self.vocab - 1) // self.labels
        label = draw.integers(self.labels, size=samples)
        plain = 1 + group * label[:, None] + distinct(draw, samples, group, self.tokens)
        return np.hstack([plain, np.zeros((samples, 1), int)]), label


def register(task: type[Task]) -> type[Task]:
    """A class decorator for a task of one's own: worker processes then find the module that it is in."""
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise SpecError(f"register takes a subclass of Task, got {task!r}")
    plugins.remember(task.__module__)
    return task


def distinct(draw: np.random.Generator, samples: int, among: int, count: int) -> np.ndarray:
    """`count` distinct numbers below `among` in random order, [sample, count]."""
    # stable: equal numbers do occur, and how other sorts order them depends on the processor
    return draw.random((samples, among), dtype=np.float32).argsort(axis=1, kind="stable")[:, :count]
