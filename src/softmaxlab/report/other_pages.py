"""Errata, benchmarks, machine: pages that no figure and no claim owns."""

import json
import os
import platform
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.pool import cores
from softmaxlab.core.simulate import RECORDED
from softmaxlab.papers.errata import errata_file
from softmaxlab.report.kept import code_digest, installed
from softmaxlab.report.places import REPOSITORY
from softmaxlab.report.prose import inline, inside, markdown
from softmaxlab.report.shell import copyable, facts, note, number, row, table

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

PACKAGES = (*RECORDED, "matplotlib", "pandas", "xarray", "h5netcdf", "pydantic", "transformers", "gguf")
BENCH = "bench.json"  # in the store's folder
ABSENT = "in a clone of the repository, which this softmaxlab was not started from"


def errata_body() -> str:
    """The errata as HTML, with mathematics."""
    blocks = markdown(errata_file().read_text(encoding="utf-8"))
    contents = "".join(
        f'<li><a href="#{anchor}">{inside(html)}</a></li>' for depth, anchor, html in blocks if depth == 2
    )
    return f"<ul>{contents}</ul>" + "".join(html for depth, _, html in blocks if depth != 1)


def benchmarks_body(out: Path) -> str:
    """What was measured here, and what the README says was measured elsewhere."""
    command = f"softmaxlab bench --json > {out / BENCH}"
    again = f"<p>To measure here, in a clone of the repository, about ten minutes:</p>{copyable(command, 'command')}"
    return (
        '<p class="lead">Ours against the plain way, in one run; a ratio above 1 means that ours is faster, where a '
        f"table does not say otherwise.</p><h2>On this machine</h2>{_measured(out / BENCH)}{again}"
        f"<h2>On the machine of the README</h2>{_of_readme()}"
    )


def _measured(path: Path) -> str:
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        tables = {
            name: [r for r in rows if r["benchmark"] == name] for name in dict.fromkeys(r["benchmark"] for r in rows)
        }
        return "".join(_bench_table(name, found) for name, found in tables.items())
    except OSError:
        return note("Not measured on this machine.")
    except (ValueError, TypeError, KeyError) as error:
        return note(
            f"{escape(str(path))} is not what <code>softmaxlab bench --json</code> writes: {escape(str(error))}"
        )


def _bench_table(name: str, rows: list[dict[str, Any]]) -> str:
    columns = [column for column in rows[0] if column != "benchmark"]
    cells = [row([_value(each.get(column)) for column in columns]) for each in rows]
    return f"<h3>{escape(name)}</h3>{table([column.replace('_', ' ') for column in columns], cells)}"


def _value(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value, f"{value:.3g}" if isinstance(value, float) else f"{value:,}")
    return escape("" if value is None else str(value))


def _of_readme() -> str:
    """Its paragraphs about `softmaxlab bench`, as they stand there with the commands that made them."""
    path = REPOSITORY / "README.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = [part for part in re.split(r"\n\s*\n", text) if part.startswith("`uv run softmaxlab bench")]
    return "".join(f"<p>{inline(part)}</p>" for part in found) or note(f"They are in README.md {ABSENT}.")


def machine_body(done: "Reproduction") -> str:
    told = [("machine", f"{platform.system()} {platform.release()}, {platform.machine()}"), ("processor", _processor())]
    told += [("cores", str(cores())), ("memory", _memory()), ("Python", platform.python_version())]
    told += [(name, escape(installed(name))) for name in PACKAGES]
    told += [
        ("code", f"<code>{code_digest()}</code>"),
        ("preset", escape(done.preset)),
        ("this run", f"{done.seconds:.0f} s"),
    ]
    return f"{facts(told)}<h2>What it cost</h2>{_costs(done)}"


def _costs(done: "Reproduction") -> str:
    """Every piece of work, the dearest first."""
    pieces = [("figure", d.id, d.cpu, f"{d.id}.html") for d in done.drawn.values()]
    pieces += [("claim", j.id, j.cpu, f"claims/{j.id}.html") for j in done.judged.values()]
    pieces.sort(key=lambda piece: -piece[2])
    total = sum(cpu for _, _, cpu, _ in pieces)
    rows = [
        row([kind, f'<a href="{page}">{escape(id)}</a>', number(cpu, f"{cpu:.1f}")]) for kind, id, cpu, page in pieces
    ]
    told = f"Processor seconds when each piece was made, {total:.0f} in all, on one thread each."
    return f"<p>{told}</p>{table(['Kind', 'Id', 'Seconds'], rows)}"


def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return escape(found[1] if found else platform.processor() or "not known")


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError, AttributeError):
        return "not known"
