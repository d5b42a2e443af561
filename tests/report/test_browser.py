"""The report opened from disk in Chromium: nothing asked of a network, no error, and the keyboard does everything."""

import shutil

import pytest

from softmaxlab.report.render import asset
from tests.report.test_reproduce import done, folder  # noqa: F401  (fixtures)

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
CONTRAST = 4.5  # of text to its background, asked for by WCAG AA
# contrast of an element's colour to the first background behind it that is not transparent
MEASURE = """element => {
  const linear = c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const luminance = text => text.match(/[\\d.]+/g).slice(0, 3)
    .reduce((sum, c, i) => sum + linear(c / 255) * [.2126, .7152, .0722][i], 0);
  let behind = element;
  while (/rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const [a, b] = [element, behind].map((e, i) => luminance(getComputedStyle(e)[i ? "backgroundColor" : "color"]));
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
}"""
CONTROLS = "a[href], button, summary, [tabindex='0']"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def opened(request, browser, done, folder):  # noqa: F811
    """Opens a page by name; at the end nothing may have gone wrong on any."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 1280, "height": 900})
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
    page.on("requestfailed", lambda asked: wrong.append(asked.url))

    def open_(name: str):
        page.goto((folder / "report" / name).as_uri())
        return page

    yield open_
    context.close()
    assert wrong == []


def pages(folder):  # noqa: F811
    return sorted(str(path.relative_to(folder / "report")) for path in (folder / "report").rglob("*.html"))


def test_every_page_opens_with_pictures_and_contrast(opened, folder):  # noqa: F811
    for name in pages(folder):
        page = opened(name)
        assert page.title().endswith("softmaxlab")
        page.evaluate("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
        page.wait_for_function("[...document.images].every(image => image.complete)")
        assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)"), name
        for element in page.query_selector_all("h1, p, td, th button, header a, .chip, .filters button, dt, dd, pre"):
            if element.is_visible():
                assert element.evaluate(MEASURE) >= CONTRAST, (name, element.inner_text())


def test_tab_reaches_every_control(opened):
    page = opened("index.html")
    wanted = page.evaluate(f'[...document.querySelectorAll("{CONTROLS}")].filter(e => e.checkVisibility()).length')
    reached = set()
    for _ in range(wanted + 2):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(f'[...document.querySelectorAll("{CONTROLS}")].indexOf(document.activeElement)'))
    assert len(reached - {-1}) == wanted
    opened("index.html").keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_tables_sort_and_filter(opened):
    page = opened("index.html")
    column = "#verdict-table tbody tr td:nth-child(7)"
    page.focus("#verdict-table th:nth-child(7) button")
    page.keyboard.press("Enter")
    assert page.get_attribute("#verdict-table th:nth-child(7)", "aria-sort") == "ascending"
    assert page.locator(column).all_inner_texts() == ["fails", "holds", "unjudged"]
    page.keyboard.press("Enter")
    assert page.get_attribute("#verdict-table th:nth-child(7)", "aria-sort") == "descending"
    assert page.locator(column).all_inner_texts() == ["unjudged", "holds", "fails"]
    page.click(".filters button[data-show='holds']")
    assert page.locator("#verdict-table tbody tr:visible").count() == 1


@pytest.mark.parametrize(
    ("first", "ways"),
    [("", ("ascending", "descending")), (' data-first="descending"', ("descending", "ascending"))],
)
def test_cells_without_a_value_are_last_either_way(browser, first, ways):
    """Numbers as numbers though cells are empty; words reverse too."""
    rows = (("10", "b"), ("", "·"), ("9", "c"), ("·", ""), ("-1e3", "a"))
    cells = "".join(f"<tr><td>{number}</td><td>{word}</td></tr>" for number, word in rows)
    heads = "<th><button>number</button></th><th><button>word</button></th>"
    page = browser.new_page()
    page.set_content(
        f"<table class=sortable{first}><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"
        f"<script>{asset('sort.js')}</script>"
    )
    for column, ordered in ((1, ["-1e3", "9", "10"]), (2, ["a", "b", "c"])):
        for way in ways:
            page.click(f"th:nth-child({column}) button")
            assert page.get_attribute(f"th:nth-child({column})", "aria-sort") == way
            shown = page.locator(f"tbody td:nth-child({column})").all_inner_texts()
            assert shown[:3] == (ordered if way == "ascending" else ordered[::-1])
            assert set(shown[3:]) == {"", "·"}
    page.close()


def test_pictures_zoom_by_keyboard(opened):
    page = opened("attention/line.html")
    page.focus("button.picture")
    page.keyboard.press("Enter")
    assert page.locator("dialog.zoom[open] img").is_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.zoom", state="detached")
    assert page.evaluate("document.activeElement.className") == "picture"
