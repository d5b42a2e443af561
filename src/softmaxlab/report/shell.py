"""What every page has: head, navigation, style and script inside, and the few parts that pages are made of."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from softmaxlab import __version__
from softmaxlab.core.files import atomic
from softmaxlab.report.prose import bare, plain
from softmaxlab.report.render import asset

# an empty picture as icon: without one, browsers ask for favicon.ico
HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
)
NAVIGATION = (
    ("index.html#verdicts", "Verdicts"),
    ("index.html#gallery", "Figures"),
    ("errata.html", "Errata"),
    ("probe/index.html", "A real model"),
    ("benchmarks.html", "Benchmarks"),
    ("machine.html", "Machine"),
)


def write_page(folder: Path, name: str, title: str, body: str) -> None:
    """Write `folder`/`name`, a page of its own: nothing is fetched."""
    up = "../" * name.count("/")
    links = "".join(
        f'<a href="{up}{to}"{" aria-current=page" if to == name else ""}>{escape(text)}</a>' for to, text in NAVIGATION
    )
    page = (
        f"{HEAD}<title>{escape(bare(title))} · softmaxlab</title><style>{asset('report.css')}</style></head><body>"
        f'<a class="skip" href="#main">Skip to the content</a><header><nav aria-label="Report">'
        f'<a class="name" href="{up}index.html">softmaxlab</a>{links}</nav></header>'
        f'<main id="main" tabindex="-1"><h1>{plain(title)}</h1>{body}</main>'
        f"<footer><p>Written by softmaxlab {__version__}. These pages fetch nothing from a network.</p></footer>"
        f"<script>{asset('sort.js')}{asset('report.js')}</script></body></html>\n"
    )
    with atomic(folder / name) as draft:
        draft.write_text(page, encoding="utf-8")


def table(header: Sequence[str], rows: Sequence[str], name: str = "") -> str:
    """A table that sorts; `rows` are made by `row`. One with a name is long, and scrolls below its header."""
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(cell)}</button></th>' for cell in header
    )
    frame = (
        f'class="wide tall" tabindex="0" role="region" aria-label="{escape(name.replace("-", " "))}"'
        if name
        else 'class="wide"'
    )
    mark = f' {name}" id="{name}"' if name else '"'
    return (
        f'<div {frame}><table class="sortable{mark}><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def row(cells: Sequence[str], kind: str = "") -> str:
    """`cells` are HTML; one that begins with `<td` is a cell already."""
    marked = (cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in cells)
    return f'<tr data-kind="{escape(kind)}">{"".join(marked)}</tr>'


def number(value: float, shown: str) -> str:
    """A cell that sorts by its value."""
    return f'<td class="number" data-sort="{value!r}">{escape(shown)}</td>'


def copyable(text: str, what: str) -> str:
    """A command or program with a button that copies it; `what` it is, for those who do not see it."""
    button = f'<button type="button" class="copy" aria-label="Copy the {escape(what)}">Copy</button>'
    return f'<div class="copyable"><pre tabindex="0">{escape(text)}</pre>{button}</div>'


def picture(source: str, alternative: str, caption: str = "") -> str:
    """A picture that zooms."""
    told = f"<figcaption>{caption}</figcaption>" if caption else ""
    alternative = escape(bare(alternative))
    return (
        f'<figure><button type="button" class="picture" aria-label="Zoom: {alternative}">'
        f'<img src="{escape(source)}" alt="{alternative}"></button>{told}</figure>'
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values; values are HTML."""
    return '<dl class="facts">' + "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in pairs) + "</dl>"


def note(text: str, bad: bool = False) -> str:
    """`text` is HTML."""
    return f'<div class="note{" bad" if bad else ""}"><p>{text}</p></div>'
