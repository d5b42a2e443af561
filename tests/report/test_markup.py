"""Texts as HTML: mathematics, indices, headings, and which place speaks of which figure."""

from xml.dom.minidom import parseString

import pytest

from softmaxlab.papers.errata import errata, errata_file
from softmaxlab.papers.index import CLAIMS, FIGURES
from softmaxlab.report.cross_references import claims_on, errata_on, figures_of
from softmaxlab.report.markup import markdown, prose, sections
from softmaxlab.report.tex import mathml


@pytest.mark.parametrize(
    ("tex", "inside"),
    [
        (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        (r"s_0", "<msub><mi>s</mi><mrow><mn>0</mn></mrow></msub>"),
        (r"10^{12}", "<msup><mn>10</mn><mrow><mrow><mn>12</mn></mrow></mrow></msup>"),
        (r"r_{h'}^\top", "<msubsup><mi>r</mi>"),
        (r".05", "<mn>.05</mn>"),
        (r"\mathbb R", '<mi mathvariant="normal">ℝ</mi>'),
        (r"a < b", "<mo>&lt;</mo>"),
        (r"\nosuch", r"<mtext>\nosuch</mtext>"),
    ],
)
def test_tex(tex, inside):
    assert inside in mathml(tex)


def test_every_formula_of_the_errata_is_known_and_well_formed():
    parts = sections(errata_file().read_text(encoding="utf-8"))
    html = "".join(f"<h1>{part.title}</h1>{part.body}" for part in parts)
    assert "<mtext>" not in html
    assert html.count("<math>") > 200
    parseString(f"<div>{html}</div>")
    assert {part.anchor for part in parts if part.level == 3} == {erratum.anchor for erratum in errata().values()}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("u_0 > u_1", "u<sub>0</sub> &gt; u<sub>1</sub>"),
        ("e^{−a_i}", "e<sup>−a<sub>i</sub></sup>"),
        ("N_b, dτ_s, 2^F", "N<sub>b</sub>, dτ<sub>s</sub>, 2<sup>F</sup>"),
        ("per_position, t_end=3, `a_b`", "per_position, t_end=3, <code>a_b</code>"),
    ],
)
def test_indices_of_plain_sentences(text, html):
    assert prose(text) == html


def test_links_into_the_repository_keep_their_words_only():
    html = markdown("[notation](notation.md)")
    assert html == '<p><span title="notation.md in the repository">notation</span></p>\n'


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "`<script>`", "$<script>$", "x_{<script>}", "[<script>](<script>)"]
)
def test_texts_are_escaped(text):
    for html in (prose(text), markdown(text), mathml(text)):
        assert "<script>" not in html
        assert "&lt;" in html


def test_formulas_keep_asterisks_and_backslashes():
    assert markdown(r"$\beta*$ and *so*") == ("<p><math><mrow><mi>β</mi><mo>*</mo></mrow></math> and <em>so</em></p>\n")


def test_figures_find_their_claims_and_errata():
    figure = FIGURES["polarization/fig13b"]
    assert "polarization/fig13-relu" in [claim.id for claim in claims_on(figure, CLAIMS.values())]
    assert errata_on(figure, CLAIMS.values()) == ["polarization/19", "polarization/20"]
    assert figures_of(CLAIMS["polarization/fig13-relu"], FIGURES.values()) == [FIGURES["polarization/fig13a"], figure]
    assert errata_on(FIGURES["polarization/fig02"], []) == []
