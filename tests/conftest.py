"""Strict everywhere: warnings are errors (pyproject), one thread per worker, reproducible property tests."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# derandomize: the same examples on every machine; no deadline: a shared runner may stall
settings.register_profile("softmaxlab", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("softmaxlab")

# a shell that starts tests in the background has them ignore Ctrl-C, and so would the processes they send it to
signal.signal(signal.SIGINT, signal.default_int_handler)

PLUGINS = os.environ.get("SOFTMAXLAB_PLUGINS", "")


def pytest_collection_finish() -> None:
    """What test modules register at import is theirs: processes that tests start must not look for it."""
    os.environ["SOFTMAXLAB_PLUGINS"] = PLUGINS
    os.environ["SOFTMAXLAB_PLUGIN_FOLDERS"] = ""  # the folder of the tests is no plugin's: workers import from it


@pytest.fixture(autouse=True, scope="session")
def _away_from_the_project(tmp_path_factory):
    """What modules make once is made in another folder too: workers do not import from the current folder."""
    os.chdir(tmp_path_factory.mktemp("session"))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Tests run in a folder of their own, so what they write does not land in the repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOFTMAXLAB_PLUGINS", PLUGINS)
    monkeypatch.setenv("SOFTMAXLAB_PLUGIN_FOLDERS", "")
