"""Sphinx configuration: builds without network (`uv run sphinx-build -W docs docs/_build`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tables import TABLES

from softmaxlab import __version__

project = "softmaxlab"
author = "The softmaxlab developers"
release = __version__
# MathJax comes from a package at build time, so no page asks a server for it
extensions = ["myst_parser", "sphinx.ext.mathjax", "sphinx-mathjax-offline"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_generated"]
html_theme = "furo"
html_title = "softmaxlab"

# tables made from the registries, included by the pages
_generated = Path(__file__).parent / "_generated"
_generated.mkdir(exist_ok=True)
for _name, _table in TABLES.items():
    (_generated / f"{_name}.md").write_text(_table())
