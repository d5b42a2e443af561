"""The optional dependency: transformers, imported when first needed."""

from types import ModuleType

from softmaxlab.errors import MissingExtra, SpecError


def transformers() -> ModuleType:
    try:
        import transformers
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "transformers":
            raise MissingExtra("probing needs transformers: pip install 'softmaxlab[hf]'") from None
        raise SpecError(f"transformers is installed but cannot be imported: {' '.join(str(error).split())}") from error
    return transformers
