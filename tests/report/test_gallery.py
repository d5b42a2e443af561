"""The gallery has every figure, in groups by folder; a new file in a folder is all that a new figure takes."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import softmaxlab
from softmaxlab.papers.facts import figure_facts
from softmaxlab.papers.index import FIGURES
from softmaxlab.report.figure_page import figure_page
from softmaxlab.report.index_page import index_page
from softmaxlab.report.records import FigureRecord
from softmaxlab.report.render import render_page
from softmaxlab.report.reproduce import Reproduction
from tests.report.catalogue import Line

PROJECT = Path(__file__).parents[2]


def undrawn(figures: dict) -> Reproduction:
    """A reproduction of figures that were not drawn."""
    records = {id: FigureRecord(id, "", "", False, "", {}) for id in figures}
    return Reproduction("quick", figures, {}, records, {}, None, 1.0, Path("index.html"))


def test_every_figure_is_in_the_gallery_once():
    shown = re.findall(r'class="card" href="(.+)\.html"', index_page(undrawn(dict(FIGURES)), 0))
    assert sorted(shown) == sorted(figure_facts())
    assert sum(id.startswith("studies/") for id in shown) == 7


def test_ids_begin_with_the_folder_of_their_file():
    for id, facts in figure_facts().items():
        assert facts.module.split(".")[-3] == id.split("/")[0]


NEW = '''"""A new figure."""

from softmaxlab.studies.figures.bumps import Bumps


class New(Bumps):
    """A line."""

    id = "studies/new"
    title = "A new figure"
    source = "softmaxlab"
    place = "Study 99"
    reports = "It is new"
    presets = {"quick": {}, "paper": {}}
    cost = {"quick": "1 s", "paper": "2 s"}
'''

LOOK = """
import json, runpy, sys
from pathlib import Path
from softmaxlab.papers.index import FIGURES
from softmaxlab.report.index_page import index_page
from softmaxlab.report.records import FigureRecord
from softmaxlab.report.reproduce import Reproduction
figures = {"studies/new": FIGURES["studies/new"]}
records = {"studies/new": FigureRecord("studies/new", "", "", False, "", {})}
done = Reproduction("quick", figures, {}, records, {}, None, 1.0, Path("index.html"))
tables = runpy.run_path(sys.argv[1])
json.dump([len(FIGURES), index_page(done, 0), tables["figures_table"]()], sys.stdout)
"""


def test_a_new_file_is_a_figure_of_list_report_and_docs(tmp_path):
    """With no other edit. Another figure with the same id is refused."""
    source = Path(softmaxlab.__file__).parent
    shutil.copytree(source, tmp_path / "softmaxlab", ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
    folder = tmp_path / "softmaxlab" / "studies" / "figures"
    (folder / "new.py").write_text(NEW)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}

    def ran(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)

    listed = json.loads(ran("-m", "softmaxlab", "list", "--json").stdout)
    assert [row["title"] for row in listed if row["id"] == "studies/new"] == ["A new figure"]
    number, page, table = json.loads(ran("-c", LOOK, str(PROJECT / "docs" / "tables.py")).stdout)
    assert number == len(figure_facts()) + 1
    assert '<a class="card" href="studies/new.html">' in page
    assert "| `studies/new` | softmaxlab, Study 99 | A new figure | 1 s | 2 s |" in table
    (folder / "newer.py").write_text(NEW)
    assert "'studies/new' is defined twice" in ran("-m", "softmaxlab", "list").stderr


BAD = "<script>alert('x')</script>"


def test_names_from_plugins_models_and_errors_are_escaped():
    figure = type(
        "Bad", (Line,), {"__module__": Line.__module__, "title": BAD, "place": BAD, "reports": BAD, "source": BAD}
    )
    done = undrawn({"attention/line": figure})
    record = dataclasses.replace(done.drawn["attention/line"], error=BAD, status=BAD, seen=BAD, notes={BAD: BAD})
    fine = dataclasses.replace(record, error="", arrays=[[BAD, BAD, BAD]], heading=BAD)
    for shown in (record, fine):
        changed = dataclasses.replace(done, drawn={"attention/line": shown})
        assert_escaped(index_page(changed, 0))
        assert_escaped(figure_page(changed, "attention/line", {}, {}))
    probe = {
        "record": {"error": "", "missing": "", "command": BAD},
        "document": {"conclusions": [BAD]},
        "about": [("model", BAD)],
        "pictures": [(BAD, BAD, BAD)],
        "header": [BAD],
        "layers": [[BAD]],
        "files": [(BAD, BAD)],
    }
    assert_escaped(render_page("model.html", "probe/index.html", BAD, **probe))


def assert_escaped(page: str) -> None:
    assert "&lt;script&gt;alert" in page
    assert "<script>alert" not in page
