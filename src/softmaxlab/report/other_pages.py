"""Benchmarks and machine: pages that no figure and no claim owns."""

import json
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import softmaxlab
from softmaxlab.core.pool import cores
from softmaxlab.core.simulate import RECORDED
from softmaxlab.report.markup import Section, sections
from softmaxlab.report.records import code_digest, installed
from softmaxlab.report.render import render_page

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

PACKAGES = (*RECORDED, "matplotlib", "pandas", "xarray", "h5netcdf", "pydantic", "transformers", "gguf")
BENCH = "bench.json"  # in the store's folder
MEASURED = Path(softmaxlab.__file__).parents[2] / "docs" / "benchmarks.md"


def errata_page(parts: list[Section]) -> str:
    """Return the errata with their mathematics."""
    return render_page("errata.html", "errata.html", "Errata of the papers", sections=parts)


def benchmarks_page(out: Path) -> str:
    """Return what was measured here, and what the docs say was measured elsewhere."""
    tables, problem = _measured(out / BENCH)
    text = MEASURED.read_text(encoding="utf-8") if MEASURED.is_file() else ""
    command = f"softmaxlab bench --json > {out / BENCH}"
    elsewhere = sections(text)[0].body if text else ""
    title = "Benchmarks"
    return render_page(
        "benchmarks.html",
        "benchmarks.html",
        title,
        tables=tables,
        problem=problem,
        command=command,
        elsewhere=elsewhere,
    )


def _measured(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the tables of the file of `softmaxlab bench --json`, and what is wrong with it."""
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        names = dict.fromkeys(row["benchmark"] for row in rows)
        return [_bench_table(name, [row for row in rows if row["benchmark"] == name]) for name in names], ""
    except OSError:
        return [], "Not measured on this machine."
    except (ValueError, TypeError, KeyError) as error:
        return [], f"{path} is not what softmaxlab bench --json writes: {error}"


def _bench_table(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = [column for column in rows[0] if column != "benchmark"]
    return {
        "name": name,
        "header": [column.replace("_", " ") for column in columns],
        "rows": [[_cell(row.get(column)) for column in columns] for row in rows],
    }


def _cell(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"number": repr(value), "text": f"{value:.3g}" if isinstance(value, float) else f"{value:,}"}
    return "" if value is None else str(value)


def machine_page(done: "Reproduction") -> str:
    """Return what computed this report, and what each piece of work cost, the dearest first."""
    machine = [
        ("machine", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("processor", _processor()),
        ("cores", str(cores())),
        ("memory", _memory()),
        ("Python", platform.python_version()),
        *((name, installed(name)) for name in PACKAGES),
        ("code", code_digest()),
        ("preset", done.preset),
        ("this run", f"{done.seconds:.0f} s"),
    ]
    pieces = [_piece("figure", record, f"{record.id}.html") for record in done.drawn.values()]
    pieces += [_piece("claim", record, f"claims/{record.id}.html") for record in done.judged.values()]
    pieces.sort(key=lambda piece: -piece["cpu"])
    return render_page("machine.html", "machine.html", "Machine and versions", machine=machine, pieces=pieces)


def _piece(kind: str, record: Any, page: str) -> dict[str, Any]:
    return {"kind": kind, "id": record.id, "cpu": record.cpu, "page": page}


def _processor() -> str:
    try:
        match = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    return match[1] if match else platform.processor() or "not known"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError, AttributeError):
        return "not known"
