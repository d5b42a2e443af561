"""Lists of specs from one spec and choices for some of its fields."""

import itertools
from collections.abc import Iterable
from typing import Any, TypeVar

from softmaxlab.core.spec import Spec
from softmaxlab.errors import SpecError

AnySpec = TypeVar("AnySpec", bound=Spec)


def grid(base: AnySpec, /, **choices: Iterable[Any]) -> list[AnySpec]:
    """Every combination of the choices, the last name varying fastest; dotted names reach into nested records.

    `grid(Run(task=Induction()), map=("softmax", "linear"), **{"task.aux": (0.0, 0.2)})`
    """
    if not isinstance(base, Spec):
        raise SpecError(f"grid takes a spec and choices for its fields, got {type(base).__name__}")
    for name, values in choices.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise SpecError(f"grid: {name} takes several values, such as ({values!r},), got {values!r}")
    return [base.replace(**dict(zip(choices, combination))) for combination in itertools.product(*choices.values())]
