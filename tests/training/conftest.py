import pytest


@pytest.fixture
def marks(tmp_path, monkeypatch) -> str:
    """Where trials leave their marks; and workers are told where trials are defined."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv("SOFTMAXLAB_PLUGINS", "tests.training.faults")
    return str(folder)
