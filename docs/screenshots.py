"""The pictures of the README and screenshots of the explorer: python docs/screenshots.py [FOLDER WITH PROBE RESULTS].

Without a folder the demo model is probed first, which takes a minute. Needs chromium.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import softmaxlab as sl
from softmaxlab.app.server import create, listen, serve

OUT = Path(__file__).parent / "_static"
COLOURS = 128  # of the palette: the pictures are flat, so a third of the bytes
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WAIT = 120_000  # milliseconds on a busy machine
SETTLE = 1500  # for the last picture to be drawn
DRAWN = """() => [...document.querySelectorAll('figure .js-plotly-plot')]
  .filter(plot => plot.offsetParent).every(plot => plot.data.length)
  && !document.querySelector('.sentence').textContent.startsWith('A first look') && location.search.length > 1"""
FIGURES = ("polarization/fig02", "specialization/fig02")
VIEWS = {
    "polarization": "?u=0.6,0.5,0.0&a=-0.3,0.2,0.1",
    "attention": "",
    "probe": "?layer=18&head=8",
    "specialization": "?at=70",
}


def main(folder: str | None) -> None:
    """Write OUT/explore-PAGE.png for every page."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        root = Path(folder or made)
        if folder is None:
            probe = ["probe", "smollm2", "--length", "64", "--samples", "2", "--attention", "18.8,14.3"]
            subprocess.run([sys.executable, "-m", "softmaxlab", *probe, "--out", str(root / "smollm2")], check=True)
        opened = listen(0)
        threading.Thread(target=serve, args=(create(root), opened), daemon=True).start()
        with sync_playwright() as tool:
            browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            tab = browser.new_page(viewport={"width": 1366, "height": 860})
            for name, query in VIEWS.items():
                shoot(tab, f"http://127.0.0.1:{opened.getsockname()[1]}/{name}{query}", OUT / f"explore-{name}.png")
            browser.close()


def shoot(tab: Page, address: str, path: Path) -> None:
    """One page, once its pictures are there."""
    tab.goto(address, timeout=WAIT)
    tab.wait_for_selector(".js-plotly-plot .main-svg", timeout=WAIT)
    tab.wait_for_function(DRAWN, timeout=WAIT)
    tab.wait_for_timeout(SETTLE)
    tab.screenshot(path=path)
    shrink(path)


def draw() -> None:
    """Write the figures of the README, at their quick presets."""
    for id in FIGURES:
        _, figure = sl.run(id, preset="quick")
        path = OUT / f"{id.replace('/', '-')}.png"
        figure.savefig(path, dpi=110)
        shrink(path)


def shrink(path: Path) -> None:
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS)
    small.save(path, optimize=True)


if __name__ == "__main__":
    draw()
    main(sys.argv[1] if len(sys.argv) > 1 else None)
