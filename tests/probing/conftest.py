"""Where tests find the converted demo model: converting it takes a minute, so once a machine is enough."""

import os
import tempfile
from pathlib import Path

import pytest

from softmaxlab.probing import gguf


@pytest.fixture
def demo_cache(monkeypatch) -> None:
    """The user's own cache if the copy is there already, else a folder that outlives the tests."""
    if not list(gguf.cache_folder().glob(f"{gguf.DEMO}-*")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(Path(tempfile.gettempdir()) / f"softmaxlab-tests-{os.getuid()}"))
