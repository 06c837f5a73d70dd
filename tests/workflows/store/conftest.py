from pathlib import Path

import pytest

from workflows.store.identity import SceneIdentities
from workflows.store.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def scene(tmp_path) -> Path:
    path = tmp_path / "scene.tif"
    path.write_bytes(bytes(range(256)) * 1000)
    return path


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The files that are read from here on."""
    paths, real = [], SceneIdentities._read
    monkeypatch.setattr(
        SceneIdentities, "_read", lambda self, *file: paths.append(file[0]) or real(self, *file)
    )
    return paths


@pytest.fixture
def unreadable(monkeypatch) -> None:
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(SceneIdentities, "_read", refuse)
