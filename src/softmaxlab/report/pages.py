"""The report: all pages of a reproduction."""

from pathlib import Path
from typing import TYPE_CHECKING

from softmaxlab.report.claim_page import claim_body
from softmaxlab.report.figure_page import figure_body
from softmaxlab.report.index_page import index_body
from softmaxlab.report.model_page import TITLE, model_body
from softmaxlab.report.other_pages import benchmarks_body, errata_body, machine_body
from softmaxlab.report.places import errata
from softmaxlab.report.shell import write_page

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction


def write(done: "Reproduction", folder: Path, out: Path) -> None:
    """Write all pages into `folder`, from the records and from what is in the store's folder `out`; the index last."""
    points = errata()
    for id, figure in done.figures.items():
        write_page(folder, f"{id}.html", figure.title, figure_body(done, id, points))
    for id in done.claims:
        write_page(folder, f"claims/{id}.html", id, claim_body(done, id))
    write_page(folder, "errata.html", "Errata of the papers", errata_body())
    write_page(folder, "benchmarks.html", "Benchmarks", benchmarks_body(out))
    write_page(folder, "machine.html", "Machine and versions", machine_body(done))
    write_page(folder, "probe/index.html", TITLE, model_body(done.probed, out, folder / "probe"))
    write_page(folder, "index.html", "Both papers, reproduced", index_body(done, points))
