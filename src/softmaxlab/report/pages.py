"""The report: all pages of a reproduction."""

from pathlib import Path
from typing import TYPE_CHECKING

from softmaxlab.papers.errata import errata, errata_file
from softmaxlab.report.claim_page import claim_page
from softmaxlab.report.figure_page import figure_page
from softmaxlab.report.index_page import index_page
from softmaxlab.report.markup import sections
from softmaxlab.report.model_page import model_page
from softmaxlab.report.other_pages import benchmarks_page, errata_page, machine_page
from softmaxlab.report.render import write_text

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction


def write(done: "Reproduction", folder: Path, out: Path) -> None:
    """Write all pages into `folder`, from the records and from what is in the store's folder `out`; the index last."""
    parts = sections(errata_file().read_text(encoding="utf-8"))
    by_anchor = {section.anchor: section for section in parts}
    for id in done.figures:
        write_text(folder / f"{id}.html", figure_page(done, id, errata(), by_anchor))
    for id in done.claims:
        write_text(folder / "claims" / f"{id}.html", claim_page(done, id))
    write_text(folder / "errata.html", errata_page(parts))
    write_text(folder / "benchmarks.html", benchmarks_page(out))
    write_text(folder / "machine.html", machine_page(done))
    write_text(folder / "probe" / "index.html", model_page(done.probed, out, folder / "probe"))
    write_text(folder / "index.html", index_page(done, len(errata())))
