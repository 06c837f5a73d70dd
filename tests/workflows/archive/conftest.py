import dataclasses
import shutil
from pathlib import Path

import pytest
from archive_pairs import MadeArchive, contents, make_archive
from archive_runs import run
from inline_engine import InlineEngine


@pytest.fixture(scope="module")
def painted(tmp_path_factory) -> MadeArchive:
    """The table and scenes that each test has a copy of."""
    return make_archive(tmp_path_factory.mktemp("painted"), 9, each=1, breakages=("missing", "damaged"))


@pytest.fixture
def made(painted, tmp_path) -> MadeArchive:
    folder = shutil.copytree(painted.table.parent, tmp_path, dirs_exist_ok=True)
    return dataclasses.replace(painted, table=folder / painted.table.name, broken=dict(painted.broken))


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def old(made, out) -> dict[str, bytes]:
    """What the archive holds once the table was run into it."""
    run(made, out, InlineEngine())
    return contents(out)
