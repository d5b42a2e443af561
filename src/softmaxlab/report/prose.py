"""Texts as HTML: the Markdown of our docs, and the plain mathematics of claims and titles."""

import re
from html import escape

from softmaxlab.report.tex import mathml

INLINE = re.compile(r"`(?P<code>[^`]+)`|\$(?P<math>[^$]+)\$|\[(?P<text>[^\]]+)\]\((?P<link>[^)]+)\)|\*(?P<em>[^*]+)\*")
QUOTED = re.compile(r"(`[^`]+`|\$[^$]+\$)")
# a letter on its own or after a d, or a number, then _x, _12, _{…}, ^x, ^{…} or ^(…)
SCRIPT = re.compile(
    r"(?<![^\W\d_])(d?[^\W\d_]|\d|[‖)\]⊥])([_^])(?:\{([^{}]+)\}|([^\W_]{1,2})(?![^\W_])|(?<=\^)(\([^()]+\)))"
)


def plain(text: str) -> str:
    """A sentence of a claim or figure: escaped, u_0 with its index below, `…` as code and $…$ as mathematics."""
    parts = QUOTED.split(text)
    return "".join(inline(part) if i % 2 else _scripts(escape(part)) for i, part in enumerate(parts))


def bare(text: str) -> str:
    """The same without any markup, for titles and alternative texts; still to be escaped."""
    return text.replace("$", "")


def _scripts(text: str) -> str:
    def raised(found: re.Match[str]) -> str:
        tag = "sub" if found[2] == "_" else "sup"
        return f"{found[1]}<{tag}>{_scripts(found[3] or found[4] or found[5])}</{tag}>"

    return SCRIPT.sub(raised, text)


def inline(text: str) -> str:
    """Code, mathematics, emphasis. Links lead into the repository, which a report does not have: their words stay."""
    parts, end = [], 0
    for found in INLINE.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(_element(found))
        end = found.end()
    return "".join(parts) + escape(text[end:])


def _element(found: re.Match[str]) -> str:
    if found["code"]:
        return f"<code>{escape(found['code'])}</code>"
    if found["math"]:
        return mathml(" ".join(found["math"].split()))
    if found["em"]:
        return f"<em>{inline(found['em'])}</em>"
    return f'<span title="{escape(found["link"])} in the repository">{inline(found["text"])}</span>'


def markdown(text: str, level: int = 1) -> list[tuple[int, str, str]]:
    """(level of heading or 0, anchor, HTML) per block of headings and paragraphs; headings begin at `level`."""
    blocks, section = [], ""
    for part in re.split(r"\n\s*\n|(?<=\n)(?=#)|(?m:(?<=^)(?=#))", text.strip()):
        head, _, rest = part.strip().partition("\n")
        if found := re.fullmatch(r"(#+) (.+)", head):
            depth = len(found[1])
            section = anchor(found[2]) if depth < 3 else section
            name = anchor(found[2]) if depth < 3 else f"{section}-{anchor(found[2].split('.')[0])}"
            size = depth + level - 1
            blocks.append((depth, name, f'<h{size} id="{name}">{inline(found[2])}</h{size}>'))
            part = rest
        if part.strip():
            blocks.append((0, "", f"<p>{inline(part.strip())}</p>"))
    return blocks


def inside(heading: str) -> str:
    """A heading of `markdown` without its outer tag."""
    return heading[heading.index(">") + 1 : heading.rindex("<")]


def anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
