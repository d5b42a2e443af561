"""All files of a probe in one folder: tables, JSON, pictures and the page."""

from pathlib import Path

from softmaxlab.probing.report import ProbeReport
from softmaxlab.report.probe_page import write_page
from softmaxlab.report.probe_pictures import write_pictures


def write_probe(report: ProbeReport, folder: Path, format: str = "csv") -> list[Path]:
    """Write a probe to a folder and return the paths of its files, the page last."""
    pictures = write_pictures(report, folder)
    tables = report.write_tables(folder, format)
    return [*tables, *(path for path, _ in pictures), write_page(report, pictures, folder)]
