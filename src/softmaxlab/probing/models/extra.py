"""The optional dependency: transformers, imported when first needed."""

from types import ModuleType

from softmaxlab.errors import SpecError


def transformers() -> ModuleType:
    try:
        import transformers
    except ImportError:
        raise SpecError("probing needs transformers: pip install 'softmaxlab[hf]'") from None
    return transformers
