"""Pydantic's validation errors as one line: field, what was expected, what was given, the near miss."""

from typing import Any

from pydantic import BaseModel, ValidationError

from softmaxlab.errors import UserCodeError, unknown

SHOWN = 60  # characters of a bad value


def one_line(error: ValidationError, model: type[BaseModel]) -> str:
    """The first error of a validation, and how many more there are."""
    # an unknown field first: it is often the missing one, misspelt
    errors = sorted(_causes(error), key=lambda e: e["type"] != "extra_forbidden")
    first = _sentence(errors[0], model)
    return first if len(errors) == 1 else f"{first} (and {len(errors) - 1} more)"


def user_code_error(error: ValidationError) -> UserCodeError | None:
    """The error of a user's own code that a validator met, as it is."""
    causes = (each.get("ctx", {}).get("error") for each in error.errors(include_url=False))
    return next((cause for cause in causes if isinstance(cause, UserCodeError)), None)


def _causes(error: ValidationError) -> list[Any]:
    """Return the errors, without those about lists that are too short only because their items are wrong."""
    errors = error.errors(include_url=False)
    places = [e["loc"] for e in errors]
    return [e for e in errors if e["type"] != "too_short" or not any(e["loc"] == at[:-1] for at in places)]


def _sentence(error: Any, model: type[BaseModel]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    owner = f"{model.__name__}.{path}" if path else model.__name__
    if error["type"] == "extra_forbidden":
        return str(unknown(f"field of {model.__name__}", path, model.model_fields))
    if error["type"] == "missing":
        return f"{owner} is required"
    if error["type"] == "value_error":  # raised by our own validators
        expected = f": {error['ctx']['error']}"
    elif error["type"] == "tuple_type":
        expected = " must be a list, as [1, 2]"
    elif error["type"] == "too_short":
        expected = f" must have {error['ctx']['min_length']} items or more"
    elif error["msg"].startswith("Input should be "):
        expected = " must be " + error["msg"].removeprefix("Input should be ")
    else:
        expected = f": {error['msg']}"
    return f"{owner}{expected}{_given(error['input'], expected) if path else ''}"


def _given(value: Any, expected: str) -> str:
    """', got …', cut short; nothing for a whole record, or for a name that the sentence quotes already."""
    if isinstance(value, (dict, BaseModel)) or (isinstance(value, str) and repr(value) in expected):
        return ""
    if (shape := getattr(value, "shape", None)) is not None:
        return f", got an array of shape {tuple(shape)}"
    text = repr(value).replace("\n", " ")
    return f", got {text if len(text) <= SHOWN else text[:SHOWN] + '…'}"
