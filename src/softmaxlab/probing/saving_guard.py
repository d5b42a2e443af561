"""Guard `save_pretrained` while a model is changed: write the change as well, or refuse."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from softmaxlab.errors import SpecError

_NAME = "save_pretrained"


@contextmanager
def saved_as(top: Any, write: Callable[[Path, Mapping[str, Tensor] | None], None]) -> Iterator[None]:
    """Call `write(folder, state_dict)` after every `save_pretrained` of a model until the block ends."""
    own = getattr(top, _NAME)

    def save_pretrained(save_directory: Any, *args: Any, **options: Any) -> Any:
        result = own(save_directory, *args, **options)
        if options.get("is_main_process", True):
            write(Path(save_directory), options.get("state_dict"))
        return result

    with _replaced(top, save_pretrained):
        yield


@contextmanager
def not_saved(top: Any, change: str) -> Iterator[None]:
    """Refuse `save_pretrained` of a model until the block ends, because the file would lack the `change`."""

    def save_pretrained(*_: Any, **__: Any) -> None:
        raise SpecError(f"save_pretrained would write this model without {change}: save it outside of the block")

    with _replaced(top, save_pretrained):
        yield


@contextmanager
def _replaced(top: Any, function: Callable[..., Any]) -> Iterator[None]:
    before = top.__dict__.get(_NAME)
    top.__dict__[_NAME] = function
    try:
        yield
    finally:
        del top.__dict__[_NAME]
        if before is not None:
            top.__dict__[_NAME] = before
