"""Texts as HTML: the Markdown of our docs, and the plain mathematics of claims and titles."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from softmaxlab.report.tex import mathml

# a letter on its own or after a d, or a number, then _x, _12, _{…}, ^x, ^{…} or ^(…)
SCRIPT = re.compile(
    r"(?<![^\W\d_])(d?[^\W\d_]|\d|[‖)\]⊥])([_^])(?:\{([^{}]+)\}|([^\W_]{1,2})(?![^\W_])|(?<=\^)(\([^()]+\)))"
)


@dataclass(frozen=True)
class Section:
    """A heading of a document and what stands below it, up to the next heading."""

    level: int
    anchor: str
    title: Markup
    body: Markup


def prose(text: str) -> Markup:
    """Return a sentence of a claim or figure: u_0 with its index below, `…` as code and $…$ as mathematics."""
    return Markup(_sentences().renderInline(text))


def unmarked(text: str) -> str:
    """Return a sentence without any markup, for titles and alternative texts; still to be escaped."""
    return text.replace("$", "")


def markdown(text: str) -> Markup:
    """Return a document. Links lead into the repository, which a report does not have: their words stay."""
    return Markup(_documents().render(text))


def sections(text: str) -> list[Section]:
    """Return a document by its headings; an anchor below a section begins with that section's name."""
    parser = _documents()
    tokens = parser.parse(text)
    starts = [i for i, token in enumerate(tokens) if token.type == "heading_open"]
    made: list[Section] = []
    above = ""
    for start, end in zip(starts, [*starts[1:], len(tokens)]):
        level, heading = int(tokens[start].tag[1]), tokens[start + 1]
        if level < 3:
            above = anchor = _anchor(heading.content)
        else:
            anchor = f"{above}-{_anchor(heading.content.split('.')[0])}"
        title = parser.renderer.render([heading], parser.options, {})
        body = parser.renderer.render(tokens[start + 3 : end], parser.options, {})
        made.append(Section(level, anchor, Markup(title), Markup(body)))
    return made


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@cache
def _sentences() -> MarkdownIt:
    parser = _with_mathematics(MarkdownIt("zero").enable("backticks"))
    parser.core.ruler.push("scripts", _split_scripts)
    return parser


@cache
def _documents() -> MarkdownIt:
    parser = _with_mathematics(MarkdownIt("commonmark", {"html": False}).enable("table"))
    parser.core.ruler.push("links", _keep_words_of_links)
    return parser


def _with_mathematics(parser: MarkdownIt) -> MarkdownIt:
    parser.inline.ruler.before("backticks", "mathematics", _read_mathematics)
    parser.add_render_rule("mathematics", lambda _, tokens, place, *rest: mathml(tokens[place].content))
    return parser


def _read_mathematics(state: StateInline, silent: bool) -> bool:
    """Read $…$ as one token."""
    if state.src[state.pos] != "$":
        return False
    end = state.src.find("$", state.pos + 1, state.posMax)
    if end <= state.pos + 1:
        return False
    if not silent:
        state.push("mathematics", "math", 0).content = " ".join(state.src[state.pos + 1 : end].split())
    state.pos = end + 1
    return True


def _split_scripts(state: StateCore) -> None:
    """Put indices below and exponents above, in the words of a sentence."""
    for token in state.tokens:
        children = token.children or []
        split = (_scripts(child.content) if child.type == "text" else [child] for child in children)
        token.children = list(itertools.chain.from_iterable(split))


def _scripts(text: str) -> Iterator[Token]:
    end = 0
    for match in SCRIPT.finditer(text):
        tag = "sub" if match[2] == "_" else "sup"
        yield _text(text[end : match.start()] + match[1])
        yield Token(f"{tag}_open", tag, 1)
        yield from _scripts(match[3] or match[4] or match[5])
        yield Token(f"{tag}_close", tag, -1)
        end = match.end()
    yield _text(text[end:])


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _keep_words_of_links(state: StateCore) -> None:
    for token in (child for block in state.tokens for child in block.children or []):
        if token.type == "link_open":
            attributes: dict[str, Any] = {"title": f"{token.attrs['href']} in the repository"}
            token.tag, token.attrs = "span", attributes
        elif token.type == "link_close":
            token.tag = "span"
