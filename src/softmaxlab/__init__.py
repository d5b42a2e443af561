"""softmaxlab: a laboratory for how softmax attention learns.

Names are imported when first used, so that `import softmaxlab` costs nothing.
"""

import sys
from importlib import import_module

__version__ = "0.1.0"

# public name → where it lives; a module stands for itself
_PUBLIC = {
    "attention": "softmaxlab.attention",
    "measure": "softmaxlab.measure",
    "polarization": "softmaxlab.polarization",
    "specialization": "softmaxlab.specialization",
    "training": "softmaxlab.training",
    "probing": "softmaxlab.probing",
    "simulate": "softmaxlab.core.simulate",
    "Spec": "softmaxlab.core.spec",
    "Result": "softmaxlab.core.result",
    "Status": "softmaxlab.core.result",
    "Store": "softmaxlab.core.store",
    "from_json": "softmaxlab.core.spec",
    "run": "softmaxlab.papers.run",
    "plot": "softmaxlab.plotting.plot",
    "FigureSpec": "softmaxlab.papers.figure",
    "Claim": "softmaxlab.papers.claim",
    "Finding": "softmaxlab.papers.claim",
    "Verdict": "softmaxlab.papers.claim",
    "SoftmaxlabError": "softmaxlab.errors",
    "SpecError": "softmaxlab.errors",
    "StoreError": "softmaxlab.errors",
}
__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]

if sys.flags.safe_path:  # as in all our workers: Python is told not to import from the current folder
    from softmaxlab.core import current_folder

    current_folder.ignore()


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'softmaxlab' has no attribute {name!r}")
    home = import_module(_PUBLIC[name])
    value = home if home.__name__ == f"softmaxlab.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
