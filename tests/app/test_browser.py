"""The explorer in headless Chromium: no error, no request elsewhere, sliders, permalinks, messages."""

import re
import shutil
import threading

import pytest

from softmaxlab.app.server import HOST, create, listen, serve
from tests.app.saved import save

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT = 60_000  # milliseconds for a picture on a busy machine
READY = "document.querySelectorAll('#{} .js-plotly-plot .main-svg').length > 0"
FINE = "!document.querySelector('.sentence').textContent.startsWith('A first look')"
POINTS = "JSON.stringify(document.querySelector('#{} .js-plotly-plot').data.map(t => [t.x, t.y, t.z]))"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    save(root / "one", patterns=True)
    save(root / "two", statistics="fast")
    opened = listen(0)
    port = opened.getsockname()[1]
    threading.Thread(target=serve, args=(create(root), opened), daemon=True).start()
    return f"http://{HOST}:{port}"


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        found = tool.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def tab(browser, address):
    """A page that notes whatever is wrong; the test fails if there is anything."""
    context = browser.new_context(viewport={"width": 1366, "height": 900})
    tab, wrong = context.new_page(), []
    tab.set_default_timeout(WAIT)
    tab.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda asked: None if _local(asked.url, address) else wrong.append(asked.url))
    yield tab
    context.close()
    assert wrong == []


def _local(url: str, address: str) -> bool:
    return url.startswith((address, "data:", "blob:"))


def open_page(tab, address: str, path: str, picture: str) -> None:
    tab.goto(address + path)
    tab.wait_for_function(READY.format(picture))
    tab.wait_for_function(f"{POINTS.format(picture)} !== '[]'")
    tab.wait_for_function("location.search.length > 1")


def settled(tab, picture: str) -> str:
    """The points of a picture once they are the fine ones and no longer change."""
    tab.wait_for_function(FINE)
    before, now = None, tab.evaluate(POINTS.format(picture))
    while before != now:
        tab.wait_for_timeout(1500)
        tab.wait_for_function(FINE)
        before, now = now, tab.evaluate(POINTS.format(picture))
    return now


def press(tab, slider: str, key: str = "ArrowUp") -> None:
    tab.locator(f"#{slider} [role=slider]").focus()
    tab.keyboard.press(key)


@pytest.mark.parametrize(
    ("path", "picture", "slider"),
    [
        ("/polarization", "polarization-weights", "polarization-u1"),
        ("/attention", "attention-pattern", "attention-score1"),
        ("/probe?layer=1&head=1", "probe-pattern", "probe-head"),
        ("/specialization?tau=3", "specialization-plane", "specialization-nu"),
    ],
)
def test_a_slider_changes_the_picture_and_the_permalink_brings_it_back(tab, address, path, picture, slider):
    open_page(tab, address, path, picture)
    before, link = settled(tab, picture), tab.url
    press(tab, slider)
    tab.wait_for_function(f"location.href !== {link!r}")
    changed, link = settled(tab, picture), tab.url
    assert changed != before
    assert tab.locator(f"#{picture.split('-')[0]}-permalink").text_content() == link
    tab.goto("about:blank")
    open_page(tab, address, link.removeprefix(address), picture)
    assert settled(tab, picture) == changed


def test_the_start_can_be_dragged_on_the_simplex(tab, address):
    open_page(tab, address, "/polarization", "polarization-simplex")
    settled(tab, "polarization-simplex")
    box = tab.locator("#polarization-simplex .nsewdrag").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 0.7 * box["height"]
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 30, y - 30, steps=4)
    tab.mouse.up()
    tab.wait_for_function("!location.search.includes('a=0.0,0.0,0.0')")
    settled(tab, "polarization-simplex")
    a = [float(x) for x in re.search(r"[?&]a=([-\d.,]+)", tab.url)[1].split(",")]
    assert max(a) - min(a) > 0.1
    assert sum(a) == pytest.approx(0.0, abs=0.02)  # each is rounded to 0.01


def test_the_player_plays_and_pauses(tab, address):
    open_page(tab, address, "/specialization?tau=3&at=0", "specialization-plane")
    settled(tab, "specialization-plane")
    before = tab.evaluate(POINTS.format("specialization-plane"))
    tab.locator("#specialization-play").click()
    tab.wait_for_function(f"{POINTS.format('specialization-plane')} !== {before!r}")
    assert "Pause" in tab.locator("#specialization-play").text_content()
    tab.locator("#specialization-play").click()
    tab.wait_for_function("!location.search.includes('at=0')")
    assert "Play" in tab.locator("#specialization-play").text_content()


@pytest.mark.parametrize("path", ["/polarization?p=99", "/attention?bias=x", "/probe?result=no", "/specialization?x=1"])
def test_a_bad_query_string_gives_a_message(tab, address, path):
    tab.goto(address + path)
    told = tab.locator(".message:not(:empty)").first
    told.wait_for()
    assert "Traceback" not in tab.content()
    assert "\n" not in told.text_content()


def test_another_result_without_the_statistic_can_be_left_again(tab, address):
    open_page(tab, address, "/probe?result=one&statistic=sparsity&layer=1&head=1", "probe-heads")
    assert "layer=1&head=1" in tab.url
    for name in ("two", "one"):
        tab.evaluate(f"window.dash_clientside.set_props('probe-result', {{value: '{name}'}})")
        tab.wait_for_function(f"/result={name}&.*statistic=sink&/.test(location.search)")
        tab.wait_for_function(READY.format("probe-heads"))
        assert name in tab.locator("#probe-result").text_content()


def test_the_theme_follows_the_system_and_the_button(browser, address):
    context = browser.new_context(color_scheme="dark")
    tab = context.new_page()
    tab.goto(address)
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.wait_for_selector("#theme")
    dark = tab.evaluate(ground)
    tab.locator("#theme").click()
    tab.wait_for_function(f"{ground} !== {dark!r}")
    light = tab.evaluate(ground)
    assert brightness(dark) < 0.3 < 0.7 < brightness(light)
    context.close()


def brightness(colour: str) -> float:
    """Of "rgb(r, g, b)", between 0 and 1."""
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / (3 * 255)
