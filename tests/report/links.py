"""Where the pages of a folder lead."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class _Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.names: list[str] = []
        self.unnamed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        found = dict(attrs)
        self.links += [found[name] for name in ("href", "src") if found.get(name)]
        if found.get("id"):
            self.names.append(found["id"])
        if tag == "img" and not found.get("alt"):
            self.unnamed.append(str(attrs))


def troubles(folder: Path) -> list[str]:
    """Links that lead out or nowhere, names given twice, pictures without words, in all pages below a folder."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    wrong = []
    for path, page in pages.items():
        wrong += [f"{path.name}: picture without words {image}" for image in page.unnamed]
        wrong += [f"{path.name}: {name} is given twice" for name in set(page.names) if page.names.count(name) > 1]
        wrong += [f"{path.name}: {link}" for link in page.links if not _leads(link, path, folder.resolve(), pages)]
    return wrong


def _leads(link: str, path: Path, folder: Path, pages: dict[Path, _Page]) -> bool:
    if link.startswith("data:"):
        return True
    if ":" in link or link.startswith("/"):
        return False
    file, name = urldefrag(link)
    target = (path.parent / unquote(file)).resolve() if file else path
    if not target.is_file() or not target.is_relative_to(folder):
        return False
    return not name or (target in pages and name in pages[target].names)
