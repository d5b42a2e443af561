"""The docs build without network or warning, their links resolve, and their code runs."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from softmaxlab.papers.facts import claim_facts

PROJECT = Path(__file__).parents[1]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("**/*.md"))]
PAGES = [page for page in PAGES if not {"_build", "_generated", "lessons"} & set(page.parts)]  # lessons: from notebooks


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p.read_text())], ids=lambda p: p.name)
def test_code_blocks_run(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(python_blocks(page.read_text())))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_docs_build_and_ask_no_server(tmp_path):
    """Without the pictures of the gallery, whose examples tests/test_examples.py runs."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-D", "plot_gallery=0", str(PROJECT / "docs"), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for page in tmp_path.glob("**/*.html"):
        html = page.read_text()
        loaded = re.findall(r'(?:<script[^>]*src|<link[^>]*rel="stylesheet"[^>]*href|<img[^>]*src)="([^"]+)"', html)
        assert not [address for address in loaded if "//" in address], page
    assert "mathjax/tex-chtml.js" in (tmp_path / "attention.html").read_text()
    assert (tmp_path / "_static" / "mathjax" / "tex-chtml.js").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_relative_links_resolve(page):
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("paper", ["polarization", "specialization", "attention", "studies"])
def test_the_readme_counts_the_verdicts(paper):
    row = next(line for line in (PROJECT / "README.md").read_text().splitlines() if re.match(rf"\| \[?{paper}", line))
    counts = Counter(claim.expected for id, claim in claim_facts().items() if id.startswith(f"{paper}/"))
    verdicts = ("holds", "holds with condition", "fails as stated", "undecided")
    assert [int(cell.strip() or 0) for cell in row.split("|")[4:8]] == [counts[verdict] for verdict in verdicts]


def test_the_readme_commands_are_what_ci_runs():
    readme = (PROJECT / "README.md").read_text()
    command = "pip install uv && uv run pytest"
    assert f"```bash\n{command}\n```" in readme
    assert (PROJECT / ".ci" / "run").read_text().splitlines()[-1] == command
    assert "```bash\npip install uv && uv run softmaxlab reproduce\n```" in readme
