"""Sphinx configuration: builds without network (`uv run sphinx-build -W docs docs/_build`)."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tables import TABLES

from softmaxlab import __version__

project = "softmaxlab"
author = "The softmaxlab developers"
release = __version__
# MathJax comes from a package at build time, so no page asks a server for it
extensions = ["myst_parser", "sphinx.ext.mathjax", "sphinx-mathjax-offline", "sphinx_gallery.gen_gallery"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
}
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


def _page_of(notebook: Path) -> str:
    """Return a lesson as Markdown: its cells one after another, and where to get the notebook."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook.read_text())["cells"]]
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells]
    return "\n\n".join([*parts, f"{{download}}`The notebook <{notebook.name}>`."]) + "\n"


for _notebook in sorted((Path(__file__).parent / "lessons").glob("*.ipynb")):
    _notebook.with_suffix(".md").write_text(_page_of(_notebook))
