"""The public surface: every name imports, is documented, and is listed in the API page."""

import operator
import re
import subprocess
import sys
from pathlib import Path

import pytest

import softmaxlab

PROJECT = Path(__file__).parents[1]
MODULES = [
    softmaxlab,
    *(
        getattr(softmaxlab, n)
        for n in softmaxlab.__all__
        if n in ("attention", "measure", "polarization", "specialization", "training", "probing")
    ),
]
NAMES = [(module.__name__, name) for module in MODULES for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_imports_and_is_documented(module, name):
    thing = getattr(sys.modules[module], name)
    if name not in ("__version__", "MAPS"):
        assert (thing.__doc__ or "").strip()
    page = (PROJECT / "docs" / "api.md").read_text()
    short = f"{module}.{name}".replace("softmaxlab", "sl", 1)
    assert re.search(rf"`{re.escape(short)}\b", page), f"docs/api.md does not mention {short}"


def test_the_api_page_names_nothing_that_does_not_exist():
    for path in re.findall(r"^- `sl\.([\w.]+)", (PROJECT / "docs" / "api.md").read_text(), re.MULTILINE):
        assert operator.attrgetter(path)(softmaxlab) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        _ = softmaxlab.simulat


def test_importing_softmaxlab_loads_nothing_heavy():
    heavy = {"torch", "numpy", "xarray", "pandas", "matplotlib", "numba", "scipy"}
    code = f"import softmaxlab, softmaxlab.cli, sys; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_versions_agree():
    assert f"version = {{{softmaxlab.__version__}}}" in (PROJECT / "references.bib").read_text()
    assert f"version: {softmaxlab.__version__}" in (PROJECT / "CITATION.cff").read_text()
    assert f"## {softmaxlab.__version__}" in (PROJECT / "CHANGELOG.md").read_text()
